/** The architecture rules, each a function that returns its violations as sentences. */
import { readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join, normalize } from "node:path"
import { fileURLToPath } from "node:url"
import { assembled, type Layer, layers, none } from "./Layers.ts"

/** Path from the folder → text. */
export type Sources = ReadonlyMap<string, string>

export const longest = 600
const vague = /^(utils?|helpers?|common|shared|misc|managers?|types)$/i
/** Their barrels double the time to start; import the module that is meant. */
const barrels: ReadonlySet<string> = new Set(["effect", "@effect/platform-node"])

export const read = (folder: string): Sources => {
  const root = fileURLToPath(new URL(`../../${folder}`, import.meta.url))
  return new Map(
    readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts") && (folder !== "src" || !path.endsWith(".test.ts")))
      .map((path) => [path, readFileSync(join(root, path), "utf8")])
  )
}

const importsOf = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/(?:^(?:import|export)\b[^"';]*?\bfrom\s*|^import\s*|\bimport\(\s*)"([^"]+)"/gm)]
    .map((match) => match[1] ?? "")

/** Without the imports that exist only while types are checked. */
const withoutTypes = (text: string): string => text.replaceAll(/^(import|export) type\b[^;"]*?\bfrom\s*"[^"]+"/gm, "")

const isRelative = (specifier: string): boolean => specifier.startsWith(".")
const target = (path: string, specifier: string): string => normalize(join(dirname(path), specifier))
const layerOf = (path: string): Layer | undefined => layers.find((layer) => layer.files.test(path))

export const homeless = (sources: Sources) => [...sources.keys()].filter((path) => layerOf(path) === undefined)

export const wrongImports = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) => {
    const layer = layerOf(path)
    if (layer === undefined || layer.imports === "all") return []
    const allowed = new Set([layer.name, ...layer.imports])
    const asTypes = new Set(layer.types)
    const used = importsOf(withoutTypes(text))
    return importsOf(text).filter(isRelative).flatMap((specifier) => {
      const other = layerOf(target(path, specifier))?.name ?? "nothing known"
      const isAllowed = allowed.has(other) || (asTypes.has(other) && !used.includes(specifier))
      return isAllowed ? [] : [`${path} (${layer.name}) imports ${specifier} (${other})`]
    })
  })

/** The imports of files that `isWrong` finds. */
const wrongly = (isWrong: (path: string, specifier: string) => boolean) => (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) =>
    importsOf(text).filter((name) => isWrong(path, name)).map((name) => `${path} imports ${name}`)
  )

export const wrongPackages = wrongly((path, name) =>
  !isRelative(name) && name !== "effect" && !name.startsWith("effect/") &&
  !(layerOf(path)?.packages ?? none).test(name)
)

export const barrelImports = wrongly((_, name) => barrels.has(name))

/** A client that is made elsewhere would not use the proxy, and would send headers about traces. */
export const strayClients = wrongly((path, name) =>
  !path.startsWith("network/") && /\/(NodeHttpClient|FetchHttpClient|Undici)$|^undici$/.test(name)
)

/** `ClusterPlacement` gives the client to the cluster of Effect. */
const knowsSql = /^(store\/|fleet\/ClusterPlacement\.ts$)/

/** Other layers use the services of the store, never its SQL client. */
export const straySql = wrongly((path, name) => !knowsSql.test(path) && name.startsWith("effect/sql/"))

/** What joins, describes or types the built-in entries. Everything else reads `CurrentModels`, so that it knows defined lists too. */
const knowsBuiltIns =
  /^(domain|config|events|testing|cli\/lists)\/|^(http\/contract\/Api|capture\/derived\/ApplicationChanges)\.ts$/

export const strayBuiltIns = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) => {
    if (knowsBuiltIns.test(path)) return []
    const imported = [...withoutTypes(text).matchAll(/^import \{([^}]*)\} from "[^"]*\/BuiltInModels\.ts"/gm)]
      .flatMap(([, names = ""]) => names.split(",").map((name) => name.trim()))
      .filter((name) => name !== "" && name !== "CurrentModels" && !name.startsWith("type "))
    const byDefault = [...text.matchAll(/\b(?:defaultProcessing|unchanging)\([\w.]+\)/g)].map(([call]) => call)
    return [...imported, ...byDefault].map((found) => `${path} knows only the built-in models: ${found}`)
  })

