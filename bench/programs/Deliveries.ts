/**
 * Delivers events to a handler that does nothing, from a SQLite file, and reads the same log with `JSON.parse` of the events' content.
 *
 * `node bench/programs/Deliveries.ts <events>`; prints a line of values, without the start of the process.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import { DeliveryEngine } from "../../src/delivery/engine/DeliveryEngine.ts"
import { Placement } from "../../src/fleet/Placement.ts"
import * as Plugin from "../../src/plugin/Plugin.ts"
import { Source } from "../../src/source/Source.ts"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../src/store/Store.ts"
import { eventOf, headOf, stateOf } from "../../test/conformance/StoreSamples.ts"
import { listsOnly } from "../../test/support/source/Doubles.ts"
import { Folder } from "../Service.ts"
import { named } from "../Table.ts"

const events = Number(process.argv[2])

const key = { integration: "greenhouse:acme", model: "ats.application" } as const
/** Fills a record up to a typical size. */
const filler = Array.from({ length: 40 }, (_, index) => ({ id: `f${index}`, label: "x".repeat(30) }))

const fill = Effect.gen(function*() {
  const store = yield* Store
  yield* store.ensureStreams([stateOf(key)])
  const owner = yield* store.takeOwnership("capture")
  for (let count = 0; count < events;) {
    yield* store.transact(owner, key, (tx) =>
      tx.write(Array.from({ length: 250 }, () => {
        const id = `a${count++}`
        const after = JSON.stringify({ id, filler })
        return {
          head: { ...headOf(id), version: 1 },
          events: [eventOf(id, 1, "created", { after, detectedAt: Date.now() })]
        }
      })))
  }
})

const plugin = Plugin.make("one").with({ from: "oldest" }).on("ats.application.created", {}, () => Effect.void)
const engine = DeliveryEngine.layer({ plugins: [plugin], retention: Duration.days(7) }).pipe(
  Layer.provide(Placement.local),
  Layer.provide(Layer.succeed(Source, listsOnly(() => Effect.die("this benchmark reads no API")))),
  Layer.provide(
    Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.die("this benchmark sends no HTTP request")))
  )
)

/** Values of an effect that handles all events. */
const measured = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const startedAt = performance.now()
    const before = process.cpuUsage()
    yield* effect
    const { system, user } = process.cpuUsage(before)
    return { records: events, seconds: (performance.now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 }
  })

const read = Effect.gen(function*() {
  const store = yield* Store
  for (let after = 0; after < events;) {
    const rows = yield* store.readLog({ after, limit: 500 })
    for (const row of rows) JSON.parse(row.after ?? "null")
    after = rows.at(-1)?.position ?? events
  }
})

const deliver = Effect.scoped(
  Effect.flatMap(Layer.build(engine), (built) => Context.get(built, DeliveryEngine).awaitDrained(events))
)

await using folder = await Folder.make()
const values = Effect.gen(function*() {
  yield* fill
  yield* read
  return { ...named("read", yield* measured(read)), ...named("one", yield* measured(deliver)) }
})
console.log(JSON.stringify(
  await Effect.runPromise(
    values.pipe(Effect.provide(Sqlite.layer({ file: join(folder.path, "rollcall.db") })), Effect.orDie)
  )
))
