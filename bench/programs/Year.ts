/**
 * A year of a small world with a constant rate of changes, in virtual time: the real service, a store in a file, retention. Measures
 * the cost of requests and the amount of stored data at the end of each month.
 *
 * `node bench/programs/Year.ts <changes a day> <months>`; prints a line of values, those of the first month as `1.<name>`.
 *
 * Gotchas
 * - The world's history, which only an oracle needs, is dropped every month, so that it does not count as the service's memory.
 * - A deleted record leaves the list immediately: tombstones that the API keeps forever would be rows that it lists.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Retention from "../../src/publish/Retention.ts"
import { SeededRandom } from "../../src/sandbox/world/SeededRandom.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../src/store/Store.ts"
import type { MutationKind, WorldSettings } from "../../test/simulation/plan/Plan.ts"
import { Process, unobserved } from "../../test/simulation/service/Process.ts"
import { SimulatedSink } from "../../test/simulation/service/SimulatedSink.ts"
import { FaultyApi } from "../../test/simulation/world/FaultyApi.ts"
import { VirtualTime } from "../../test/simulation/world/VirtualTime.ts"
import { World } from "../../test/simulation/world/World.ts"
import type { Run } from "../Section.ts"
import { named } from "../Table.ts"

const [changesADay = 8, months = 12] = process.argv.slice(2).map(Number)

const hour = 3_600_000
const day = 24 * hour
const start = Date.parse("2026-01-01T00:00:00Z")
const setting: WorldSettings = {
  streams: [
    { integration: "greenhouse:acme", model: "ats.application" },
    { integration: "workday:acme", model: "hris.skill" }
  ],
  candidates: false,
  records: 100,
  interval: 6 * hour,
  sweepInterval: day,
  confirmInterval: 6 * hour,
  minOverlap: 5 * 60_000,
  duration: 365 * day,
  latency: 400,
  storeDelay: 0,
  slow: null,
  skew: 0,
  pageSize: 250,
  order: "toEnd",
  inclusive: true,
  resolution: 1,
  plugins: false,
  fleet: false,
  futureDates: false,
  keys: false,
  requestSlots: null,
  outage: null,
  refusedWrites: null,
  epilogue: "none"
}
/** As many creates as deletes. */
const mutationMix: ReadonlyArray<MutationKind> = [
  "edit",
  "edit",
  "edit",
  "stage",
  "stir",
  "renameSilent",
  "create",
  "vanish"
]

const time = new VirtualTime(start)
const world = new World(1, setting, start)
const api = new FaultyApi(world, time, setting, 1)
const simulatedSink = new SimulatedSink()
const random = new SeededRandom(1)
const scope = Effect.runSync(Scope.make())
const folder = mkdtempSync(join(tmpdir(), "rollcall-year-"))
const file = join(folder, "rollcall.db")
const opened = time.run(
  Layer.buildWithScope(Layer.provideMerge(Ports.layer, Sqlite.client({ file })), scope),
  Infinity
)
if (opened === undefined) throw new Error("the store did not open")
const store = Context.get(opened, Store)
const sql = Context.get(opened, SqlClient.SqlClient)

let events = 0
const service: Process = new Process(1, {
  time,
  api,
  store: () => store,
  deliveries: null,
  leases: null,
  keyed: null,
  plugins: [],
  forgets: false,
  simulatedSink,
  simulatedPlacement: null,
  setting,
  skew: () => 0,
  onKilled: () => {},
  observer: {
    ...unobserved,
    committed: (_, written) => {
      events += written.events.length
      if (written.events.length > 0) service.appended()
    }
  }
})
service.start()
const retention = Retention.layer({ retention: Duration.days(7), readers: ["relay"] })
Effect.runFork(
  service.within(Layer.launch(Layer.provide(retention, Layer.succeed(Store, store)))),
  { scheduler: time }
)

setFlagsFromString("--expose_gc")
const collect: () => void = runInNewContext("gc")

/** Drops all but the latest state of the world. */
const dropHistory = () => {
  for (const { announced, byId, rows } of world.tables) {
    announced.length = 0
    for (const { gone, id } of byId.values()) if (gone) byId.delete(id)
    for (const { history } of rows) history.splice(0, history.length - 1)
  }
  simulatedSink.entries.length = 0
}

const rowsOf = (name: string): number =>
  time.run(sql<{ rows: number }>`SELECT count(*) AS rows FROM ${sql(name)}`, Infinity)![0]!.rows
const tables = time.run(
  sql<{ name: string }>`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`,
  Infinity
)!.map(({ name }) => name)

const runMonth = (end: number): Run => {
  const days = (end - time.now) / day
  const [requests, before, cpu] = [api.requests, events, process.cpuUsage()]
  while (time.now < end) {
    const at = Math.min(end, time.now + Math.ceil(random.exponential(changesADay) * day))
    time.advance(at)
    if (at === end) break
    world.apply(
      {
        at,
        mutation: random.pick(mutationMix),
        stream: random.int(0, 1),
        recordPick: random.next(),
        value: random.next(),
        lag: 0,
        midway: false
      },
      at,
      at
    )
  }
  const { system, user } = process.cpuUsage(cpu)
  dropHistory()
  time.run(sql`PRAGMA wal_checkpoint(TRUNCATE)`, Infinity)
  collect()
  const rows = new Map(tables.map((name) => [name, rowsOf(name)]))
  const shown = ["events", "heads", "record_references"]
  const others = [...rows].filter(([name]) => !shown.includes(name)).reduce((sum, [, count]) => sum + count, 0)
  return {
    requests: (api.requests - requests) / days,
    events: (events - before) / days,
    cpuMillis: (user + system) / 1e3 / days,
    heapMegabytes: process.memoryUsage().heapUsed / 1e6,
    fileKilobytes: statSync(file).size / 1e3,
    ...Object.fromEntries(shown.map((name) => [`rows_${name}`, rows.get(name) ?? 0])),
    rows_others: others
  }
}

let values: Run = {}
try {
  for (let month = 1; month <= months; month++) {
    values = { ...values, ...named(String(month), runMonth(Date.UTC(2026, month, 1))) }
  }
} finally {
  service.stop()
  rmSync(folder, { recursive: true })
}
console.log(JSON.stringify(values))
