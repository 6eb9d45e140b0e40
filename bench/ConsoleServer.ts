/** The operating API over a store in a file with many streams, for `Console.ts`. Nothing is read: the store does not change. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { lists } from "../src/api/Lists.ts"
import { initialState } from "../src/capture/StreamLifecycle.ts"
import * as Server from "../src/http/Server.ts"
import * as Sqlite from "../src/store/sqlite/Sqlite.ts"
import { Store } from "../src/store/Store.ts"
import { server } from "../test/integration/http/Running.ts"

const [file = "", count = "3000"] = process.argv.slice(2)
const models = Object.keys(lists) as ReadonlyArray<keyof typeof lists>
const minute = Duration.minutes(1)

const run = Effect.gen(function*() {
  const store = yield* Store
  const owner = yield* store.takeOwnership("capture")
  const now = Date.now()
  const total = Number(count)
  const rowCounts = {
    read: 12,
    unchanged: 11,
    equivalent: 0,
    changed: 1,
    tombstones: 0,
    duplicates: 0,
    pending: 0,
    quarantined: 0
  }
  const run = {
    id: 9,
    kind: "poll",
    backfill: false,
    updatedAfter: now,
    cursor: null,
    phase: "pages",
    pages: 1,
    startedAt: now,
    endedAt: now,
    watermark: now,
    rowCounts
  } as const
  const states = Array.from({ length: total }, (_, index) => {
    const settings = { account: "default", interval: minute, sweepInterval: minute }
    const model = models[index % models.length]!
    const integration = `tool:customer-${Math.floor(index / models.length)}`
    const blocked = index % 50 === 0
      ? { reason: "inactive", code: null, message: "the connection is broken", since: now - index } as const
      : null
    return {
      ...initialState({ ...settings, integration, model }, minute),
      phase: "live" as const,
      watermark: now,
      previousWatermark: now,
      lastPoll: run,
      lastSweep: { ...run, kind: "sweep" as const },
      blocked
    }
  })
  yield* store.ensureStreams(states)
  for (const integration of new Set(states.map(({ integration }) => integration))) {
    yield* store.saveIntegration(owner, {
      id: integration,
      account: "default",
      models: "auto",
      interval: 60_000,
      sweepInterval: 3_600_000,
      backfill: "publish",
      declared: true,
      generation: 1,
      state: "active"
    }, null)
  }
  const { url } = yield* Server.Server
  process.stdout.write(`${url}\n`)
  return yield* Effect.never
}).pipe(
  Effect.provide(server().pipe(Layer.provideMerge(Sqlite.waitingLayer({ file, ownThread: true })))),
  Effect.scoped
)

Effect.runFork(run)
