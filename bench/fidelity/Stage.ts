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
import { Backup } from "../../test/simulation/Backup.ts"
import { contentOf } from "../../test/simulation/Content.ts"
import type { FaultyApi } from "../../test/simulation/FaultyApi.ts"
import { Outlet } from "../../test/simulation/Outlet.ts"
import type { Mutation, Plan, Setting, Step } from "../../test/simulation/Plan.ts"
import { Process } from "../../test/simulation/Process.ts"
import { VirtualTime } from "../../test/simulation/VirtualTime.ts"
import { type Row, type Shape, type Table, World } from "../../test/simulation/World.ts"
import { Ledger } from "./Ledger.ts"
import { PatientApi } from "./PatientApi.ts"
import { day, type Listed, type Poller, readerOf } from "./Pollers.ts"

/** What somebody said of a record; null: it is deleted. */
export interface Told {
  /** Server ms. */
  readonly at: number
  readonly kind: "created" | "updated" | "deleted"
  readonly record: Shape | null
}

interface Surroundings {
  readonly time: VirtualTime
  readonly world: World
  readonly api: FaultyApi
  readonly setting: Setting
  /** Our clock − theirs, ms. */
  readonly skew: () => number
  readonly tell: (table: Table, id: string, told: Told) => void
}

/** Takes part in a world from its beginning. */
export interface Contender {
  readonly name: string
  readonly enter: (around: Surroundings) => {
    /** Somebody comes by, once in a sweep interval. */
    readonly attend?: () => void
    /** All is well again. */
    readonly calm?: () => void
    readonly leave?: () => void
    /** Requests it would need, where it makes none. */
    readonly requests?: () => number
    readonly ledger?: Ledger
  }
}

export interface Outcome {
  readonly world: World
  readonly setting: Setting
  readonly told: ReadonlyMap<Row, ReadonlyArray<Told>>
  /** Said of records that there never were. */
  readonly unheardOf: number
  readonly requests: number
  readonly start: number
  /** Of who keeps one. */
  readonly ledger: Ledger | null
}

const start = Date.parse("2026-03-01T12:00:00Z")

