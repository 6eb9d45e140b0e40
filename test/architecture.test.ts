/**
 * The import rules of the house as data, and the checks that hold `src/` to them.
 * A new folder or a new permission is a line in `layers`; an import that no line allows fails.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join, normalize } from "node:path"
import { fileURLToPath } from "node:url"

/** Path from `src/` → text. */
type Sources = ReadonlyMap<string, string>

interface Layer {
  readonly name: string
  /** Files of this layer; the first layer that matches a file has it. */
  readonly files: RegExp
  /** Layers it may import besides itself. */
  readonly imports: ReadonlyArray<string> | "all"
  /** Layers from which it may import types, and nothing that exists while the program runs. */
  readonly types?: ReadonlyArray<string>
  /** Packages it may import besides `effect`. */
  readonly packages: RegExp
}

const none = /^$/
const crypto = /^node:crypto$/
const ports = ["port", "state", "service"]

const layers: ReadonlyArray<Layer> = [
  {
    name: "port",
    files:
      /^(source\/(MonotonicClock|Source|SourceError|RequestBudget)|fleet\/(Calls|Placement)|publish\/Sink|telemetry\/(MetricExport|Tracing))\.ts$/,
    imports: ["state", "domain", "api"],
    packages: none
  },
  // small services of the store: the service and its implementation are in one file
  {
    name: "service",
    files: /^store\/(CallQueue|Processes|RequestLeases|StoredSessions)\.ts$/,
    imports: ["state", "store", "domain"],
    packages: crypto
  },
  // what the other layers see of the store: its services, values and errors. The type of a service is that of its implementation
  { name: "state", files: /^store\/\w+\.ts$/, imports: ["domain", "api"], types: ["store", "service"], packages: none },
  // re2js: foreign patterns are matched in linear time
  { name: "api", files: /^api\//, imports: [], packages: /^re2js$/ },
  { name: "domain", files: /^domain\//, imports: ["api"], packages: crypto },
  // the only layer that makes HTTP clients
  {
    name: "network",
    files: /^network\//,
    imports: ["domain"],
    packages: /^(@effect\/platform-node\/NodeHttpClient|node:(http|https|net))$/
  },
  {
    name: "source",
    files: /^source\//,
    imports: [...ports, "network", "domain", "api"],
    packages: /^(@effect\/platform-node\/NodeStream|node:(buffer|crypto|util|zlib))$/
  },
  {
    name: "store",
    files: /^store\//,
    imports: [...ports, "domain", "api"],
    packages: /^(@effect\/sql-pg|node:(crypto|fs|path|sqlite|tls|url|worker_threads|zlib)$)/
  },
  { name: "fleet", files: /^fleet\//, imports: [...ports, "domain"], packages: none },
  {
    name: "relay",
    files: /^publish\/(LogBatches|Progress|Relay|RelayStatus|ResumePoint|Retention)\.ts$/,
    imports: [...ports, "domain"],
    packages: none
  },
  {
    name: "schema",
    files: /^publish\/(EventSchema|RecordColumns|RecordSchema|SchemaDocuments)\.ts$/,
    imports: ["domain", "api"],
    packages: none
  },
  {
    name: "publish",
    files: /^publish\//,
    imports: [...ports, "network", "domain", "api", "schema"],
    packages: /^(kafkajs|@platformatic\/kafka|node:(crypto|fs\/promises|module|net|tls|util|zlib))$/
  },
  { name: "capture", files: /^capture\//, imports: [...ports, "domain", "api"], packages: crypto },
  { name: "fleet", files: /^fleet\//, imports: [...ports, "domain"], packages: none },
  { name: "plugin", files: /^plugin\//, imports: ["domain", "api"], packages: /^node:(async_hooks|fs\/promises)$/ },
  {
    name: "testing",
    files: /^testing\//,
    imports: [...ports, "domain", "api", "plugin", "delivery"],
    packages: /^node:/
  },
  { name: "events", files: /^events\//, imports: ["domain", "schema", "plugin"], packages: none },
  {
    name: "delivery",
    files: /^delivery\//,
    imports: [...ports, "domain", "api", "plugin"],
    packages: /^node:(async_hooks|crypto|perf_hooks|v8)$/
  },
  // the world is pure; the server shows it over HTTP
  { name: "world", files: /^sandbox\/(ApiError|world\/.*)\.ts$/, imports: ["api"], packages: none },
  {
    name: "sandbox",
    files: /^sandbox\//,
    imports: ["api", "world"],
    packages: /^(@effect\/platform-node\/|node:http$)/
  },
  { name: "telemetry", files: /^telemetry\//, imports: [...ports, "network", "domain"], packages: /^node:/ },
  {
    name: "http",
    files: /^http\//,
    imports: [...ports, "domain", "api", "schema", "capture", "delivery"],
    packages: /^(@effect\/platform-node\/|node:)/
  },
  // the commands that run adapters, instead of calling a running process
  {
    name: "main",
    files:
      /^(main|app\/.*|cli\/(.*\/)?(Demo|Doctor|GivenEvent|HandlerReport|Rollcall|SandboxService|Story|(Demo|Dev|Doctor|Lists|Plugins|Sandbox|Schema|Start|Store)Command))\.ts$/,
    imports: "all",
    packages: /./
  },
  {
    name: "cli",
    files: /^cli\//,
    imports: [
      ...ports,
      "network",
      "domain",
      "api",
      "configuration",
      "capture",
      "delivery",
      "http",
      "schema",
      "telemetry"
    ],
    packages: /^(@effect\/platform-node\/|node:)/
  },
  {
    name: "configuration",
    files: /^config\//,
    imports: ["domain", "api", "network", "plugin"],
    packages: /^node:/
  }
]

/** The order of these folders leaves out their own files, which join what the subfolders export, or which the subfolders use. */
const assembled: ReadonlySet<string> = new Set(["http", "publish/kafka", "store"])

const longest = 600
const vague = /^(utils?|helpers?|common|shared|misc|managers?|types)$/i
/** Their barrels double the time to start; import the module that is meant. */
const barrels: ReadonlySet<string> = new Set(["effect", "@effect/platform-node"])

// ---- reading ------------------------------------------------------------------------------------------------------

const read = (folder: string): Sources => {
  const root = fileURLToPath(new URL(`../${folder}`, import.meta.url))
  if (!existsSync(root)) return new Map()
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

// ---- rules: each returns its violations as sentences ----------------------------------------------------------------

const homeless = (sources: Sources) => [...sources.keys()].filter((path) => layerOf(path) === undefined)

const wrongImports = (sources: Sources): ReadonlyArray<string> =>
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

const wrongPackages = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) => {
    const packages = layerOf(path)?.packages ?? none
    return importsOf(text)
      .filter((name) => !isRelative(name) && name !== "effect" && !name.startsWith("effect/") && !packages.test(name))
      .map((name) => `${path} imports ${name}`)
  })

const barrelImports = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) =>
    importsOf(text).filter((name) => barrels.has(name)).map((name) => `${path} imports the barrel ${name}`)
  )

/** A client that is made elsewhere would not use the proxy, and would send headers about traces. */
const strayClients = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) =>
    path.startsWith("network/") ? [] : importsOf(text)
      .filter((name) => /\/(NodeHttpClient|FetchHttpClient|Undici)$|^undici$/.test(name))
      .map((name) => `${path} imports ${name}`)
  )

/** `ClusterPlacement` gives the client to the cluster of Effect. */
const knowsSql = /^(store\/|fleet\/ClusterPlacement\.ts$)/

/** Other layers use the services of the store, never its SQL client. */
const straySql = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) =>
    knowsSql.test(path) ? [] : importsOf(text)
      .filter((name) => name.startsWith("effect/sql/"))
      .map((name) => `${path} imports ${name}`)
  )

/** What joins, describes or types the built-in entries. Everything else reads `CurrentModels`, so that it knows defined lists too. */
const knowsBuiltIns =
  /^(domain|config|events|testing|cli\/lists)\/|^(http\/contract\/Api|capture\/derived\/ApplicationChanges)\.ts$/

const strayBuiltIns = (sources: Sources): ReadonlyArray<string> =>
  [...sources].flatMap(([path, text]) => {
    if (knowsBuiltIns.test(path)) return []
    const imported = [...withoutTypes(text).matchAll(/^import \{([^}]*)\} from "[^"]*\/BuiltInModels\.ts"/gm)]
      .flatMap(([, names = ""]) => names.split(",").map((name) => name.trim()))
      .filter((name) => name !== "" && name !== "CurrentModels" && !name.startsWith("type "))
    const byDefault = [...text.matchAll(/\b(?:defaultProcessing|unchanging)\([\w.]+\)/g)].map(([call]) => call)
    return [...imported, ...byDefault].map((found) => `${path} knows only the built-in models: ${found}`)
  })

/** By default, `CurrentModels` has only the built-in models: a command that reads a configuration must provide its models. */
const lostModels = (sources: Sources): ReadonlyArray<string> =>
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

const cycles = (sources: Sources): ReadonlyArray<string> =>
  cyclesIn(new Map([...sources].map((source) => [source[0], targetsOf(source)])))

const foldersAbove = (path: string): ReadonlyArray<string> =>
  path.includes("/") ? [dirname(path), ...foldersAbove(dirname(path))] : []

/** The parts of each folder are its subfolders and its own files. Of an `assembled` folder, only the subfolders are. */
const folderCycles = (sources: Sources): ReadonlyArray<string> =>
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
const wrongPluginImports = (plugins: Sources): ReadonlyArray<string> =>
  [...plugins].flatMap(([path, text]) => {
    const allowed = path.endsWith(".test.ts")
      ? /^(#plugin|#testing|effect\/.*|node:(assert|test)(\/.*)?|vitest|@effect\/vitest|cloudevents|standardwebhooks)$/
      : /^(#plugin|effect\/.*)$/
    const folder = path.split("/")[0]
    return importsOf(text)
      .filter((name) => isRelative(name) ? target(path, name).split("/")[0] !== folder : !allowed.test(name))
      .map((name) => `plugins/${path} imports ${name}`)
  })

const tooLong = (sources: Sources): ReadonlyArray<string> =>
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
const eager = (sources: Sources): ReadonlyArray<string> => {
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

const vagueNames = (sources: Sources): ReadonlyArray<string> =>
  [...sources.keys()].filter((path) =>
    [...dirname(path).split("/"), basename(path, ".ts")].some((part) => vague.test(part))
  )

// ---- tests ----------------------------------------------------------------------------------------------------

describe("architecture", () => {
  const sources = read("src")
  const plugins = read("plugins")
  const holds = (sentence: string, rule: (sources: Sources) => ReadonlyArray<string>, of = sources) =>
    it(sentence, () => assert.deepStrictEqual(rule(of), []))

  holds("every file belongs to a layer", homeless)
  holds("imports run one way", wrongImports)
  holds("only the layer that is meant for it imports a package", wrongPackages)
  holds("no barrel is imported", barrelImports)
  holds("only the layer network makes HTTP clients", strayClients)
  holds("only the store uses the SQL client", straySql)
  holds("only what describes the built-in models knows them instead of the models of the process", strayBuiltIns)
  holds("every command that reads a configuration runs with its models", lostModels)
  holds("no imports form a cycle", cycles)
  holds("the subfolders of a folder import each other one way", folderCycles)
  holds(`no file is longer than ${longest} lines`, tooLong)
  holds("no name is vague", vagueNames)
  holds("what only some commands and configurations need is not loaded by every start", eager)
  holds("plugins import what everybody's plugins can import", wrongPluginImports, plugins)
})

describe("the architecture rules", () => {
  const catches = (
    sentence: string,
    rule: (sources: Sources) => ReadonlyArray<string>,
    files: Readonly<Record<string, string>>,
    violation: string
  ) => it(sentence, () => assert.deepStrictEqual(rule(new Map(Object.entries(files))), [violation]))

  catches("see a file outside every layer", homeless, { "stray/File.ts": "" }, "stray/File.ts")
  catches(
    "see an import against the direction",
    wrongImports,
    { "domain/Model.ts": 'import type {\n  Store\n} from "../store/Store.ts"\n' },
    "domain/Model.ts (domain) imports ../store/Store.ts (state)"
  )
  catches(
    "see an adapter named outside the composition root",
    wrongImports,
    {
      "capture/read/Poll.ts": 'const a = await import("../../store/sqlite/Sqlite.ts")',
      "main.ts": 'import "./store/sqlite/Sqlite.ts"'
    },
    "capture/read/Poll.ts (capture) imports ../../store/sqlite/Sqlite.ts (store)"
  )
  catches(
    "see more than a type imported from the implementation of a service",
    wrongImports,
    {
      "store/Store.ts": 'import type * as SqlStore from "./sql/SqlStore.ts"',
      "store/Deliveries.ts": 'import { layer } from "./sql/SqlStore.ts"'
    },
    "store/Deliveries.ts (state) imports ./sql/SqlStore.ts (store)"
  )
  catches(
    "see a driver outside its adapter",
    wrongPackages,
    {
      "capture/read/Poll.ts": 'import { Kafka } from "kafkajs"',
      "publish/kafka/KafkaSink.ts": 'import { Kafka } from "kafkajs"'
    },
    "capture/read/Poll.ts imports kafkajs"
  )
  catches(
    "see a barrel",
    barrelImports,
    { "api/A.ts": 'import { Effect } from "effect"', "api/B.ts": 'import * as Effect from "effect/Effect"' },
    "api/A.ts imports the barrel effect"
  )
  catches(
    "see an HTTP client that is made elsewhere",
    strayClients,
    {
      "cli/A.ts": 'import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"',
      "network/B.ts": 'import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"'
    },
    "cli/A.ts imports @effect/platform-node/NodeHttpClient"
  )
  catches(
    "see the SQL client outside the store",
    straySql,
    {
      "store/Processes.ts": 'import { SqlClient } from "effect/sql/SqlClient"',
      "http/A.ts": 'import { SqlClient } from "effect/sql/SqlClient"'
    },
    "http/A.ts imports effect/sql/SqlClient"
  )
  catches(
    "see a module that knows only the built-in models",
    strayBuiltIns,
    {
      "capture/read/A.ts":
        'import { builtInModels, CurrentModels, type ReadModel } from "../../domain/BuiltInModels.ts"',
      "capture/read/B.ts": 'import type { BuiltInModel } from "../../domain/BuiltInModels.ts"'
    },
    "capture/read/A.ts knows only the built-in models: builtInModels"
  )
  catches(
    "see a processing by the built-in models",
    strayBuiltIns,
    { "capture/read/A.ts": "defaultProcessing(key.model)\ndefaultProcessing(key.model, models)" },
    "capture/read/A.ts knows only the built-in models: defaultProcessing(key.model)"
  )
  catches(
    "see a command that loses the models of its configuration",
    lostModels,
    { "cli/A.ts": "Config.check(input)", "cli/B.ts": "Config.check(input)\nwithSettings(settings)" },
    "cli/A.ts"
  )
  catches(
    "see a cycle",
    cycles,
    {
      "api/A.ts": 'export * from "./B.ts"',
      "api/B.ts": 'import type { C } from "./C.ts"',
      "api/C.ts": 'import "./B.ts"'
    },
    "api/B.ts → api/C.ts → api/B.ts"
  )
  catches(
    "see folders that import each other, although their files form no cycle",
    folderCycles,
    {
      "api/a/A.ts": 'import "../b/B.ts"',
      "api/b/B.ts": "",
      "api/b/C.ts": 'import "../C.ts"\nimport "./B.ts"',
      "api/C.ts": 'import "./a/A.ts"',
      "http/A.ts": 'import "./a/B.ts"',
      "http/a/A.ts": 'import "../A.ts"',
      "http/a/B.ts": ""
    },
    "api: a → b → C.ts → a"
  )
  catches(
    "see a plugin that imports what is ours, or another plugin's",
    wrongPluginImports,
    {
      "a/plugin.ts":
        'import * as Plugin from "#plugin"\nimport { b } from "./B.ts"\nimport * as Effect from "effect/Effect"',
      "a/B.ts": "",
      "a/plugin.test.ts": 'import { test } from "node:test"\nimport * as Testing from "#testing"',
      "b/plugin.ts": 'import { b } from "../a/B.ts"'
    },
    "plugins/b/plugin.ts imports ../a/B.ts"
  )
  catches(
    "see a plugin that reaches into the sources",
    wrongPluginImports,
    { "a/plugin.ts": 'import type { Model } from "../../src/domain/Model.ts"' },
    "plugins/a/plugin.ts imports ../../src/domain/Model.ts"
  )
  catches("see a long file", tooLong, { "api/A.ts": "\n".repeat(longest) }, "api/A.ts")
  catches(
    "see a module that is loaded too early",
    eager,
    {
      "main.ts": 'import type { A } from "./ops/Demo.ts"\nawait import("./ops/Doctor.ts")\nimport "./ops/B.ts"',
      "ops/B.ts": 'import { type C, D } from "../publish/kafka/KafkaSink.ts"'
    },
    "publish/kafka/KafkaSink.ts"
  )
  catches("see a vague name", vagueNames, { "api/helpers/A.ts": "", "api/B.ts": "" }, "api/helpers/A.ts")
})
