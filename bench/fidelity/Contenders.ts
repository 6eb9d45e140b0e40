/**
 * Lets one contender live through a world of the simulation: same plan, same faulty API, same times. Hides how the service,
 * a poller and an ideal reader are made to run there.
 *
 * Gotchas
 * - Nobody is killed and no store or sink goes away here, whoever takes part: of our own troubles only the clock that is
 *   set remains. What dying processes lose is the simulation's question.
 * - A fault meets a number of requests, whoever makes them: more requests wear it out sooner.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { contentOf } from "../../test/simulation/oracle/Content.ts"
import type { Mutation, Plan, Step, WorldSettings } from "../../test/simulation/plan/Plan.ts"
import { Process } from "../../test/simulation/service/Process.ts"
import { SimulatedSink } from "../../test/simulation/service/SimulatedSink.ts"
import { SimulatedStore } from "../../test/simulation/service/SimulatedStore.ts"
import type { FaultyApi } from "../../test/simulation/world/FaultyApi.ts"
import { VirtualTime } from "../../test/simulation/world/VirtualTime.ts"
import { type JsonObject, type Row, type Table, World } from "../../test/simulation/world/World.ts"
import { LossAnalysis } from "./LossAnalysis.ts"
import { day, type Listed, type Poller, readerOf } from "./Pollers.ts"
import { RetryingApi } from "./RetryingApi.ts"

/** What somebody said of a record; null: it is deleted. */
export interface ReportedChange {
  /** Server ms. */
  readonly at: number
  readonly kind: "created" | "updated" | "deleted"
  readonly record: JsonObject | null
}

interface Environment {
  readonly time: VirtualTime
  readonly world: World
  readonly api: FaultyApi
  readonly setting: WorldSettings
  /** Our clock − theirs, ms. */
  readonly skew: () => number
  readonly report: (table: Table, id: string, told: ReportedChange) => void
}

/** Takes part in a world from its beginning. */
export interface Contender {
  readonly name: string
  readonly start: (around: Environment) => {
    /** Somebody comes by, once in a sweep interval. */
    readonly attend?: () => void
    /** All is well again. */
    readonly calm?: () => void
    readonly leave?: () => void
    /** Requests it would need, where it makes none. */
    readonly requests?: () => number
    readonly analysis?: LossAnalysis
  }
}

export interface Outcome {
  readonly world: World
  readonly setting: WorldSettings
  readonly reported: ReadonlyMap<Row, ReadonlyArray<ReportedChange>>
  /** Said of records that there never were. */
  readonly unknownRecords: number
  readonly requests: number
  readonly start: number
  /** Of who keeps one. */
  readonly analysis: LossAnalysis | null
}

const start = Date.parse("2026-03-01T12:00:00Z")

/** The world, and two of its days of peace. */
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
    report: (table, id, said) => {
      const row = table.byId.get(id)
      if (row === undefined) unknownRecords++
      else reported.set(row, [...reported.get(row) ?? [], said])
    }
  })

  let midway: Array<Mutation> = []
  const happen = (step: Mutation, at: number) => {
    for (const mutation of [step.mutation, "edit", "create"] as const) {
      if (world.apply({ ...step, mutation }, at, time.now)) return
    }
  }
  const release = () => {
    const waiting = midway
    midway = []
    for (const step of waiting) happen(step, time.now)
  }
  api.betweenPages = release
  const take = (step: Step) => {
    if ("fault" in step) api.addFault(step)
    else if ("trouble" in step) skew = step.trouble === "clock" ? Math.floor((step.value - 0.5) * 480_000) : skew
    else if (step.midway) midway.push(step)
    else happen(step, start + step.at)
  }
  const end = start + setting.duration
  const calm = () => {
    api.clearFaults()
    release()
    participant.calm?.()
  }
  const agenda = [
    { at: end, act: calm },
    { at: end + 2 * day(setting), act: () => participant.leave?.() },
    ...steps.map((step) => ({
      at: Math.min(end, start + step.at + ("mutation" in step && !step.midway ? step.lag : 0)),
      act: () => take(step)
    })),
    ...Array.from({ length: Math.ceil(setting.duration / setting.sweepInterval) + 7 }, (_, visit) => ({
      at: start + (visit + 1) * setting.sweepInterval,
      act: () => participant.attend?.()
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

// ---- who takes part -----------------------------------------------------------------------------------------------

/** Looks at everything at each interval and is never refused: what the others are measured by. */
export const ideal: Contender = {
  name: "ideal reader",
  start: ({ setting, report, time, world }) => {
    const known = new Map<Row, JsonObject>()
    let looks = 0
    const look = Effect.sync(() => {
      looks++
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
    Effect.runFork(Effect.forever(Effect.andThen(look, time.sleep(setting.interval))), { scheduler: time })
    return { requests: () => looks * world.tables.length }
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
      const see = (row: Listed) => {
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
      const turn = poller.poll({ setting, read: readerOf(source, stream), see, deleteAbsent })
      const run = Effect.forever(Effect.andThen(Effect.ignore(turn), Effect.sleep(setting.interval)))
      Effect.runFork(run.pipe(Effect.provideService(Clock.Clock, clock)), { scheduler: time })
    }
    return {}
  }
})

/** The real service; whoever comes by lets through what it holds back, and in the end has it try what it left alone. */
export const rollcall: Contender = {
  name: "**Rollcall**",
  start: ({ api, setting, skew, report, time, world }) => {
    const backup = new SimulatedStore(time)
    const store = backup.store
    const analysis = new LossAnalysis()
    api.onFault = (table) => analysis.requestFailed(table, time.now)
    const process: Process = new Process(1, {
      time,
      api,
      store: () => store,
      deliveries: null,
      simulatedSink: new SimulatedSink(),
      setting,
      skew,
      onKilled: () => {},
      observer: {
        pageServed: (_, delivery) => analysis.pageServed(delivery, time.now),
        ownerClaimed: () => {},
        writeAllowed: () => {},
        writeSent: () => {},
        committed: (_, written) => {
          const { events, key } = written
          const table = world.table(key.integration, key.model)!
          analysis.committed(table, written, time.now)
          for (const { after, id, kind } of events) {
            report(table, id, { at: time.now, kind, record: after === null ? null : JSON.parse(after) })
          }
          if (events.length > 0) process.appended()
        }
      }
    })
    process.start()
    return {
      analysis,
      attend: () => {
        const holds = time.run(store.holds({ states: ["open"], limit: 1_000 }), Infinity) ?? []
        for (const { id } of holds) {
          const decision = { state: "approving", release: { origin: null, silent: false } } as const
          time.run(process.within(store.decide(id, decision, time.now)), time.now + 1_000)
        }
      },
      calm: () => {
        for (const key of setting.streams) {
          const tried = process.capture?.execute(key, { kind: "poll" }) ?? Effect.void
          time.run(process.within(Effect.ignore(tried)), time.now + 1_000)
        }
      },
      leave: () => {
        process.stop()
        backup.close()
      }
    }
  }
}