/** The world, and two of its days of peace. */
export const live = ({ seed, setting, steps }: Plan, contender: Contender): Outcome => {
  const time = new VirtualTime(start)
  const world = new World(seed, setting, start)
  const api = new PatientApi(world, time, setting, seed)
  let skew = setting.skew
  const told = new Map<Row, Array<Told>>()
  let unheardOf = 0
  const guest = contender.enter({
    time,
    world,
    api,
    setting,
    skew: () => skew,
    tell: (table, id, said) => {
      const row = table.byId.get(id)
      if (row === undefined) unheardOf++
      else told.set(row, [...told.get(row) ?? [], said])
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
    if ("fault" in step) api.begin(step)
    else if ("trouble" in step) skew = step.trouble === "clock" ? Math.floor((step.value - 0.5) * 480_000) : skew
    else if (step.midway) midway.push(step)
    else happen(step, start + step.at)
  }
  const end = start + setting.duration
  const calm = () => {
    api.calm()
    release()
    guest.calm?.()
  }
  const agenda = [
    { at: end, act: calm },
    { at: end + 2 * day(setting), act: () => guest.leave?.() },
    ...steps.map((step) => ({
      at: Math.min(end, start + step.at + ("mutation" in step && !step.midway ? step.lag : 0)),
      act: () => take(step)
    })),
    ...Array.from({ length: Math.ceil(setting.duration / setting.sweepInterval) + 7 }, (_, visit) => ({
      at: start + (visit + 1) * setting.sweepInterval,
      act: () => guest.attend?.()
    }))
  ].sort((a, b) => a.at - b.at)
  for (const { act, at } of agenda) {
    time.advance(Math.max(at, time.now))
    act()
  }
  return {
    world,
    setting,
    told,
    unheardOf,
    requests: guest.requests?.() ?? api.requests,
    start,
    ledger: guest.ledger ?? null
  }
}

// ---- who takes part -----------------------------------------------------------------------------------------------

/** Looks at everything at each interval and is never refused: what the others are measured by. */
export const ideal: Contender = {
  name: "ideal reader",
  enter: ({ setting, tell, time, world }) => {
    const known = new Map<Row, Shape>()
    let looks = 0
    const look = Effect.sync(() => {
      looks++
      for (const table of world.tables) {
        for (const row of table.byId.values()) {
          const before = known.get(row)
          const shown = row.shown.at(-1)!
          const record = shown.live ? shown.record : null
          if (contentOf(record ?? {}) === contentOf(before ?? {})) continue
          if (record === null) known.delete(row)
          else known.set(row, record)
          const kind = before === undefined ? "created" : record === null ? "deleted" : "updated"
          tell(table, row.id, { at: time.now, kind, record })
        }
      }
    })
    Effect.runFork(Effect.forever(Effect.andThen(look, time.sleep(setting.interval))), { scheduler: time })
    return { requests: () => looks * world.tables.length }
  }
}

export const polling = (poller: Poller): Contender => ({
  name: poller.name,
  enter: ({ api, setting, skew, tell, time, world }) => {
    const clock = time.clock(skew)
    const source = api.source(() => time.now + skew(), () => {})
    for (const stream of setting.streams) {
      const table = world.table(stream.integration, stream.model)!
      const known = new Map<string, string>()
      const remove = (id: string) => {
        if (known.delete(id)) tell(table, id, { at: time.now, kind: "deleted", record: null })
      }
      const see = (row: Listed) => {
        if (row.remote_deleted_at !== null) return remove(row.id)
        const text = JSON.stringify(row)
        const before = known.get(row.id)
        if (before === text) return
        known.set(row.id, text)
        tell(table, row.id, {
          at: time.now,
          kind: before === undefined ? "created" : "updated",
          record: JSON.parse(text)
        })
      }
      const deleteAbsent = (rows: ReadonlyArray<Listed>) => {
        const present = new Set(rows.map(({ id }) => id))
        for (const id of known.keys()) if (!present.has(id)) remove(id)
      }
      const turn = poller.turn({ setting, read: readerOf(source, stream), see, deleteAbsent })
      const run = Effect.forever(Effect.andThen(Effect.ignore(turn), Effect.sleep(setting.interval)))
      Effect.runFork(run.pipe(Effect.provideService(Clock.Clock, clock)), { scheduler: time })
    }
    return {}
  }
})

/** The real service; whoever comes by lets through what it holds back, and in the end has it try what it left alone. */
export const rollcall: Contender = {
  name: "**Rollcall**",
  enter: ({ api, setting, skew, tell, time, world }) => {
    const backup = new Backup(time)
    const store = backup.store
    const ledger = new Ledger()
    api.spoilt = (table) => ledger.troubled(table, time.now)
    const process: Process = new Process(1, {
      time,
      api,
      store: () => store,
      deliveries: null,
      outlet: new Outlet(),
      setting,
      skew,
      onKilled: () => {},
      witness: {
        delivered: (_, delivery) => ledger.delivered(delivery, time.now),
        claimed: () => {},
        begun: () => {},
        left: () => {},
        committed: (_, written) => {
          const { events, key } = written
          const table = world.table(key.integration, key.model)!
          ledger.committed(table, written, time.now)
          for (const { after, id, kind } of events) {
            tell(table, id, { at: time.now, kind, record: after === null ? null : JSON.parse(after) })
          }
          if (events.length > 0) process.appended()
        }
      }
    })
    process.start()
    return {
      ledger,
      attend: () => {
        const holds = time.run(store.holds({ states: ["open"], limit: 1_000 }), Infinity) ?? []
        for (const { id } of holds) {
          const decision = { state: "approving", release: { origin: null, silent: false } } as const
          time.run(process.within(store.decide(id, decision, time.now)), time.now + 1_000)
        }
      },
      calm: () => {
        for (const key of setting.streams) {
          const tried = process.capture?.operate(key, { act: "poll" }) ?? Effect.void
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
