/**
 * Runs one contender in a world of the simulation: same plan, same faulty API, same times.
 *
 * Gotchas
 * - No process is killed here, and no store or sink becomes unavailable: of the service's troubles only the changed clock
 *   remains. The simulation itself tests what dying processes lose.
 * - A fault applies to a number of requests of any kind: more requests end it sooner.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { contentOf } from "../../test/simulation/oracle/Content.ts"
import type { Mutation, Plan, Step, WorldSettings } from "../../test/simulation/plan/Plan.ts"
import { Process } from "../../test/simulation/service/Process.ts"
import { unobserved } from "../../test/simulation/service/ProcessObserver.ts"
import { SimulatedSink } from "../../test/simulation/service/SimulatedSink.ts"
import { SimulatedStore } from "../../test/simulation/service/SimulatedStore.ts"
import type { FaultyApi } from "../../test/simulation/world/FaultyApi.ts"
import type { JsonObject, Row, Table } from "../../test/simulation/world/Table.ts"
import { VirtualTime } from "../../test/simulation/world/VirtualTime.ts"
import { World } from "../../test/simulation/world/World.ts"
import { LossAnalysis } from "./LossAnalysis.ts"
import { day, type Listed, type Poller, readerOf } from "./Pollers.ts"
import { RetryingApi } from "./RetryingApi.ts"

/** A change that a contender reports; `record` null: deleted. */
export interface ReportedChange {
  /** Server time (ms). */
  readonly at: number
  readonly kind: "created" | "updated" | "deleted"
  readonly record: JsonObject | null
}

interface Environment {
  readonly time: VirtualTime
  readonly world: World
  readonly api: FaultyApi
  readonly setting: WorldSettings
  /** The contender's clock minus the API's clock, in ms. */
  readonly skew: () => number
  readonly report: (table: Table, id: string, change: ReportedChange) => void
}

/** Takes part in a world from its start. */
export interface Contender {
  readonly name: string
  readonly start: (environment: Environment) => {
    /** An operator visit, once per sweep interval. */
    readonly visit?: () => void
    /** Called when the faults have ended. */
    readonly endFaults?: () => void
    readonly leave?: () => void
    /** The number of requests it would need, if it sends none. */
    readonly requests?: () => number
    readonly analysis?: LossAnalysis
  }
}

export interface Outcome {
  readonly world: World
  readonly setting: WorldSettings
  readonly reported: ReadonlyMap<Row, ReadonlyArray<ReportedChange>>
  /** Reports for records that never existed. */
  readonly unknownRecords: number
  readonly requests: number
  readonly start: number
  /** Of a contender that has one. */
  readonly analysis: LossAnalysis | null
}

const start = Date.parse("2026-03-01T12:00:00Z")

/** Runs the world, and then two of its days without faults. */
export const runWorld = ({ seed, setting, steps }: Plan, contender: Contender): Outcome => {
  const time = new VirtualTime(start)
  const world = new World(seed, setting, start)
  const api = new RetryingApi(world, time, setting, seed)
  let skew = setting.skew
  const reported = new Map<Row, Array<ReportedChange>>()
  let unknownRecords = 0
  const participant = contender.start({
    time,
    world,
    api,
    setting,
    skew: () => skew,
    report: (table, id, change) => {
      const row = table.byId.get(id)
      if (row === undefined) unknownRecords++
      else reported.set(row, [...reported.get(row) ?? [], change])
    }
  })

  let midway: Array<Mutation> = []
  const applyMutation = (step: Mutation, at: number) => {
    for (const mutation of [step.mutation, "edit", "create"] as const) {
      if (world.apply({ ...step, mutation }, at, time.now)) return
    }
  }
  const release = () => {
    const waiting = midway
    midway = []
    for (const step of waiting) applyMutation(step, time.now)
  }
  api.betweenPages = release
  const applyStep = (step: Step) => {
    if ("fault" in step) api.addFault(step)
    else if ("trouble" in step) skew = step.trouble === "clock" ? Math.floor((step.value - 0.5) * 480_000) : skew
    else if ("command" in step) return
    else if (step.midway) midway.push(step)
    else applyMutation(step, start + step.at)
  }
  const end = start + setting.duration
  const endFaults = () => {
    api.clearFaults()
    release()
    participant.endFaults?.()
  }
  const agenda = [
    { at: end, act: endFaults },
    { at: end + 2 * day(setting), act: () => participant.leave?.() },
    ...steps.map((step) => ({
      at: Math.min(end, start + step.at + ("mutation" in step && !step.midway ? step.lag : 0)),
      act: () => applyStep(step)
    })),
    ...Array.from({ length: Math.ceil(setting.duration / setting.sweepInterval) + 7 }, (_, visit) => ({
      at: start + (visit + 1) * setting.sweepInterval,
      act: () => participant.visit?.()
    }))
  ].sort((a, b) => a.at - b.at)
  for (const { act, at } of agenda) {
    time.advance(Math.max(at, time.now))
    act()
  }
  return {
    world,
    setting,
    reported,
    unknownRecords,
    requests: participant.requests?.() ?? api.requests,
    start,
    analysis: participant.analysis ?? null
  }
}

