/**
 * Runs one plan: world, faulty API, store, service and sink in one process under virtual time, then a quiet phase, then
 * the oracle's verdict.
 *
 * Gotchas
 * - The quiet phase has three parts: the faults end; the service restarts, so that only stored state counts; and an
 *   operator requests sweeps, because the service correctly leaves a blocked stream alone for a day.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as StoreAdoption from "../../src/capture/rewrite/StoreAdoption.ts"
import { replay } from "../../src/delivery/admin/Replay.ts"
import { batchWindowOf } from "../../src/delivery/handler/Subscription.ts"
import { formatPosition } from "../../src/domain/ChangeEvent.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import { Processes } from "../../src/store/Processes.ts"
import type { Hold } from "../../src/store/Records.ts"
import { Store } from "../../src/store/Store.ts"
import { Oracle, type OracleSnapshot, type Violation } from "./oracle/Oracle.ts"
import {
  type Command,
  type Mutation,
  type MutationKind,
  type Plan,
  type Replay,
  type Step,
  type Trouble
} from "./plan/Plan.ts"
import { describeCommit, describePage, minutes } from "./runner/Trace.ts"
import type { Environment } from "./service/Environment.ts"
import { OperatorKeys } from "./service/OperatorKeys.ts"
import { notifier, plugins, replayed } from "./service/Plugins.ts"
import { Process } from "./service/Process.ts"
import { leaseMillis } from "./service/SharedRequests.ts"
import { SimulatedPlacement } from "./service/SimulatedPlacement.ts"
import { SimulatedSink } from "./service/SimulatedSink.ts"
import { SimulatedStore } from "./service/SimulatedStore.ts"
import { FaultyApi } from "./world/FaultyApi.ts"
import { VirtualTime } from "./world/VirtualTime.ts"
import { World } from "./world/World.ts"

export interface Verdict {
  readonly seed: number
  readonly violations: ReadonlyArray<Violation>
  /** Kind → how often it happened: mutations that changed a record, faults of requests, troubles. */
  readonly mutations: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly requests: number
  readonly events: number
}

export const start = Date.parse("2026-03-01T12:00:00Z")

const minute = 60_000
const hour = 60 * minute
/** Time in which a process that lacks a key hands its work over, in ms. */
const handoverTime = 30_000
/** Longer than the time-out of any handler, in ms. */
const longestAttempt = 900_000
/** The store is slow only after this number of intervals, so that the faults of a world meet a backfill like that of any other world. */
const fastIntervals = 5
/** How long all writes stay stopped, in ms: much longer than the pause of a rejected write. */
const stoppedFor = 1_200_000

