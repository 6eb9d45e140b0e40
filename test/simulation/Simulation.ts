/**
 * Lives through one plan: world, faulty API, store, service and sink in one process under virtual time, then peace, then
 * the oracle's verdict.
 *
 * Gotchas
 * - Peace is three things: the faults end, the service is started anew (what it holds in memory is nothing to rely on),
 *   and an operator asks for sweeps, because a blocked stream is rightly left alone for a day.
 */
import * as Effect from "effect/Effect"
import * as Adoption from "../../src/capture/Adoption.ts"
import { replay } from "../../src/delivery/Replay.ts"
import { gatheringOf } from "../../src/delivery/Subscription.ts"
import { formatPosition } from "../../src/domain/ChangeEvent.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import type { Hold } from "../../src/store/State.ts"
import { Store } from "../../src/store/Store.ts"
import { Backup } from "./Backup.ts"
import { FaultyApi } from "./FaultyApi.ts"
import { type Memory, Oracle, type Violation } from "./Oracle.ts"
import { Outlet } from "./Outlet.ts"
import { kindOf, type Mutation, type MutationKind, type Plan, type Replay, type Step, type Trouble } from "./Plan.ts"
import { plugins, replayed } from "./Plugins.ts"
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

const hour = 3_600_000
/** How long all writes are stopped: until well after the pause that a write waits for. */
const stoppedFor = 1_200_000