/** By default, `CurrentModels` has only the built-in models: a command that reads a configuration must provide its models. */
export const lostModels = (sources: Sources): ReadonlyArray<string> =>
  [...sources].filter(([, text]) =>
    /\bConfig\.check\(/.test(text) && !/\bwithSettings\(|\bprovideService\(CurrentModels,/.test(text)
  ).map(([path]) => path)

/** Each cycle once, as the path that closes it. */
const cyclesIn = (imports: ReadonlyMap<string, Iterable<string>>): ReadonlyArray<string> => {
  const found: Array<string> = []
  const done = new Set<string>()
  const visit = (path: string, trail: ReadonlyArray<string>): void => {
    if (trail.includes(path)) {
      found.push([...trail.slice(trail.indexOf(path)), path].join(" → "))
      return
    }
    if (done.has(path)) return
    for (const other of imports.get(path) ?? []) visit(other, [...trail, path])
    done.add(path)
  }
  for (const path of imports.keys()) visit(path, [])
  return found
}

const targetsOf = ([path, text]: readonly [string, string]): ReadonlyArray<string> =>
  importsOf(text).filter(isRelative).map((specifier) => target(path, specifier))

export const cycles = (sources: Sources): ReadonlyArray<string> =>
  cyclesIn(new Map([...sources].map((source) => [source[0], targetsOf(source)])))

const foldersAbove = (path: string): ReadonlyArray<string> =>
  path.includes("/") ? [dirname(path), ...foldersAbove(dirname(path))] : []

/** The parts of each folder are its subfolders and its own files. Of an `assembled` folder, only the subfolders are. */
export const folderCycles = (sources: Sources): ReadonlyArray<string> =>
  [...new Set([...sources.keys()].flatMap(foldersAbove))].flatMap((folder) => {
    const parts = new Map<string, Set<string>>()
    const partOf = (path: string): string | undefined => {
      const [part, ...inner] = path.startsWith(`${folder}/`) ? path.slice(folder.length + 1).split("/") : []
      return inner.length === 0 && assembled.has(folder) ? undefined : part
    }
    for (const source of sources) {
      const part = partOf(source[0])
      if (part === undefined) continue
      const others = parts.get(part) ?? new Set()
      for (const other of targetsOf(source).map(partOf)) if (other !== undefined && other !== part) others.add(other)
      parts.set(part, others)
    }
    return cyclesIn(parts).map((cycle) => `${folder}: ${cycle}`)
  })

/** The bundled plugins import only the public modules that every plugin can import. */
export const wrongPluginImports = wrongly((path, name) => {
  const allowed = path.endsWith(".test.ts")
    ? /^(#plugin|#testing|effect\/.*|node:(assert|test)(\/.*)?|vitest|@effect\/vitest|cloudevents|standardwebhooks)$/
    : /^(#plugin|effect\/.*)$/
  return isRelative(name) ? target(path, name).split("/")[0] !== path.split("/")[0] : !allowed.test(name)
})

export const tooLong = (sources: Sources): ReadonlyArray<string> =>
  [...sources].filter(([, text]) => text.split("\n").length > longest).map(([path]) => path)

/** Modules that are slow to load and that not every start needs. */
const heavy = [
  "delivery/engine/DeliveryEngine.ts",
  "cli/demo/Demo.ts",
  "cli/doctor/Doctor.ts",
  "publish/kafka/KafkaSink.ts",
  "sandbox/Sandbox.ts"
]

/** Of those, what is loaded with `main.ts`: by imports that are neither types nor made later. */
export const eager = (sources: Sources): ReadonlyArray<string> => {
  const loaded = new Set<string>()
  const load = (path: string): void => {
    if (loaded.has(path)) return
    loaded.add(path)
    const text = withoutTypes(sources.get(path) ?? "").replaceAll(/\bimport\("[^"]+"\)/g, "")
    for (const specifier of importsOf(text).filter(isRelative)) load(target(path, specifier))
  }
  load("main.ts")
  return heavy.filter((path) => loaded.has(path))
}

export const vagueNames = (sources: Sources): ReadonlyArray<string> =>
  [...sources.keys()].filter((path) =>
    [...dirname(path).split("/"), basename(path, ".ts")].some((part) => vague.test(part))
  )
