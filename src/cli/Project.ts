/**
 * The user's project: its package.json in the working directory, and the version of Effect that its files import.
 *
 * Gotchas
 * - Plugins and Rollcall must share one copy of Effect, so Effect is a peer dependency of Rollcall and a dependency of the project.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { CommandError } from "./terminal/Process.ts"

type Dependencies = Readonly<Record<string, string>>

export interface Project {
  readonly imports?: Readonly<Record<string, unknown>>
  readonly type?: unknown
  readonly dependencies?: Dependencies
  readonly devDependencies?: Dependencies
  readonly peerDependencies?: Dependencies
}

const file = "package.json"

const isProject = (value: unknown): value is Project =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Null if the text is not a JSON object. Like npm, it accepts a byte order mark. */
const parse = (text: string): Project | null => {
  try {
    const value: unknown = JSON.parse(text.replace(/^\uFEFF/, ""))
    return isProject(value) ? value : null
  } catch {
    return null
  }
}

/** The package.json of the working directory; an empty object if there is none. */
export const readProject = (): Project => {
  if (!existsSync(file)) return {}
  const project = parse(readFileSync(file, "utf8"))
  if (project !== null) return project
  throw new CommandError({
    message: `${file} is not a JSON object; nothing was changed`,
    hint: "Correct the file, or run the command in the folder of your project."
  })
}

/** Whether the project is a clone of Rollcall: only its package.json has these imports. */
export const isClone = ({ imports }: Project): boolean => imports?.["#plugin"] !== undefined

/** The versions of Effect that Rollcall works with: `~4.1.0`. */
export const effectRange = (): string => {
  const own = readFileSync(fileURLToPath(new URL("../../package.json", import.meta.url)), "utf8")
  const { peerDependencies }: { readonly peerDependencies: { readonly effect: string } } = JSON.parse(own)
  return peerDependencies.effect
}

/** The versions of Effect that the project declares; null if it declares none. */
export const effectOf = ({ dependencies, devDependencies, peerDependencies }: Project): string | null =>
  dependencies?.["effect"] ?? devDependencies?.["effect"] ?? peerDependencies?.["effect"] ?? null

const installedEffect = (): string | null => {
  try {
    const manifest = createRequire(join(process.cwd(), file)).resolve("effect/package.json")
    const { version }: { readonly version: string } = JSON.parse(readFileSync(manifest, "utf8"))
    return version
  } catch {
    return null
  }
}

/** Refuses a project whose files would import a different copy of Effect than Rollcall. */
export const requireRightEffect = (project: Project): void => {
  const declared = effectOf(project)
  const installed = installedEffect()
  const range = effectRange()
  const minor = (version: string): string => version.replace(/^~/, "").split(".").slice(0, 2).join(".")
  if (declared === null || installed === null || minor(installed) === minor(range)) return
  throw new CommandError({
    message: `this project uses effect ${installed}, but plugins need effect ${range}; nothing was changed`,
    hint: "Keep Rollcall and its plugins in a folder with its own package.json, or use that version of Effect here."
  })
}

/** Adds Effect to the dependencies of package.json, which keeps its indentation; does nothing if there is no package.json. */
export const addEffect = (project: Project): void => {
  if (!existsSync(file)) return
  const text = readFileSync(file, "utf8")
  const dependencies = Object.entries({ ...project.dependencies, effect: effectRange() })
  const sorted = Object.fromEntries(dependencies.toSorted(([a], [b]) => a < b ? -1 : 1))
  const indent = /^[ \t]+(?=")/m.exec(text)?.[0] ?? "  "
  writeFileSync(file, `${JSON.stringify({ ...project, dependencies: sorted }, null, indent)}\n`)
}