/** `told`: hears of every answer, write and commit, and of processes that begin and die, in words. */
export const simulate = (plan: Plan, told?: (line: string) => void): Verdict => {
  const { seed, setting } = plan
  const time = new VirtualTime(start)
  const world = new World(seed, setting, start)
  const api = new FaultyApi(world, time, setting, seed, plan.writes)
  const oracle = new Oracle(world, time, setting)
  const outlet = new Outlet()
  const backup = new Backup(time)

  const mutations: Record<string, number> = {}
  const troubled: Record<string, number> = {}
  const count = (counts: Record<string, number>, kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  /** Short mostly, and never so long that a few of them are the whole world. */
  const downtime = (value: number) => 1_000 + Math.floor(value ** 3 * Math.min(hour, setting.duration / 8))
  /** How old the copy of a restored store is: that a few events are had again is what makes it hard. */
  const age = (value: number) => Math.floor(value ** 2 * Math.min(hour, setting.duration / 3))
  const tell = (what: string) => told?.(`${minutes(time.now, start)}  ${what}`)
  let skew = setting.skew
  let processes: ReadonlyArray<Process> = []
  /** Restarts that are due, ms. */
  let restartAt: number | null = null
  let lastValue = 0

  const around: Surroundings = {
    time,
    api,
    store: () => backup.store,
    deliveries: setting.plugins ? () => backup.deliveries : null,
    outlet,
    setting,
    witness: {
      delivered: (process, delivery) => {
        if (told !== undefined) tell(answerInWords(process, delivery))
        oracle.delivered(process, delivery)
      },
      claimed: (owner) => oracle.claimed(owner),
      begun: (owner) => oracle.begun(owner),
      left: (owner) => oracle.left(owner),
      committed: (process, written) => {
        if (told !== undefined) tell(commitInWords(process, written))
        oracle.committed(process, written)
        if (written.events.length > 0) { for (const other of processes) other.appended() }
      }
    },
    skew: () => skew,
    onKilled: (process) => {
      tell(`process ${process.number}  is killed`)
      restartAt ??= time.now + downtime(lastValue)
    }
  }
  /** A failover to a copy that lacks something, until a process begins over it or the store of before is back. */
  let failedOver: {
    readonly memory: Memory
    readonly until: number
    readonly restarts: boolean
    /** Holds that were approved in the copy. */
    readonly approved: Array<number>
  } | null = null
  /** From here on the copy is the store. */
  const settle = () => {
    if (failedOver === null) return
    oracle.restore(failedOver.memory, outlet.entries.length, outlet.isForeign(backup.store.identity))
    for (const hold of failedOver.approved) oracle.approve(hold)
    failedOver = null
  }
  const launch = (): Process => {
    settle()
    const process = new Process(processes.length + 1, around)
    processes = [...processes, process]
    tell(`process ${process.number}  starts`)
    process.start()
    return process
  }
  let current = launch()
  api.effected = (effect) => {
    tell(`somebody's ${effect.write} takes effect on ${effect.id}`)
    oracle.effected(effect)
  }
  api.rival = () => {
    restartAt = null
    current = launch()
  }
  const switchWrites = (on: boolean) => {
    const act = { at: time.now, act: on ? "plugins.resume-writes" : "plugins.stop-writes", target: "", detail: "" }
    return Effect.tap(backup.deliveries.set({ _tag: "Writes" }, on, act), () => Effect.sync(() => oracle.switched(on)))
  }
  api.stopWrites = () => {
    const stopped = Effect.andThen(switchWrites(false), time.sleep(stoppedFor)).pipe(Effect.andThen(switchWrites(true)))
    Effect.runFork(stopped, { scheduler: time })
  }

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

  /** Whoever looks at the holds: says whether there was one. */
  const decide = (states: ReadonlyArray<Hold["state"]>, decision: "approving" | "rejected"): boolean => {
    const holds = time.run(backup.store.holds({ states, limit: 1_000 }), Infinity) ?? []
    const decided = decision === "rejected"
      ? { state: decision }
      : { state: decision, release: { origin: null, silent: false } }
    for (const { id } of holds) {
      if (decision === "approving" && failedOver !== null) failedOver.approved.push(id)
      else if (decision === "approving") oracle.approve(id)
      time.run(current.within(backup.store.decide(id, decided, time.now)), time.now + 1_000)
    }
    return holds.length > 0
  }

  const adopt = () => {
    settle()
    for (const process of processes) process.kill()
    const adoption = Effect.flatMap(Adoption.plan(outlet.lineage), (plan) => Adoption.adopt(plan, () => null))
    time.run(current.within(Effect.provideService(adoption, Store, backup.store)), Infinity)
    backup.reopen()
    const range = time.run(backup.store.logRange, Infinity)
    oracle.adopted(wholeLog(), range?.newest ?? 0, outlet.entries)
  }
  /** An operator has a stretch of the log delivered to the batches again. */
  const deliverAgain = ({ from, to }: Replay) => {
    const plugin = plugins.find(({ name }) => name === replayed.plugin)
    const handler = plugin?.handlers.find(({ name }) => name === replayed.handler)
    if (plugin === undefined || handler === undefined) throw new Error("there is nothing to replay to")
    const { deliveries, store } = backup
    const again = Effect.gen(function*() {
      const state = (yield* deliveries.handlers).find((one) => one.plugin === plugin.name)
      const { newest } = yield* store.logRange
      if (state === undefined || newest === 0) return
      const place = (part: number) => formatPosition(store.identity, Math.max(1, Math.round(part * newest)))
      const stretch = { ...replayed, from: place(from), to: place(to), fresh: false }
      const integrations = [...new Set(setting.streams.map(({ integration }) => integration))]
      const subscription = { key: state.key, plugin, handler, gathering: gatheringOf(handler) }
      const { deliveries: count } = yield* replay(subscription, stretch, integrations)
      tell(`an operator replays ${count} deliveries`)
    }).pipe(Effect.provideService(Store, store), Effect.provideService(Deliveries, deliveries), Effect.ignore)
    time.run(current.within(again), Infinity)
  }

  const wholeLog = () => time.run(backup.store.log({ after: 0, limit: 100_000 }), Infinity) ?? []

  const suffer = (step: Trouble) => {
    if (step.trouble === "approve" || step.trouble === "reject") {
      if (decide(["open"], step.trouble === "approve" ? "approving" : "rejected")) count(troubled, step.trouble)
      return
    }
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
      case "storeRestored": {
        const copy = copies.get(step)
        if (copy === undefined) return
        settle()
        for (const process of processes) process.kill()
        backup.restore(copy.file)
        oracle.restore(copy.memory, outlet.entries.length, outlet.isForeign(backup.store.identity))
        return
      }
      case "storeLost":
        settle()
        for (const process of processes) process.kill()
        backup.replace()
        oracle.lost(outlet.entries.length, outlet.isForeign(backup.store.identity))
        return
      case "storeFailedOver": {
        const copy = copies.get(step)
        if (copy === undefined) return
        settle()
        if (!backup.failOver(copy.file)) return
        // then somebody sees to it: the store of before comes back, or the process is started over the copy
        failedOver = {
          memory: copy.memory,
          until: time.now + 4 * setting.interval + downtime(step.value),
          restarts: step.count % 2 === 1,
          approved: []
        }
        return
      }
      case "adopt":
        return adopt()
      case "clock":
        skew = Math.floor((step.value - 0.5) * 480_000)
        return
    }
  }

  /** Made for a restore to come, while all went well. */
  const copies = new Map<Step, { readonly file: string; readonly memory: Memory }>()

  const take = (step: Step) => {
    if ("fault" in step) return api.begin(step)
    if ("trouble" in step) return suffer(step)
    if (step.midway) midway.push(step)
    else happen(step, start + step.at)
  }

  const copyFor = (step: Trouble) => () => {
    if (failedOver !== null) return
    const memory = oracle.remember()
    if (memory !== null) copies.set(step, { file: backup.copy(), memory })
  }
  /** What happens when: a change that lags happens to the API when it becomes visible. */
  const agenda = plan.steps.flatMap((step) => {
    const at = start + step.at
    const act = { at: at + ("mutation" in step && !step.midway ? step.lag : 0), act: () => take(step) }
    if (!("trouble" in step) || (step.trouble !== "storeRestored" && step.trouble !== "storeFailedOver")) return [act]
    const isWhole = step.trouble === "storeFailedOver" && step.count % 3 === 0
    return [{ at: isWhole ? at : at - age(step.value), act: copyFor(step) }, act]
  }).concat(plan.replays.map((again) => ({ at: start + again.at, act: () => deliverAgain(again) })))
    .sort((a, b) => a.at - b.at)

  const advance = (to: number) => {
    for (;;) {
      const until = Math.min(to, restartAt ?? Infinity, failedOver?.until ?? Infinity)
      time.advance(until)
      if (failedOver !== null && failedOver.until <= time.now) {
        if (failedOver.restarts) {
          settle()
          for (const process of processes) process.kill()
        } else {
          backup.failBack()
          failedOver = null
        }
      }
      if (restartAt !== null && restartAt <= time.now) {
        restartAt = null
        current = launch()
      }
      if (time.now >= to) return
    }
  }

  for (const { act, at } of agenda) {
    advance(Math.max(at, time.now))
    act()
  }
  advance(Math.max(time.now, start + setting.duration))

  // ---- peace

  api.calm()
  outlet.calm()
  for (const step of midway) happen(step, time.now)
  midway = []
  for (const process of processes) process.stop()
  restartAt = null
  // plugins answer what they see: the world comes to rest when they are switched off
  for (const { name } of plugins) {
    const act = { at: time.now, act: "plugins.off", target: name, detail: "" }
    time.run(backup.deliveries.set({ _tag: "Plugin", plugin: name, integration: null }, false, act), Infinity)
  }
  current = launch()
  const ask = (what: "poll" | "sweep") => {
    time.advance(time.now + 1_000)
    for (const key of setting.streams) {
      const { capture } = current
      if (capture !== null) time.run(current.within(Effect.ignore(capture[what](key))), time.now + hour)
    }
  }
  for (let round = 0; round < 2; round++) {
    ask("sweep")
    ask("poll")
    advance(time.now + setting.confirmInterval + 2 * setting.interval)
    ask("poll")
    decide(["open", "rejected"], "approving")
    advance(time.now + 2 * setting.interval)
  }
  ask("poll")

  // ---- epilogue: what a poll must find, or lead to, without a sweep

  const everywhere = (mutation: MutationKind, ...lags: ReadonlyArray<number>) => {
    world.tables.forEach(({ rows }, stream) => {
      // where nothing lives, what is gone waits for somebody who vouches for it, and would begin to move
      if (rows.every((row) => !row.shown.at(-1)!.live)) return
      for (const lag of lags) {
        world.apply({ at: 0, mutation, stream, who: 0, value: 1, lag, midway: false }, time.now - lag, time.now)
      }
    })
    // six rounds; a request takes up to twice the latency
    advance(time.now + 6 * (setting.interval + 2 * setting.latency))
  }
  if (setting.epilogue === "siblings") everywhere("renameSeen", 0)
  if (setting.epilogue === "late") {
    // one in time beside it: polls that show nothing at all would be taken for deaf, and sweeps come in their place (C6)
    const late = setting.overlapMin + 3 * setting.interval
    everywhere("create", late, 0)
    ask("sweep")
    everywhere("create", late, 0)
  }

  // ---- verdict

  const log = wholeLog()
  const pending = time.run(backup.store.pendingRows({ limit: 100_000 }), Infinity) ?? []
  oracle.conclude(
    log,
    outlet,
    new Set(pending.map((row) => `${row.integration}/${row.model}/${row.id}`))
  )
  current.stop()
  for (const process of processes) process.bury()
  backup.close()
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
