/** Kills, frozen processes and a stopped broker around the sink's commit; kcat reads the topics back. */
import { assert, describe, layer } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type DriverName, drivers } from "../../../src/publish/kafka/driver/Driver.ts"
import { operationTimeout } from "../../../src/publish/kafka/KafkaClient.ts"
import { longestBackoff } from "../../../src/store/Recovery.ts"
import * as Broker from "../../integration/kafka/Broker.ts"
import * as Kcat from "../../integration/kafka/Kcat.ts"
import type { Doom } from "./Doom.ts"
import type { Event } from "./Follower.ts"
import * as Home from "./Home.ts"
import { contentsOf, judge, quiet } from "./Lives.ts"
import { keyOf } from "./Oracle.ts"
import { patience, until } from "./Patience.ts"
import { ask, launch, type Service, streams } from "./Service.ts"

const missing = Broker.missing ?? Kcat.missing

const home = Effect.fnUntraced(function*(driver: DriverName) {
  const { brokers } = yield* Broker.Broker
  const { file, sandbox, settings } = yield* Home.make({ speed: 400 })
  const topic = `step-${randomUUID()}`
  const kafka = {
    ...settings,
    KAFKA_BROKERS: brokers.join(),
    ROLLCALL_KAFKA_DRIVER: driver,
    ROLLCALL_TOPIC: `${topic}.{model}`
  }
  return { brokers, file, sandbox, settings: kafka, topic }
})
type Home = Effect.Success<ReturnType<typeof home>>

const positionIn = (metrics: string) => Number(/^rollcall_relay_position (\S+)$/m.exec(metrics)?.[1] ?? 0)
const numberOf = (position: string) => Number(position.split("-")[2])

/** A call may have lost its connection, so it must time out; then the relay waits for its next try; and this try takes time. */
const recovery = {
  limit: [operationTimeout, longestBackoff, patience].reduce(Duration.sum),
  every: Duration.millis(50)
}

/** Checks that the log contains the whole world, and the sink the whole log, each event once. */
const assertConsistent = Effect.fnUntraced(function*({ brokers, sandbox, topic }: Home, service: Service) {
  const url = yield* service.url
  yield* sandbox.freeze
  yield* quiet(url)
  const world = contentsOf(sandbox, Home.models)
  const { differences, events, oracle } = yield* judge(url, world)
  assert.deepStrictEqual(oracle.breaches, [])
  assert.deepStrictEqual(differences, [])
  const position = Effect.map(ask(url, "/metrics"), positionIn)
  yield* until("the relay to reach the end of the log", position, (position) => position >= events.length, recovery)
  for (const model of Home.models) {
    const messages = yield* Kcat.read(brokers, `${topic}.${model}`)
    const position = (message: Kcat.Message) => numberOf(message.headers["ce_position"] ?? "")
    for (const own of Map.groupBy(messages, ({ partition }) => partition).values()) {
      assert.deepStrictEqual(own.map(position), own.map(position).sort((one, other) => one - other))
    }
    const logged = events.filter((event) => event.data.model === model)
    assert.deepStrictEqual(
      messages.map(({ headers }) => headers["ce_id"]).sort(),
      logged.map(({ id }) => id).sort(),
      model
    )
  }
  return events
})

/** Compares the latest record states in the compacted topic with those in the log. */
const statesAgree = Effect.fnUntraced(function*({ brokers, topic }: Home, events: ReadonlyArray<Event>) {
  for (const model of Home.models) {
    const kept = new Map(
      (yield* Kcat.read(brokers, `${topic}.${model}.state`)).map(({ key, payload }) => [key, payload])
    )
    const last = new Map(
      events.filter(({ data }) => data.model === model).map(({ data }) => [keyOf(data), data.after])
    )
    assert.deepStrictEqual(
      new Map([...kept].map(([key, payload]) => [key, payload === null ? null : JSON.parse(payload)])),
      last
    )
  }
})

