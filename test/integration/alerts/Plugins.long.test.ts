/** Alerts on plugins: handlers that fail, that lack configuration, and that may not write; and a damaged event log. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { createTags, make, test, watched } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const { missing } = Prometheus

/** Fails as long as the file exists. */
const failingWhile = (file: string, failure: "Permanent" | "Transient") =>
  `Plugin.make("audience").on("ats.tag.created", {}, () => existsSync(${JSON.stringify(file)})
    ? Effect.fail(new Plugin.${failure}({ message: "the list is closed" })) : Effect.void).with({ from: "oldest" })`

const wanting = `Plugin.make("wanting", { config: Config.all({ key: Config.String("AUDIENCE_KEY") }) })
  .on("ats.tag.created", {}, () => Effect.void).with({ from: "oldest" })`

describe.skipIf(missing !== null)(`alerts on plugins${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  test("RollcallDeadLetters fires when a handler gives a delivery up, and ends when it is sent again", 4, function*() {
    const service = yield* make()
    const broken = join(service.folder, "broken")
    service.setPlugins(failingWhile(broken, "Permanent"))
    const prometheus = yield* watched(service)
    writeFileSync(broken, "")
    yield* createTags(service, 1, "lost")
    const [alert] = yield* prometheus.fires("RollcallDeadLetters")
    assert.strictEqual(alert?.annotations["summary"], "Dead letters of audience (ats.tag.created): 1")
    rmSync(broken)
    const { plan } = yield* service.post<{ readonly plan: string }>("/v1/deadletters/plan", { plugin: "audience" })
    yield* service.post("/v1/deadletters/redrive", { plugin: "audience", plan })
    yield* prometheus.clears("RollcallDeadLetters")
    yield* prometheus.quiet
  })

  test(
    "RollcallHandlerCircuitOpen and RollcallDeliveriesLate fire while a handler fails for all records, and end when it works",
    6,
    function*() {
      const service = yield* make()
      const broken = join(service.folder, "broken")
      service.setPlugins(failingWhile(broken, "Transient"))
      const prometheus = yield* watched(service)
      writeFileSync(broken, "")
      yield* createTags(service, 12, "late")
      const [alert, late] = yield* prometheus.fires("RollcallHandlerCircuitOpen", "RollcallDeliveriesLate")
      assert.strictEqual(alert?.annotations["summary"], "Every delivery of audience (ats.tag.created) fails")
      assert.deepInclude(late?.labels, { plugin: "audience", handler: "ats.tag.created" })
      rmSync(broken)
      // the circuit tries a delivery after half a minute or a minute
      yield* prometheus.clears("RollcallHandlerCircuitOpen", "RollcallDeliveriesLate")
      yield* prometheus.quiet
    }
  )

  test(
    "RollcallPluginUnconfigured fires while a plugin lacks a setting in an integration that was added, and ends after a start with it",
    4,
    function*() {
      const sandbox = yield* Effect.orDie(Sandbox.serve({ seed: 7, speed: 0, records: 10, integrations: 3 }))
      // those with an odd number are of other categories
      const [integration = "", , other = ""] = sandbox.integrations
      const settings = { [integration]: { values: { AUDIENCE_KEY: "k" } } }
      const service = yield* make({
        sandbox,
        read: { integration, models: ["ats.tag"] },
        plugins: `${wanting}.with({ integrations: ${JSON.stringify(settings)} })`
      })
      const prometheus = yield* watched(service)
      yield* service.post("/v1/integrations", { id: other, models: ["ats.tag"], interval: "1 second" })
      yield* sandbox.mutate({ op: "create", integration: other, model: "ats.tag", fields: { name: "new" } })
      const [alert] = yield* prometheus.fires("RollcallPluginUnconfigured")
      assert.strictEqual(
        alert?.annotations["summary"],
        "Integrations in which the plugin wanting lacks configuration: 1"
      )
      yield* service.stop()
      yield* service.start({ AUDIENCE_KEY: "k" })
      yield* prometheus.clears("RollcallPluginUnconfigured")
      yield* prometheus.quiet
    }
  )

  test(
    "RollcallPluginWritesStopped fires while an operator has stopped all writes, and ends when they are resumed",
    4,
    function*() {
      const service = yield* make({ plugins: wanting })
      const prometheus = yield* watched(service, { AUDIENCE_KEY: "k" })
      yield* service.post("/v1/plugins/writes/stop")
      yield* prometheus.fires("RollcallPluginWritesStopped")
      yield* service.post("/v1/plugins/writes/resume")
      yield* prometheus.clears("RollcallPluginWritesStopped")
      yield* prometheus.quiet
    }
  )

  test(
    "RollcallRedactionFailed and RollcallPluginsStopped fire while a row of the event log is damaged, and end when it is restored",
    5,
    function*() {
      const service = yield* make()
      yield* service.start()
      yield* service.stop()
      const change = (from: string, to: string) => {
        const database = new DatabaseSync(join(service.folder, "rollcall.db"))
        const { changes } = database.prepare(
          `UPDATE events SET content = replace(content, '${from}', '${to}') WHERE position = 1`
        ).run()
        database.close()
        assert.strictEqual(Number(changes), 1)
      }
      change('"id"', '"ID"')
      // both the encryption and a new plugin read the row
      service.setPlugins(wanting)
      const environment = {
        AUDIENCE_KEY: "k",
        ROLLCALL_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64")
      }
      yield* service.start(environment)
      const prometheus = yield* Prometheus.start([service.url])
      const [alert] = yield* prometheus.fires("RollcallRedactionFailed", "RollcallPluginsStopped")
      assert.strictEqual(
        alert?.annotations["summary"],
        "Streams whose stored content could not be redacted or encrypted: 1"
      )
      yield* service.stop()
      change('"ID"', '"id"')
      yield* service.start(environment)
      yield* prometheus.clears("RollcallRedactionFailed", "RollcallPluginsStopped")
      yield* prometheus.quiet
    }
  )
})