/** `onTrace` receives a line for every response, write and commit, and when a process starts or dies. */
export const simulate = (plan: Plan, onTrace?: (line: string) => void): Verdict => {
  const { seed, setting } = plan
  const time = new VirtualTime(start)
  const world = new World(seed, setting, start)
  const api = new FaultyApi(world, time, setting, seed, plan.writes)
  const simulatedSink = new SimulatedSink()
  const simulatedPlacement = setting.fleet ? new SimulatedPlacement(time) : null
  const keys = setting.keys ? new OperatorKeys(seed) : null
  const simulatedStore = new SimulatedStore(time, keys?.all)
  const oracle = new Oracle(
    world,
    time,
    setting,
    (record) => simulatedStore.remainsOf(record, world.marksOf(record)),
    (delivery, claim) => simulatedStore.hasIntent(delivery, claim)
  )

  const mutations: Record<string, number> = {}
  const troubleCounts: Record<string, number> = {}
  const count = (counts: Record<string, number>, kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  /** Mostly short, and never so long that a few restarts fill the whole world. */
  const downtime = (value: number) => 1_000 + Math.floor(value ** 3 * Math.min(hour, setting.duration / 8))
  /** The age of a restored copy, in ms: only a few events happen again, which is the hard case. */
  const age = (value: number) => Math.floor(value ** 2 * Math.min(hour, setting.duration / 3))
  const trace = (line: string) => onTrace?.(`${minutes(time.now, start)}  ${line}`)
  let skew = setting.skew
  let { storeDelay } = setting
  let processes: ReadonlyArray<Process> = []
  /** When the next process starts, in ms; null if no restart is due. */
  let restartAt: number | null = null
  let lastValue = 0

  const forgets = plan.steps.some((step) => "command" in step)
  const { outage } = setting
  const activePlugins = setting.plugins ? plugins : outage === null ? [] : [notifier(() => time.now < start + outage)]
  const environment: Environment = {
    time,
    api,
    store: () => simulatedStore.store,
    deliveries: activePlugins.length > 0 || forgets ? () => simulatedStore.deliveries : null,
    leases: (process) => simulatedStore.leases(process),
    plugins: activePlugins,
    keyed: keys === null ? null : {
      open: () => {
        const own = keys.forStart(simulatedStore.keyIds.registered)
        const context = simulatedStore.open(own)
        return {
          store: Context.get(context, Store),
          deliveries: Context.get(context, Deliveries),
          processes: Context.get(context, Processes),
          keys: own.map(({ id }) => id)
        }
      },
      retired: (process, retired) => {
        if (retired.length === 0) return
        trace(`process ${process.number}  retires the keys ${retired.join(", ")}`)
        const others = processes.filter((other) => other !== process && !other.dead && other.isListed)
        oracle.fleet.keysRetired(retired, others.map(({ store }) => store.keyed?.keys[0] ?? null))
        checkKeys()
        keys.remove(retired)
        for (const other of processes) other.store.keysChanged()
      }
    },
    forgets,
    simulatedSink,
    simulatedPlacement,
    setting,
    observer: {
      pageServed: (process, delivery) => {
        if (onTrace !== undefined) trace(describePage(process, delivery))
        oracle.pageServed(process, delivery)
      },
      ownerClaimed: (owner) => {
        oracle.ownership.ownerClaimed(owner)
        if (keys !== null) { for (const process of processes) process.store.keysChanged() }
      },
      isLatestOwner: (owner) => oracle.ownership.isLatestOwner(owner),
      writeAllowed: (owner) => oracle.ownership.writeAllowed(owner),
      writeSent: (owner) => oracle.ownership.writeSent(owner),
      // a process with keys has a store of its own, and all of these are the same one
      sinkOpened: (store, owner) => oracle.fleet.sinkOpened(keys === null ? store : simulatedStore.store, owner),
      published: (store, owner) => oracle.fleet.published(keys === null ? store : simulatedStore.store, owner),
      handlersRegistered: () => oracle.fleet.handlersRegistered(),
      settledAndClaimed: (owners, outcomes, result) => oracle.settledAndClaimed(owners, outcomes, result),
      committed: (process, written) => {
        if (onTrace !== undefined) trace(describeCommit(process, written))
        oracle.committed(process, written)
        if (keys !== null) oracle.fleet.keysSeen(simulatedStore.keyIds)
        if (written.events.length > 0) { for (const other of processes) other.store.appended() }
      },
      forgettingChanged: (record, state) => {
        trace(`${record.model} ${record.id} is ${state}`)
        oracle.forgettingChanged(record, state)
      }
    },
    storeDelay: () => time.now < start + fastIntervals * setting.interval ? 0 : storeDelay,
    skew: () => skew,
    onKilled: (process) => {
      trace(`process ${process.number}  is killed`)
      simulatedPlacement?.died(process)
      restartAt ??= time.now + downtime(lastValue)
    }
  }
  /** A failover to a copy that lacks commits, until a process starts over the copy or the previous store is back. */
  let failedOver: {
    readonly snapshot: OracleSnapshot
    readonly until: number
    readonly restarts: boolean
    /** Holds that were approved in the copy. */
    readonly approved: Array<number>
  } | null = null
  /** From here on the copy is the store. */
  const keepCopy = () => {
    if (failedOver === null) return
    oracle.restore(
      failedOver.snapshot,
      simulatedSink.taken,
      simulatedSink.isForeign(simulatedStore.store.identity)
    )
    for (const hold of failedOver.approved) oracle.approve(hold)
    failedOver = null
  }
  const launch = (): Process => {
    keepCopy()
    const process = new Process(processes.length + 1, environment)
    processes = [...processes, process]
    trace(`process ${process.number}  starts`)
    process.start()
    return process
  }
  api.onFault = (table, kinds) => oracle.requestFailed(table, kinds)
  api.onRequest = (inFlight) => oracle.fleet.requestSent(inFlight)
  let current = launch()
  api.writes.onEffect = (effect) => {
    trace(`${effect.write} takes effect on ${effect.id}`)
    oracle.writeTookEffect(effect)
  }
  api.writes.startRival = () => {
    restartAt = null
    current = launch()
  }
  const switchWrites = (on: boolean) => {
    const action = {
      at: time.now,
      command: on ? "plugins.resume-writes" : "plugins.stop-writes",
      target: "",
      detail: ""
    }
    return Effect.tap(
      simulatedStore.deliveries.setSwitch({ _tag: "Writes" }, on, action),
      () => Effect.sync(() => oracle.ownership.writesSwitched(on))
    )
  }
  api.writes.stopWrites = () => {
    const stopped = Effect.andThen(switchWrites(false), time.sleep(stoppedFor)).pipe(Effect.andThen(switchWrites(true)))
    Effect.runFork(stopped, { scheduler: time })
  }

  // ---- steps

  const applyMutation = (step: Mutation, at: number) => {
    // If no record can be restored or blanked, another mutation happens: no step of a world is wasted.
    const applied = ([step.mutation, "edit", "create"] as const).find((mutation) =>
      world.apply({ ...step, mutation }, at, time.now)
    )
    if (applied !== undefined) count(mutations, applied)
  }
  const pick = <A>(all: ReadonlyArray<A>, value: number): A | undefined => all[Math.floor(value * all.length)]
  /** Runs while everything else goes on. */
  const applyCommand = ({ command, value }: Command) => {
    const record = command === "forget" ? pick(world.forgettable, value) : pick(oracle.forgotten, value)
    if (record === undefined) return
    // the owner of the record's stream executes the command
    const owner = processes.findLast(({ capture, dead }) => !dead && capture?.owns(record.integration) === true)
    const process = setting.fleet ? owner : current
    const forgetting = process?.forgetting ?? null
    if (process === undefined || forgetting === null) return
    count(troubleCounts, command)
    const forget = Effect.flatMap(forgetting.plan(record), ({ hash }) => forgetting.forget(record, hash))
    const run = command === "forget" ? forget : forgetting.allow(record)
    Effect.runFork(process.within(process.whileAlive(Effect.ignore(run))), { scheduler: time })
  }

  let midway: Array<Mutation | Command> = []
  const applyMidway = () => {
    const now = midway
    midway = []
    for (const step of now) {
      if ("command" in step) applyCommand(step)
      else applyMutation(step, time.now)
    }
  }
  api.betweenPages = applyMidway

  /** An operator decides about all holds; returns whether there was one. */
  const decide = (states: ReadonlyArray<Hold["state"]>, decision: "approving" | "rejected"): boolean => {
    const holds = time.run(simulatedStore.store.holds({ states, limit: 1_000 }), Infinity) ?? []
    const decided = decision === "rejected"
      ? { state: decision }
      : { state: decision, release: { origin: null, silent: false } }
    for (const { id } of holds) {
      if (decision === "approving" && failedOver !== null) failedOver.approved.push(id)
      else if (decision === "approving") oracle.approve(id)
      time.run(current.within(simulatedStore.store.decide(id, decided, time.now)), time.now + 1_000)
    }
    return holds.length > 0
  }

  const adopt = () => {
    keepCopy()
    for (const process of processes) process.kill()
    const adoption = Effect.flatMap(
      StoreAdoption.plan(simulatedSink.generation),
      (plan) => StoreAdoption.adopt(plan, () => null)
    )
    time.run(current.within(Effect.provideService(adoption, Store, simulatedStore.store)), Infinity)
    simulatedStore.reopen()
    const range = time.run(simulatedStore.store.logRange, Infinity)
    oracle.adopted(wholeLog(), range?.newest ?? 0, simulatedSink.entries)
  }
  /** An operator replays a range of the log to the batch handler. */
  const replayDeliveries = ({ from, to }: Replay) => {
    const plugin = plugins.find(({ name }) => name === replayed.plugin)
    const handler = plugin?.handlers.find(({ name }) => name === replayed.handler)
    if (plugin === undefined || handler === undefined) {
      throw new Error("the plugin or handler for replays does not exist")
    }
    const { deliveries, store } = simulatedStore
    const replaying = Effect.gen(function*() {
      const state = (yield* deliveries.handlers).find((one) => one.plugin === plugin.name)
      const { newest } = yield* store.logRange
      if (state === undefined || newest === 0) return
      const positionAt = (part: number) => formatPosition(store.identity, Math.max(1, Math.round(part * newest)))
      const range = { ...replayed, from: positionAt(from), to: positionAt(to), fresh: false }
      const integrations = [...new Set(setting.streams.map(({ integration }) => integration))]
      const subscription = { key: state.key, plugin, handler, batchWindow: batchWindowOf(handler) }
      const { deliveries: count } = yield* replay(subscription, range, integrations)
      trace(`an operator replays ${count} deliveries`)
    }).pipe(Effect.provideService(Store, store), Effect.provideService(Deliveries, deliveries), Effect.ignore)
    time.run(current.within(replaying), Infinity)
  }

  /**
   * A delivery that no process runs, although the store shows it as running, would block its record until a restart. A plugin can end its
   * process during this check: then the check goes on with the next process.
   */
  const checkNothingIsStuck = () => {
    if (!plan.steps.some((step) => "trouble" in step && step.trouble === "storeUnsure")) return
    const before = simulatedStore.runningAttempts
    if (before.size === 0) return
    for (let waited = 0; waited < longestAttempt; waited = restartAt === null ? waited + minute : 0) {
      advance(time.now + minute)
    }
    oracle.checkStuck(new Set([...simulatedStore.runningAttempts].filter((attempt) => before.has(attempt))))
  }

  /** A delivery that was refused is tried again within minutes, unless a process runs only later. */
  const checkNothingIsBlocked = () => {
    if (setting.refusedWrites === null) return
    for (let waited = 0; waited < longestAttempt; waited = restartAt === null ? waited + minute : 0) {
      if (simulatedStore.blockedDeliveries.length === 0) return
      advance(time.now + minute)
    }
    oracle.checkBlocked(simulatedStore.blockedDeliveries)
  }

  const replaceOldest = () => {
    processes.find(({ dead }) => !dead)?.stop()
    restartAt = null
    current = launch()
  }

  /** Since when each process has lacked a key, in ms; a key may be retired and registered again between two steps. */
  const lacking = new Map<Process, number>()
  const checkKeys = () => {
    if (keys === null || simulatedPlacement === null) return
    const ids = simulatedStore.keyIds
    oracle.fleet.keysSeen(ids)
    for (const process of processes) {
      const since = simulatedPlacement.awakeSince(process)
      const hasAll = [...ids.registered].every((id) => process.store.keyed?.keys.includes(id))
      if (process.dead || hasAll) lacking.delete(process)
      else if (since !== null) {
        // a transaction that claims nothing may have registered the key
        if (!lacking.has(process)) process.store.keysChanged()
        const noticed = Math.max(since, lacking.get(process) ?? time.now)
        lacking.set(process, noticed)
        if (time.now - noticed > handoverTime) {
          oracle.fleet.keysLacked(process.number, simulatedPlacement.works(process))
        }
      }
    }
  }

  const wholeLog = () => time.run(simulatedStore.store.readLog({ after: 0, limit: 100_000 }), Infinity) ?? []

  const applyTrouble = (step: Trouble) => {
    if (step.trouble === "approve" || step.trouble === "reject") {
      if (decide(["open"], step.trouble === "approve" ? "approving" : "rejected")) count(troubleCounts, step.trouble)
      return
    }
    count(troubleCounts, step.trouble)
    lastValue = step.value
    switch (step.trouble) {
      case "killBeforeCommit":
        return current.store.injectFailure("killBefore", step.count)
      case "killAfterCommit":
        return current.store.injectFailure("killAfter", step.count)
      case "killBeforeSend":
        return simulatedSink.injectFailure("killBefore", step.count)
      case "killAfterSend":
        return simulatedSink.injectFailure("killAfter", step.count)
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
      case "join":
        current = launch()
        return
      case "move":
        return simulatedPlacement?.move()
      case "freeze":
        current.becomeSilent()
        return simulatedPlacement?.freeze(current, 5_000 + Math.floor(step.value * 60_000))
      case "newKey":
        return keys?.change(step.value < 0.5)
      case "replace":
        return replaceOldest()
      case "storeAway":
        return current.store.injectFailure("away", step.count)
      case "storeUnsure":
        return step.value < 0.5 ? current.store.injectFailure("unsure", step.count) : current.store.loseNextClaim()
      case "sinkAway":
        return simulatedSink.injectFailure("away", step.count)
      case "sinkUnsure":
        return simulatedSink.injectFailure("unsure", step.count)
      case "storeRestored": {
        const copy = copies.get(step)
        if (copy === undefined) return
        keepCopy()
        for (const process of processes) process.kill()
        simulatedStore.restore(copy.file)
        oracle.restore(
          copy.snapshot,
          simulatedSink.taken,
          simulatedSink.isForeign(simulatedStore.store.identity)
        )
        return
      }
      case "storeLost":
        keepCopy()
        for (const process of processes) process.kill()
        simulatedStore.replace()
        oracle.lost(simulatedSink.taken, simulatedSink.isForeign(simulatedStore.store.identity))
        return
      case "storeFailedOver": {
        const copy = copies.get(step)
        if (copy === undefined) return
        keepCopy()
        oracle.fleet.storeReplaced()
        if (!simulatedStore.failOver(copy.file)) return
        // later the previous store comes back, or an operator restarts the process over the copy
        failedOver = {
          snapshot: copy.snapshot,
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

  /** Copies for later restores, made while the original store was in use. */
  const copies = new Map<Step, { readonly file: string; readonly snapshot: OracleSnapshot }>()

  const applyStep = (step: Step) => {
    if ("fault" in step) return api.addFault(step)
    if ("trouble" in step) return applyTrouble(step)
    if (step.midway) midway.push(step)
    else if ("command" in step) applyCommand(step)
    else applyMutation(step, start + step.at)
  }

  const copyFor = (step: Trouble) => () => {
    if (failedOver !== null) return
    const snapshot = oracle.snapshot()
    if (snapshot !== null) copies.set(step, { file: simulatedStore.copy(), snapshot })
  }
  /** The steps by time: a mutation with a lag happens to the API when it becomes visible. */
  const agenda = plan.steps.flatMap((step) => {
    const at = start + step.at
    const action = { at: at + ("mutation" in step && !step.midway ? step.lag : 0), action: () => applyStep(step) }
    if (!("trouble" in step) || (step.trouble !== "storeRestored" && step.trouble !== "storeFailedOver")) {
      return [action]
    }
    const isCurrentCopy = step.trouble === "storeFailedOver" && step.count % 3 === 0
    return [{ at: isCurrentCopy ? at : at - age(step.value), action: copyFor(step) }, action]
  }).concat(plan.replays.map((again) => ({ at: start + again.at, action: () => replayDeliveries(again) })))
    .sort((a, b) => a.at - b.at)

  const advance = (to: number) => {
    for (;;) {
      const until = Math.min(to, restartAt ?? Infinity, failedOver?.until ?? Infinity)
      time.advance(until)
      if (failedOver !== null && failedOver.until <= time.now) {
        if (failedOver.restarts) {
          keepCopy()
          for (const process of processes) process.kill()
        } else {
          simulatedStore.failBack()
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

  for (const { action, at } of agenda) {
    advance(Math.max(at, time.now))
    oracle.checkCounts(simulatedStore.miscounted)
    checkKeys()
    action()
  }
  advance(Math.max(time.now, start + setting.duration))
  oracle.checkCounts(simulatedStore.miscounted)

  // ---- quiet phase

  storeDelay = 0
  api.clearFaults()
  simulatedSink.clearFailures()
  applyMidway()
  // an operator replaces processes that lack a key
  if (lacking.size > 0) {
    for (const process of lacking.keys()) process.stop()
    current = launch()
  }
  // in steps, because a process that dies in one step is restarted when the step ends
  for (let passed = 0; passed < 60 && oracle.isForgetting; passed++) advance(time.now + minute)
  oracle.checkForgettingEnded("although the process runs and no fault is left")
  // the slots of processes that were killed
  if (setting.requestSlots !== null) advance(time.now + leaseMillis(setting))
  checkNothingIsStuck()
  checkNothingIsBlocked()
  for (const process of processes) process.stop()
  restartAt = null
  // Plugins react to changes: the world becomes quiet only when they are switched off.
  for (const { name } of activePlugins) {
    const action = { at: time.now, command: "plugins.off", target: name, detail: "" }
    time.run(
      simulatedStore.deliveries.setSwitch({ _tag: "Plugin", plugin: name, integration: null }, false, action),
      Infinity
    )
  }
  current = launch()
  const request = (kind: "poll" | "sweep") => {
    time.advance(time.now + 1_000)
    for (const key of setting.streams) {
      const { capture } = current
      if (capture !== null) time.run(current.within(Effect.ignore(capture[kind](key))), time.now + hour)
    }
  }
  for (let round = 0; round < 2; round++) {
    request("sweep")
    request("poll")
    advance(time.now + setting.confirmInterval + 2 * setting.interval)
    request("poll")
    decide(["open", "rejected"], "approving")
    advance(time.now + 2 * setting.interval)
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
    // six rounds; a request takes up to twice the latency
    advance(time.now + 6 * (setting.interval + 2 * setting.latency))
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

  checkKeys()
  const log = wholeLog()
  const pending = time.run(simulatedStore.store.pendingRows({ limit: 100_000 }), Infinity) ?? []
  oracle.conclude(
    log,
    simulatedSink,
    new Set(pending.map((row) => `${row.integration}/${row.model}/${row.id}`)),
    time.run(simulatedStore.store.forgotten, Infinity) ?? [],
    (key) => time.run(simulatedStore.store.runs(key), Infinity) ?? [],
    {
      inSink: (eventId) => simulatedSink.places.get(eventId),
      inStore: (position) => time.run(simulatedStore.store.placeOf(position), Infinity) ?? null
    }
  )
  current.stop()
  for (const process of processes) process.dispose()
  simulatedStore.close()
  return {
    seed,
    violations: oracle.violations,
    mutations,
    faults: { ...Object.fromEntries(api.faultCounts), ...troubleCounts },
    requests: api.requests,
    events: log.length
  }
}
