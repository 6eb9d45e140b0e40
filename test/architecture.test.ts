/** Holds `src/` and `plugins/` to the architecture rules, and shows that each rule catches what it forbids. */
import { assert, describe, it } from "@effect/vitest"
import * as Rules from "./architecture/Rules.ts"

describe("architecture", () => {
  const sources = Rules.read("src")
  const plugins = Rules.read("plugins")
  const holds = (sentence: string, rule: (sources: Rules.Sources) => ReadonlyArray<string>, of = sources) =>
    it(sentence, () => assert.deepStrictEqual(rule(of), []))

  holds("every file belongs to a layer", Rules.homeless)
  holds("imports run one way", Rules.wrongImports)
  holds("only the layer that is meant for it imports a package", Rules.wrongPackages)
  holds("no barrel is imported", Rules.barrelImports)
  holds("only the layer network makes HTTP clients", Rules.strayClients)
  holds("only the store uses the SQL client", Rules.straySql)
  holds("only what describes the built-in models knows them instead of the models of the process", Rules.strayBuiltIns)
  holds("every command that reads a configuration runs with its models", Rules.lostModels)
  holds("no imports form a cycle", Rules.cycles)
  holds("the subfolders of a folder import each other one way", Rules.folderCycles)
  holds(`no file is longer than ${Rules.longest} lines`, Rules.tooLong)
  holds("no name is vague", Rules.vagueNames)
  holds("what only some commands and configurations need is not loaded by every start", Rules.eager)
  holds("plugins import what everybody's plugins can import", Rules.wrongPluginImports, plugins)
})

describe("the architecture rules", () => {
  const catches = (
    sentence: string,
    rule: (sources: Rules.Sources) => ReadonlyArray<string>,
    files: Readonly<Record<string, string>>,
    violation: string
  ) => it(sentence, () => assert.deepStrictEqual(rule(new Map(Object.entries(files))), [violation]))

  catches("see a file outside every layer", Rules.homeless, { "stray/File.ts": "" }, "stray/File.ts")
  catches(
    "see an import against the direction",
    Rules.wrongImports,
    { "domain/Model.ts": 'import type {\n  Store\n} from "../store/Store.ts"\n' },
    "domain/Model.ts (domain) imports ../store/Store.ts (state)"
  )
  catches(
    "see an adapter named outside the composition root",
    Rules.wrongImports,
    {
      "capture/read/Poll.ts": 'const a = await import("../../store/sqlite/Sqlite.ts")',
      "main.ts": 'import "./store/sqlite/Sqlite.ts"'
    },
    "capture/read/Poll.ts (capture) imports ../../store/sqlite/Sqlite.ts (store)"
  )
  catches(
    "see more than a type imported from the implementation of a service",
    Rules.wrongImports,
    {
      "store/Store.ts": 'import type * as SqlStore from "./sql/SqlStore.ts"',
      "store/Deliveries.ts": 'import { layer } from "./sql/SqlStore.ts"'
    },
    "store/Deliveries.ts (state) imports ./sql/SqlStore.ts (store)"
  )
  catches(
    "see a driver outside its adapter",
    Rules.wrongPackages,
    {
      "capture/read/Poll.ts": 'import { Kafka } from "kafkajs"',
      "publish/kafka/KafkaSink.ts": 'import { Kafka } from "kafkajs"'
    },
    "capture/read/Poll.ts imports kafkajs"
  )
  catches(
    "see a barrel",
    Rules.barrelImports,
    { "api/A.ts": 'import { Effect } from "effect"', "api/B.ts": 'import * as Effect from "effect/Effect"' },
    "api/A.ts imports effect"
  )
  catches(
    "see an HTTP client that is made elsewhere",
    Rules.strayClients,
    {
      "cli/A.ts": 'import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"',
      "network/B.ts": 'import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"'
    },
    "cli/A.ts imports @effect/platform-node/NodeHttpClient"
  )
  catches(
    "see the SQL client outside the store",
    Rules.straySql,
    {
      "store/Processes.ts": 'import { SqlClient } from "effect/sql/SqlClient"',
      "http/A.ts": 'import { SqlClient } from "effect/sql/SqlClient"'
    },
    "http/A.ts imports effect/sql/SqlClient"
  )
  catches(
    "see a module that knows only the built-in models",
    Rules.strayBuiltIns,
    {
      "capture/read/A.ts":
        'import { builtInModels, CurrentModels, type ReadModel } from "../../domain/BuiltInModels.ts"',
      "capture/read/B.ts": 'import type { BuiltInModel } from "../../domain/BuiltInModels.ts"'
    },
    "capture/read/A.ts knows only the built-in models: builtInModels"
  )
  catches(
    "see a processing by the built-in models",
    Rules.strayBuiltIns,
    { "capture/read/A.ts": "defaultProcessing(key.model)\ndefaultProcessing(key.model, models)" },
    "capture/read/A.ts knows only the built-in models: defaultProcessing(key.model)"
  )
  catches(
    "see a command that loses the models of its configuration",
    Rules.lostModels,
    { "cli/A.ts": "Config.check(input)", "cli/B.ts": "Config.check(input)\nwithSettings(settings)" },
    "cli/A.ts"
  )
  catches(
    "see a cycle",
    Rules.cycles,
    {
      "api/A.ts": 'export * from "./B.ts"',
      "api/B.ts": 'import type { C } from "./C.ts"',
      "api/C.ts": 'import "./B.ts"'
    },
    "api/B.ts → api/C.ts → api/B.ts"
  )
  catches(
    "see folders that import each other, although their files form no cycle",
    Rules.folderCycles,
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
    Rules.wrongPluginImports,
    {
      "a/plugin.ts":
        'import * as Plugin from "#plugin"\nimport { b } from "./B.ts"\nimport * as Effect from "effect/Effect"',
      "a/B.ts": "",
      "a/plugin.test.ts": 'import { test } from "node:test"\nimport * as Testing from "#testing"',
      "b/plugin.ts": 'import { b } from "../a/B.ts"'
    },
    "b/plugin.ts imports ../a/B.ts"
  )
  catches(
    "see a plugin that reaches into the sources",
    Rules.wrongPluginImports,
    { "a/plugin.ts": 'import type { Model } from "../../src/domain/Model.ts"' },
    "a/plugin.ts imports ../../src/domain/Model.ts"
  )
  catches("see a long file", Rules.tooLong, { "api/A.ts": "\n".repeat(Rules.longest) }, "api/A.ts")
  catches(
    "see a module that is loaded too early",
    Rules.eager,
    {
      "main.ts": 'import type { A } from "./ops/Demo.ts"\nawait import("./ops/Doctor.ts")\nimport "./ops/B.ts"',
      "ops/B.ts": 'import { type C, D } from "../publish/kafka/KafkaSink.ts"'
    },
    "publish/kafka/KafkaSink.ts"
  )
  catches("see a vague name", Rules.vagueNames, { "api/helpers/A.ts": "", "api/B.ts": "" }, "api/helpers/A.ts")
})
