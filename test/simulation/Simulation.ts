/**
 * Lives through one plan: world, faulty API, store, service and sink in one process under virtual time, then peace, then
 * the oracle's verdict.
 *
 * Gotchas
 * - Peace is three things: the faults end, the service is started anew (what it holds in memory is nothing to rely on),
 *   and an operator asks for sweeps, because a blocked stream is rightly left alone for a day.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Sqlite from "../../src/store/Sqlite.ts"
import { Store } from "../../src/store/Store.ts"
import { FaultyApi } from "./FaultyApi.ts"
import { Oracle, type Violation } from "./Oracle.ts"
import { Outlet } from "./Outlet.ts"
import { kindOf, type Mutation, type Plan, type Step, type Trouble } from "./Plan.ts"
import { Process, type Surroundings } from "./Process.ts"
import { answerInWords, commitInWords, minutes } from "./Trace.ts"
import { VirtualTime } from "./VirtualTime.ts"
import { World } from "./World.ts"

export interface Verdict {
  readonly seed: number
  readonly violations: ReadonlyArray<Violation>
  /** Kind → how often it happened: mutations that found a record, faults that met a request, troubles. */
  readonly mutations: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly requests: number
  readonly events: number
}

export const start = Date.parse("2026-03-01T12:00:00Z")

const downtime = (value: number) => 1_000 + Math.floor(value ** 3 * 3_600_000)

/** `told`: hears of every answer and every commit, in words. */
export const simulate = (plan: Plan, told?: (line: string) => void): Verdict => {
  const { seed, setting } = plan
  const time = new VirtualTime(start)
  const world = new World(seed, setting, start)
  const api = new FaultyApi(world, time, setting, seed)
  const oracle = new Oracle(world, time, setting)
  const outlet = new Outlet()
  const scope = Effect.runSync(Scope.make())
  const built = time.run(Layer.buildWithScope(Sqlite.layer({ file: ":memory:" }), scope), Infinity)
  if (built === undefined) throw new Error("the store did not open")
  const store = Context.get(built, Store)

  const mutations: Record<string, number> = {}
  const troubled: Record<string, number> = {}
  const count = (counts: Record<string, number>, kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  let skew = setting.skew
  let processes: ReadonlyArray<Process> = []
  /** Restarts that are due, ms. */
  let restartAt: number | null = null
  let lastValue = 0

  const around: Surroundings = {
    time,
    api,
    store,
    outlet,
    setting,
    witness: {
      delivered: (process, delivery) => {
        told?.(`${minutes(time.now, start)}  ${answerInWords(process, delivery)}`)
        oracle.delivered(process, delivery)
      },
      claimed: (owner) => oracle.claimed(owner),
      committed: (process, written) => {
        told?.(`${minutes(time.now, start)}  ${commitInWords(process, written)}`)
        oracle.committed(process, written)
        if (written.events.length > 0) { for (const other of processes) other.appended() }
      }
    },
    skew: () => skew,
    onKilled: () => {
      restartAt ??= time.now + downtime(lastValue)
    }
  }
  const launch = (): Process => {
    const process = new Process(processes.length + 1, around)
    processes = [...processes, process]
    process.start()
    return process
  }
  let current = launch()

  // ---- steps

  const happen = (step: Mutation, at: number) => {
    // Where there is nothing to restore or to blank, something else happens: no step of a world is idle.
    const instead = ([step.mutation, "edit", "create"] as const).find((mutation) =>
      world.apply({ ...step, mutation }, at, time.now)
    )
    if (instead !== undefined) count(mutations, instead)
  }
  let midway: Array<Mutation> = []
  api.betweenPages = () => {
    const now = midway
    midway = []
    for (const step of now) happen(step, time.now)
  }

  const suffer = (step: Trouble) => {
    count(troubled, step.trouble)
    lastValue = step.value
    switch (step.trouble) {
      case "killBeforeCommit":
        return current.trap("killBefore", step.count)
      case "killAfterCommit":
        return current.trap("killAfter", step.count)
      case "killBeforeSend":
        return outlet.trap("killBefore", step.count)
      case "killAfterSend":
        return outlet.trap("killAfter", step.count)
      case "kill":
        return current.kill()
      case "stop":
        current.stop()
        restartAt ??= time.now + downtime(step.value)
        return
      case "rival":
        restartAt = null
        current = launch()
        return
      case "storeAway":
        return current.trap("away", step.count)
      case "storeUnsure":
        return current.trap("unsure", step.count)
      case "sinkAway":
        return outlet.trap("away", step.count)
      case "sinkUnsure":
        return outlet.trap("unsure", step.count)
      case "clock":
        skew = Math.floor((step.value - 0.5) * 480_000)
        return
    }
  }

  const take = (step: Step) => {
    if ("fault" in step) return api.begin(step)
    if ("trouble" in step) return suffer(step)
    if (step.midway) midway.push(step)
    else happen(step, start + step.at)
  }

  /** What happens when: a change that lags happens to the API when it becomes visible. */
  const agenda = plan.steps
    .map((step) => ({ at: start + step.at + ("mutation" in step && !step.midway ? step.lag : 0), step }))
    .sort((a, b) => a.at - b.at)

  const advance = (to: number) => {
    for (;;) {
      const until = Math.min(to, restartAt ?? Infinity)
      time.advance(until)
      if (restartAt !== null && restartAt <= time.now) {
        restartAt = null
        current = launch()
      }
      if (time.now >= to) return
    }
  }

  for (const { at, step } of agenda) {
    advance(Math.max(at, time.now))
    take(step)
  }
  advance(Math.max(time.now, start + setting.duration))

  // ---- peace

  api.calm()
  outlet.calm()
  for (const step of midway) happen(step, time.now)
  midway = []
  for (const process of processes) process.stop()
  restartAt = null
  skew = 0
  current = launch()
  const hour = 3_600_000
  const ask = (what: "poll" | "sweep") => {
    time.advance(time.now + 1_000)
    for (const key of setting.streams) {
      const { capture } = current
      if (capture !== null) time.run(current.within(Effect.ignore(capture[what](key))), time.now + hour)
    }
  }
  ask("sweep")
  ask("poll")
  advance(time.now + setting.confirmInterval + 2 * setting.interval)
  ask("poll")
  ask("sweep")
  advance(time.now + setting.confirmInterval + 2 * setting.interval)
  ask("poll")

  // ---- verdict

  oracle.windows()
  const log = time.run(store.log({ after: 0, limit: 100_000 }), Infinity) ?? []
  const pending = time.run(store.pendingRows({ limit: 100_000 }), Infinity) ?? []
  oracle.conclude(
    log,
    outlet.entries,
    new Set(pending.map((row) => `${row.integration}/${row.model}/${row.id}`))
  )
  current.stop()
  time.run(Scope.close(scope, Exit.void), Infinity)
  return {
    seed,
    violations: oracle.violations,
    mutations,
    faults: { ...Object.fromEntries(api.met), ...troubled },
    requests: api.requests,
    events: log.length
  }
}

/** The kinds of a plan's steps, for a headline. */
export const kindsOf = (plan: Plan): ReadonlyArray<string> => [...new Set(plan.steps.map(kindOf))]
