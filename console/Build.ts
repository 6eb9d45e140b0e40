/**
 * Builds the console: one script, one style sheet, the icon, and the licenses of the packages in the script. The build of the package
 * and a process in a clone call it.
 */
import * as esbuild from "esbuild"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const folder = import.meta.dirname
const modules = join(folder, "../node_modules")

/** The packages whose code is in the script. `sbom.ts` lists them; a test compares. */
export const bundledPackages = ["@preact/signals", "@preact/signals-core", "preact", "uplot"] as const

/** `node_modules/@preact/signals/dist/signals.mjs` → `@preact/signals` */
const packageOf = (path: string): string | null =>
  /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? null

const licenseOf = (name: string): string => {
  const directory = join(modules, name)
  const { license, version } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"))
  const file = readdirSync(directory).find((entry) => /^licen[sc]e/i.test(entry))
  const text = file === undefined ? "" : readFileSync(join(directory, file), "utf8").trim()
  return `${name} ${version} (${license})\n\n${text}\n`
}

/** The glossary of the documentation: words with their meaning. */
const glossary = (): ReadonlyArray<readonly [words: string, meaning: string]> => {
  const [, section = ""] = readFileSync(join(folder, "../docs/index.md"), "utf8").split("\n## Glossary\n")
  return [...section.matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)].slice(1).map((
    [, words = "", meaning = ""]
  ) => [words, meaning.replaceAll("`", "")])
}

/** Name → content of each file. */
export const build = async (): Promise<ReadonlyMap<string, Uint8Array>> => {
  const { metafile, outputFiles } = await esbuild.build({
    entryPoints: { script: join(folder, "Main.tsx"), style: join(folder, "style.css") },
    outdir: "out",
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: ["chrome109", "firefox115", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    define: {
      "process.env.NODE_ENV": '"production"',
      GLOSSARY: JSON.stringify(glossary())
    },
    metafile: true,
    logLevel: "silent"
  })
  await esbuild.stop()
  const names = new Set(Object.keys(metafile.inputs).flatMap((path) => packageOf(path) ?? []))
  const unlisted = [...names].filter((name) => !bundledPackages.some((listed) => listed === name))
  if (unlisted.length > 0) throw new Error(`console/Build.ts does not list these packages: ${unlisted.join(", ")}`)
  const contentOf = (name: string): Uint8Array => {
    const file = outputFiles.find(({ path }) => path.endsWith(name))
    if (file === undefined) throw new Error(`the build of the console has no ${name}`)
    return file.contents
  }
  const text = new TextEncoder()
  return new Map([
    ["console.js", contentOf("script.js")],
    ["console.css", contentOf("style.css")],
    ["icon.svg", new Uint8Array(readFileSync(join(folder, "icon.svg")))],
    ["licenses.txt", text.encode([...names].toSorted().map(licenseOf).join("\n---\n\n"))]
  ])
}
