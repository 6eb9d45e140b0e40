/** The layers of `src/` and their permitted imports. A new folder or a new permission is a line in `layers`. */

export interface Layer {
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

export const none = /^$/
const crypto = /^node:crypto$/
const ports = ["port", "state", "service"]

export const layers: ReadonlyArray<Layer> = [
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
export const assembled: ReadonlySet<string> = new Set(["http", "publish/kafka", "store"])