// ---- contenders ---------------------------------------------------------------------------------------------------

/** Reads everything once per interval and never fails: the standard for the others. */
export const ideal: Contender = {
  name: "ideal reader",
  start: ({ setting, report, time, world }) => {
    const known = new Map<Row, JsonObject>()
    let readCount = 0
    const readAll = Effect.sync(() => {
      readCount++
      for (const table of world.tables) {
        for (const row of table.byId.values()) {
          const before = known.get(row)
          const shown = row.history.at(-1)!
          const record = shown.live ? shown.record : null
          if (contentOf(record ?? {}) === contentOf(before ?? {})) continue
          if (record === null) known.delete(row)
          else known.set(row, record)
          const kind = before === undefined ? "created" : record === null ? "deleted" : "updated"
          report(table, row.id, { at: time.now, kind, record })
        }
      }
    })
    Effect.runFork(Effect.forever(Effect.andThen(readAll, time.sleep(setting.interval))), { scheduler: time })
    return { requests: () => readCount * world.tables.length }
  }
}

export const polling = (poller: Poller): Contender => ({
  name: poller.name,
  start: ({ api, setting, skew, report, time, world }) => {
    const clock = time.clock(skew)
    const source = api.source(() => time.now + skew(), () => {})
    for (const stream of setting.streams) {
      const table = world.table(stream.integration, stream.model)!
      const known = new Map<string, string>()
      const remove = (id: string) => {
        if (known.delete(id)) report(table, id, { at: time.now, kind: "deleted", record: null })
      }
      const accept = (row: Listed) => {
        if (row.remote_deleted_at !== null) return remove(row.id)
        const text = JSON.stringify(row)
        const before = known.get(row.id)
        if (before === text) return
        known.set(row.id, text)
        report(table, row.id, {
          at: time.now,
          kind: before === undefined ? "created" : "updated",
          record: JSON.parse(text)
        })
      }
      const deleteAbsent = (rows: ReadonlyArray<Listed>) => {
        const present = new Set(rows.map(({ id }) => id))
        for (const id of known.keys()) if (!present.has(id)) remove(id)
      }
      const poll = poller.poll({ setting, read: readerOf(source, stream), accept, deleteAbsent })
      const run = Effect.forever(Effect.andThen(Effect.ignore(poll), Effect.sleep(setting.interval)))
      Effect.runFork(run.pipe(Effect.provideService(Clock.Clock, clock)), { scheduler: time })
    }
    return {}
  }
})

/** The real service. The operator approves all holds, and at the end polls the streams that were paused. */
export const rollcall: Contender = {
  name: "**Rollcall**",
  start: ({ api, setting, skew, report, time, world }) => {
    const simulatedStore = new SimulatedStore(time)
    const store = simulatedStore.store
    const analysis = new LossAnalysis()
    api.onFault = (table) => analysis.requestFailed(table, time.now)
    const process: Process = new Process(1, {
      time,
      api,
      store: () => store,
      deliveries: null,
      leases: null,
      keyed: null,
      plugins: [],
      forgets: false,
      listsCandidates: () => setting.candidateList !== null,
      simulatedSink: new SimulatedSink(),
      simulatedPlacement: null,
      setting,
      skew,
      onKilled: () => {},
      observer: {
        ...unobserved,
        pageServed: (_, delivery) => analysis.pageServed(delivery, time.now),
        committed: (_, written) => {
          const { events, key } = written
          const table = world.table(key.integration, key.model)!
          analysis.committed(table, written, time.now)
          for (const { after, id, kind } of events) {
            report(table, id, { at: time.now, kind, record: after === null ? null : JSON.parse(after) })
          }
          if (events.length > 0) process.store.appended()
        }
      }
    })
    process.start()
    return {
      analysis,
      visit: () => {
        const holds = time.run(store.holds({ states: ["open"], limit: 1_000 }), Infinity) ?? []
        for (const { id } of holds) {
          const decision = { state: "approving", release: { origin: null, silent: false } } as const
          time.run(process.within(store.decide(id, decision, time.now)), time.now + 1_000)
        }
      },
      endFaults: () => {
        for (const key of setting.streams) {
          const tried = process.capture?.execute(key, { kind: "poll" }) ?? Effect.void
          time.run(process.within(Effect.ignore(tried)), time.now + 1_000)
        }
      },
      leave: () => {
        process.stop()
        simulatedStore.close()
      }
    }
  }
}
