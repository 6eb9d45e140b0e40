/**
 * Delivers events to handlers that do nothing, from a SQLite file, and reads the same log with `JSON.parse` of the events' content.
 * Then measures the delay of deliveries, with and without a plugin that sleeps beside them.
 *
 * `node bench/programs/Deliveries.ts <events>`; prints a line of values, without the start of the process.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DeliveryEngine } from "../../src/delivery/engine/DeliveryEngine.ts"
import { Placement } from "../../src/fleet/Placement.ts"
import * as Plugin from "../../src/plugin/Plugin.ts"
import { Source } from "../../src/source/Source.ts"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../src/store/Store.ts"
import { eventOf, headOf, stateOf } from "../../test/conformance/StoreSamples.ts"
import { listsOnly } from "../../test/support/source/Doubles.ts"
import { named, quantile } from "../Table.ts"

const events = Number(process.argv[2])

const key = { integration: "greenhouse:acme", model: "ats.application" } as const
/** Fills a record up to a typical size. */
const filler = Array.from({ length: 40 }, (_, index) => ({ id: `f${index}`, label: "x".repeat(30) }))

const withStore = <A>(body: Effect.Effect<A, unknown, Store | Layer.Success<ReturnType<typeof Sqlite.layer>>>) => {
  const directory = mkdtempSync(join(tmpdir(), "rollcall-deliveries-"))
  return Effect.runPromise(
    body.pipe(Effect.provide(Sqlite.layer({ file: join(directory, "rollcall.db") })), Effect.orDie)
  ).finally(() => rmSync(directory, { recursive: true }))
}

const filling = Effect.gen(function*() {
  const store = yield* Store
  yield* store.ensureStreams([stateOf(key)])
  const owner = yield* store.takeOwnership("capture")
  let count = 0
  const append = (size: number) =>
    store.transact(owner, key, (tx) =>
      tx.write(Array.from({ length: size }, () => {
        const id = `a${count++}`
        const after = JSON.stringify({ id, filler })
        return {
          head: { ...headOf(id), version: 1 },
          events: [eventOf(id, 1, "created", { after, detectedAt: Date.now() })]
        }
      })))
  return { store, append }
})

const engine = (plugins: ReadonlyArray<Plugin.Plugin<unknown>>) =>
  DeliveryEngine.layer({ plugins, retention: Duration.days(7) }).pipe(
    Layer.provide(Placement.local),
    Layer.provide(Layer.succeed(Source, listsOnly(() => Effect.die("this benchmark reads no API")))),
    Layer.provide(
      Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.die("this benchmark sends no HTTP request")))
    )
  )

const empty = (name: string) =>
  Plugin.make(name).with({ from: "oldest" }).on("ats.application.created", {}, () => Effect.void)

const emptyBatches = Plugin.make("batches").with({ from: "oldest" })
  .batch("ats.application.created", { size: 100, within: "1 second" }, () => Effect.void)

/** Values of an effect that handles this many records. */
const measured = <A, E, R>(records: number, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const startedAt = performance.now()
    const before = process.cpuUsage()
    yield* effect
    const { system, user } = process.cpuUsage(before)
    return { records, seconds: (performance.now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 }
  })

const floor = Effect.gen(function*() {
  const store = yield* Store
  for (let after = 0; after < events;) {
    const rows = yield* store.readLog({ after, limit: 500 })
    for (const row of rows) JSON.parse(row.after ?? "null")
    after = rows.at(-1)?.position ?? events
  }
})

const delivered = (plugins: ReadonlyArray<Plugin.Plugin<unknown>>) =>
  Effect.scoped(
    Effect.flatMap(Layer.build(engine(plugins)), (built) => Context.get(built, DeliveryEngine).awaitDrained(events))
  )

const run = () =>
  withStore(Effect.gen(function*() {
    const { append } = yield* filling
    for (let appended = 0; appended < events; appended += 250) yield* append(250)
    yield* floor
    const floorOnce = yield* measured(events, floor)
    const one = yield* measured(events, delivered([empty("one")]))
    const five = ["a", "b", "c", "d", "e"].map(empty)
    return {
      ...named("read", floorOnce),
      ...named("one", one),
      ...named("batches", yield* measured(events, delivered([emptyBatches]))),
      ...named("five", yield* measured(events * five.length, delivered(five)))
    }
  }))

/** Delays of deliveries to two plugins, in ms, while ten events are appended every 20 ms. */
const delays = (others: ReadonlyArray<Plugin.Plugin<unknown>>) =>
  withStore(Effect.gen(function*() {
    const { append, store } = yield* filling
    const found: Array<number> = []
    const timed = (name: string) =>
      Plugin.make(name).on("ats.application.created", {}, ({ detectedAt }) =>
        Effect.sync(() =>
          found.push(Date.now() - detectedAt.getTime())
        ))
    const rounds = Math.ceil(events / 80)
    yield* Effect.scoped(Effect.gen(function*() {
      const built = yield* Layer.build(engine([timed("x"), timed("y"), ...others]))
      for (let round = 0; round < rounds; round++) {
        yield* append(10)
        yield* Effect.sleep(20)
      }
      const { newest } = yield* store.logRange
      while (found.length < newest * 2) yield* Effect.sleep(50)
      return built
      // the sleeping handler is not awaited
    })).pipe(Effect.timeoutOption("60 seconds"))
    return { p50: quantile(found, 0.5), p99: quantile(found, 0.99), deliveries: found.length }
  }))

const sleeper = Plugin.make("sleeper").on(
  "ats.application.created",
  { timeout: "1 minute" },
  () => Effect.sleep("30 seconds")
)

console.log(JSON.stringify({
  ...await run(),
  ...named("alone", await delays([])),
  ...named("beside", await delays([sleeper]))
}))