const progressOf = Effect.fnUntraced(function*({ brokers, sandbox, topic }: Home) {
  const messages = yield* Kcat.read(brokers, `${topic}.progress`)
  const integration = sandbox.integrations[0] ?? ""
  return messages.filter(({ key }) => key.startsWith(`${integration}/`)).map(({ key, payload }) => {
    const report: { readonly complete_to: string; readonly position: string } = JSON.parse(payload ?? "")
    return { key, completeTo: Date.parse(report.complete_to), position: numberOf(report.position) }
  })
})

const kills: ReadonlyArray<Omit<Doom, "of" | "signal">> = [
  // the first commit opens the sink, which only fences; the next one records the topics, once, before anything is published
  { n: 2, side: "before" },
  { n: 3, side: "before" },
  { n: 2, side: "after" }
]

for (const driver of drivers) {
  describe.skipIf(missing !== null)(
    `the sink's commit with ${driver} (seed ${Home.seed}${missing === null ? "" : `, skipped: ${missing}`})`,
    () => {
      layer(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
        it.effect(
          "a read_committed reader sees every event once although the relay is killed before and after the commit (X4)",
          () =>
            Effect.gen(function*() {
              const own = yield* home(driver)
              for (const doom of kills) {
                const doomed = yield* launch(own.settings, { doom: { ...doom, of: "sink", signal: "SIGKILL" } })
                assert.strictEqual(yield* doomed.doomed, "sink")
                yield* doomed.ended
              }
              yield* assertConsistent(own, yield* launch(own.settings))
            })
        )

        it.effect(
          "a relay that is frozen before its commit wakes up fenced after a takeover, logs it and exits (X15)",
          () =>
            Effect.gen(function*() {
              const own = yield* home(driver)
              const frozen = yield* launch(own.settings, {
                doom: { of: "sink", n: 3, side: "before", signal: "SIGSTOP" }
              })
              assert.strictEqual(yield* frozen.doomed, "sink")
              const successor = yield* launch(own.settings, { command: ["start", "--take-over"] })
              const url = yield* successor.url
              const position = Effect.map(ask(url, "/metrics"), positionIn)
              yield* until("the relay to publish something", position, (position) => position > 0)
              yield* frozen.signal("SIGCONT")
              assert.strictEqual(yield* frozen.ended, 1)
              assert.include(frozen.log(), "another process owns")
              yield* assertConsistent(own, successor)
            })
        )

        it.effect.skipIf(Broker.separateMissing !== null)(
          "after a broker restart, events, state and progress are complete and none goes back (K2, X10)",
          () =>
            Effect.gen(function*() {
              const own = yield* home(driver)
              const config = join(dirname(own.file), "rollcall.config.ts")
              yield* Effect.promise(() =>
                writeFile(
                  config,
                  `import { defineConfig } from "rollcall"\nexport default defineConfig({ kafka: { state: true } })\n`
                )
              )
              const service = yield* launch(own.settings, { command: ["start", "--config", config] })
              const url = yield* service.url
              yield* quiet(url)
              const broker = yield* Broker.Broker
              yield* broker.stop()
              yield* Effect.sleep("2 seconds")
              yield* broker.start
              const backAt = Date.now()
              const events = yield* assertConsistent(own, service)
              yield* statesAgree(own, events)
              // reported every ten seconds
              const isReported = (reports: Effect.Success<ReturnType<typeof progressOf>>) => (model: string) =>
                reports.some(({ completeTo, key }) => key.endsWith(model) && completeTo > backAt - 3000)
              const progress = yield* until(
                "progress since then",
                progressOf(own),
                (reports) => Home.models.every(isReported(reports))
              )
              for (const reports of Map.groupBy(progress, ({ key }) => key).values()) {
                const times = reports.map(({ completeTo }) => completeTo)
                assert.deepStrictEqual(times, times.toSorted((one, other) => one - other))
              }
              assert.isAtMost(Math.max(...progress.map(({ position }) => position)), events.length)
              const views = yield* streams(url)
              assert.isTrue(views.every(({ blocked, failing }) => blocked === null && failing === null))
              assert.strictEqual(yield* service.end("SIGTERM"), 0)
            }).pipe(Effect.provide(Broker.separate()))
        )
      })
    }
  )
}
