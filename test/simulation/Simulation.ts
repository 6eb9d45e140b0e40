/**
 * Runs one plan: world, faulty API, store, service and sink in one process under virtual time, then a quiet phase, then
 * the oracle's verdict.
 *
 * Gotchas
 * - The quiet phase has three parts: the faults end; the service restarts, so that only stored state counts; and an
 *   operator requests sweeps, because the service correctly leaves a blocked stream alone for a day.
 */
import * as Effect from "effect/Effect"
import { decide } from "./Operator.ts"
import type { Violation } from "./oracle/Oracle.ts"
import type { MutationKind, Plan } from "./plan/Plan.ts"
import { leaseMillis } from "./service/SharedRequests.ts"
import { stepsOf } from "./Steps.ts"
import { start, WorldRun } from "./WorldRun.ts"

export interface Verdict {
  readonly seed: number
  readonly violations: ReadonlyArray<Violation>
  /** Kind → how often it happened: mutations that changed a record, faults of requests, troubles. */
  readonly mutations: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly requests: number
  readonly events: number
}

const minute = 60_000
const hour = 60 * minute
/** Longer than the time-out of any handler, in ms. */
const longestAttempt = 900_000

/**
 * A delivery that no process runs, although the store shows it as running, would block its record until a restart. A plugin can end its
 * process during this check: then the check goes on with the next process.
 */
const checkNothingIsStuck = (run: WorldRun): void => {
  const { oracle, plan, store, time } = run
  if (!plan.steps.some((step) => "trouble" in step && step.trouble === "storeUnsure")) return
  const before = store.runningAttempts
  if (before.size === 0) return
  for (let waited = 0; waited < longestAttempt; waited = run.restartAt === null ? waited + minute : 0) {
    run.advance(time.now + minute)
  }
  oracle.checkStuck(new Set([...store.runningAttempts].filter((attempt) => before.has(attempt))))
}

/** A delivery that was refused is tried again within minutes, unless a process runs only later. */
const checkNothingIsBlocked = (run: WorldRun): void => {
  const { oracle, plan, store, time } = run
  if (plan.setting.refusedWrites === null) return
  for (let waited = 0; waited < longestAttempt; waited = run.restartAt === null ? waited + minute : 0) {
    if (store.blockedDeliveries.length === 0) return
    run.advance(time.now + minute)
  }
  oracle.checkBlocked(store.blockedDeliveries)
}

/** `onTrace` receives a line for every response, write and commit, and when a process starts or dies. */
export const simulate = (plan: Plan, onTrace?: (line: string) => void): Verdict => {
  const { seed, setting } = plan
  const run = new WorldRun(plan, onTrace)
  const { api, oracle, sink, store, time, world } = run
  const steps = stepsOf(run)
  for (const { action, at } of steps.agenda) {
    run.advance(Math.max(at, time.now))
    oracle.checkCounts(store.miscounted)
    run.checkKeys()
    action()
  }
  run.advance(Math.max(time.now, start + setting.duration))
  oracle.checkCounts(store.miscounted)

  // ---- quiet phase

  run.storeDelay = 0
  api.clearFaults()
  sink.clearFailures()
  steps.applyMidway()
  // an operator replaces processes that lack a key
  if (run.lacking.size > 0) {
    for (const process of run.lacking.keys()) process.stop()
    run.launch()
  }
  // in steps, because a process that dies in one step is restarted when the step ends
  for (let passed = 0; passed < 60 && oracle.isForgetting; passed++) run.advance(time.now + minute)
  oracle.checkForgettingEnded("although the process runs and no fault is left")
  // the slots of processes that were killed
  if (setting.requestSlots !== null) run.advance(time.now + leaseMillis(setting))
  checkNothingIsStuck(run)
  checkNothingIsBlocked(run)
  for (const process of run.processes) process.stop()
  run.restartAt = null
  // Plugins react to changes: the world becomes quiet only when they are switched off.
  for (const { name } of run.plugins) {
    const action = { at: time.now, command: "plugins.off", target: name, detail: "" }
    time.run(
      store.deliveries.setSwitch({ _tag: "Plugin", plugin: name, integration: null }, false, action),
      Infinity
    )
  }
  run.launch()
  const request = (kind: "poll" | "sweep") => {
    time.advance(time.now + 1_000)
    for (const key of setting.streams) {
      const { capture } = run.current
      if (capture !== null) time.run(run.current.within(Effect.ignore(capture[kind](key))), time.now + hour)
    }
  }
  for (let round = 0; round < 2; round++) {
    request("sweep")
    request("poll")
    run.advance(time.now + setting.confirmInterval + 2 * setting.interval)
    request("poll")
    decide(run, ["open", "rejected"], "approving")
    run.advance(time.now + 2 * setting.interval)
  }
  request("poll")

  // ---- epilogue: changes that a poll must find, or cause a refresh of, without a sweep

  const everywhere = (mutation: MutationKind, ...lags: ReadonlyArray<number>) => {
    world.tables.forEach(({ integration, model, rows }, stream) => {
      // the record that shows the new name could be a forgotten one, which is not read
      const forgets = oracle.forgotten.some((record) => record.integration === integration && record.model === model)
      if (mutation === "renameSeen" && forgets) return
      // In a list without a record that may be read, absent records wait until a live record can serve as a control; a new record would release them.
      const isShown = (row: { readonly id: string; readonly history: ReadonlyArray<{ readonly live: boolean }> }) =>
        row.history.at(-1)!.live && !oracle.hides({ integration, model, id: row.id })
      if (!rows.some(isShown)) return
      for (const lag of lags) {
        world.apply({ at: 0, mutation, stream, recordPick: 0, value: 1, lag, midway: false }, time.now - lag, time.now)
      }
    })
    // six rounds, or two sweeps of a list that is never polled; a request takes up to twice the latency
    run.advance(time.now + (setting.sweepOnly ? 30 : 6) * (setting.interval + 2 * setting.latency))
  }
  if (setting.epilogue === "siblings") everywhere("renameSeen", 0)
  if (setting.epilogue === "late") {
    // With one change that is not late: if polls returned nothing at all, sweeps would replace them (C6).
    const late = setting.minOverlap + 3 * setting.interval
    everywhere("create", late, 0)
    request("sweep")
    everywhere("create", late, 0)
  }

  // ---- verdict

  run.checkKeys()
  const log = run.wholeLog
  const pending = time.run(store.store.pendingRows({ limit: 100_000 }), Infinity) ?? []
  oracle.conclude(
    log,
    sink,
    new Set(pending.map((row) => `${row.integration}/${row.model}/${row.id}`)),
    time.run(store.store.forgotten, Infinity) ?? [],
    (key) => time.run(store.store.runs(key), Infinity) ?? [],
    {
      inSink: (eventId) => sink.places.get(eventId),
      inStore: (position) => time.run(store.store.placeOf(position), Infinity) ?? null
    }
  )
  run.current.stop()
  for (const process of run.processes) process.dispose()
  store.close()
  return {
    seed,
    violations: oracle.violations,
    mutations: steps.mutations,
    faults: { ...Object.fromEntries(api.faultCounts), ...steps.troubles },
    requests: api.requests,
    events: log.length
  }
}
