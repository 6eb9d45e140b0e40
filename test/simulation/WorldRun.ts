/**
 * The run of one world, with everything that belongs to it: the API, the store, the sink, the oracle, and the processes, which start, die and restart while
 * virtual time advances.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Deliveries } from "../../src/store/Deliveries.ts"
import { Processes } from "../../src/store/Processes.ts"
import { Store } from "../../src/store/Store.ts"
import { Oracle, type OracleSnapshot } from "./oracle/Oracle.ts"
import type { Plan } from "./plan/Plan.ts"
import { describeCommit, describePage, minutes } from "./runner/Trace.ts"
import type { Environment } from "./service/Environment.ts"
import { OperatorKeys } from "./service/OperatorKeys.ts"
import { notifier, plugins } from "./service/Plugins.ts"
import { Process } from "./service/Process.ts"
import type { RunningProcess } from "./service/ProcessObserver.ts"
import { SimulatedPlacement } from "./service/SimulatedPlacement.ts"
import { SimulatedSink } from "./service/SimulatedSink.ts"
import { SimulatedStore } from "./service/SimulatedStore.ts"
import { FaultyApi } from "./world/FaultyApi.ts"
import { VirtualTime } from "./world/VirtualTime.ts"
import { World } from "./world/World.ts"

export const start = Date.parse("2026-03-01T12:00:00Z")

const hour = 3_600_000
/** Time in which a process that lacks a key hands its work over, in ms. */
const handoverTime = 30_000
/** The store is slow only after this number of intervals, so that the faults of a world meet a backfill like that of any other world. */
const fastIntervals = 5
/** How long all writes stay stopped, in ms: much longer than the pause of a rejected write. */
const stoppedFor = 1_200_000

/** A failover to a copy that lacks commits, until a process starts over the copy or the previous store is back. */
interface Failover {
  readonly snapshot: OracleSnapshot
  readonly until: number
  readonly restarts: boolean
  /** Holds that were approved in the copy. */
  readonly approved: Array<number>
}

export class WorldRun {
  readonly plan: Plan
  readonly time = new VirtualTime(start)
  readonly world: World
  readonly api: FaultyApi
  readonly sink = new SimulatedSink()
  readonly placement: SimulatedPlacement | null
  readonly keys: OperatorKeys | null
  readonly store: SimulatedStore
  readonly oracle: Oracle
  readonly plugins: Environment["plugins"]
  readonly #environment: Environment
  readonly #onTrace: ((line: string) => void) | undefined
  processes: ReadonlyArray<Process> = []
  current: Process
  /** When the next process starts, in ms; null if no restart is due. */
  restartAt: number | null = null
  /** The service's clock minus the API's clock, and how long the store takes, in ms. */
  skew: number
  storeDelay: number
  /** The value of the latest trouble: it decides how long the process is down that a trouble kills later. */
  lastValue = 0
  failover: Failover | null = null
  /** Since when each process has lacked a key, in ms; a key may be retired and registered again between two steps. */
  readonly lacking = new Map<Process, number>()

  constructor(plan: Plan, onTrace?: (line: string) => void) {
    const { seed, setting } = plan
    this.plan = plan
    this.#onTrace = onTrace
    this.world = new World(seed, setting, start)
    this.api = new FaultyApi(this.world, this.time, setting, seed, plan.writes)
    this.placement = setting.fleet ? new SimulatedPlacement(this.time) : null
    this.keys = setting.keys ? new OperatorKeys(seed) : null
    this.store = new SimulatedStore(this.time, this.keys?.all)
    this.oracle = new Oracle(
      this.world,
      this.time,
      setting,
      (record) => this.store.remainsOf(record, this.world.marksOf(record)),
      (delivery, claim) => this.store.hasIntent(delivery, claim)
    )
    this.skew = setting.skew
    this.storeDelay = setting.storeDelay
    const { outage } = setting
    this.plugins = setting.plugins ? plugins : outage === null ? [] : [notifier(() => this.time.now < start + outage)]
    this.#environment = this.#newEnvironment()
    this.api.onFault = (table, kinds) => this.oracle.requestFailed(table, kinds)
    this.api.onRequest = (inFlight) => this.oracle.fleet.requestSent(inFlight)
    this.api.writes.onEffect = (effect) => {
      this.trace(`${effect.write} takes effect on ${effect.id}`)
      this.oracle.writeTookEffect(effect)
    }
    this.api.writes.startRival = () => this.replaceCurrent()
    this.api.writes.stopWrites = () => {
      const stopped = Effect.andThen(this.#switchWrites(false), this.time.sleep(stoppedFor)).pipe(
        Effect.andThen(this.#switchWrites(true))
      )
      Effect.runFork(stopped, { scheduler: this.time })
    }
    this.current = this.#launch()
  }

  trace(line: string): void {
    this.#onTrace?.(`${minutes(this.time.now, start)}  ${line}`)
  }

  /** Mostly short, and never so long that a few restarts fill the whole world. */
  downtime(value: number): number {
    return 1_000 + Math.floor(value ** 3 * Math.min(hour, this.plan.setting.duration / 8))
  }

  #newEnvironment(): Environment {
    const { api, keys, oracle, placement, plan, sink, store, time } = this
    const { setting } = plan
    const forgets = plan.steps.some((step) => "command" in step)
    return {
      time,
      api,
      store: () => store.store,
      deliveries: this.plugins.length > 0 || forgets ? () => store.deliveries : null,
      leases: (process) => store.leases(process),
      plugins: this.plugins,
      keyed: keys === null ? null : {
        open: () => {
          const own = keys.forStart(store.keyIds.registered)
          const context = store.open(own)
          return {
            store: Context.get(context, Store),
            deliveries: Context.get(context, Deliveries),
            processes: Context.get(context, Processes),
            keys: own.map(({ id }) => id)
          }
        },
        retired: (process, retired) => this.#keysRetired(keys, process, retired)
      },
      forgets,
      simulatedSink: sink,
      simulatedPlacement: placement,
      setting,
      listsCandidates: () => setting.candidateList !== null && time.now >= start + setting.candidateList,
      observer: {
        pageServed: (process, delivery) => {
          if (this.#onTrace !== undefined) this.trace(describePage(process, delivery))
          oracle.pageServed(process, delivery)
        },
        ownerClaimed: (owner) => {
          oracle.ownership.ownerClaimed(owner)
          if (keys !== null) { for (const process of this.processes) process.store.keysChanged() }
        },
        isLatestOwner: (owner) => oracle.ownership.isLatestOwner(owner),
        writeAllowed: (owner) => oracle.ownership.writeAllowed(owner),
        writeSent: (owner) => oracle.ownership.writeSent(owner),
        // a process with keys has a store of its own, and all of these are the same one
        sinkOpened: (opened, owner) => oracle.fleet.sinkOpened(keys === null ? opened : store.store, owner),
        published: (own, owner) => oracle.fleet.published(keys === null ? own : store.store, owner),
        handlersRegistered: () => oracle.fleet.handlersRegistered(),
        settledAndClaimed: (owners, outcomes, result) => oracle.settledAndClaimed(owners, outcomes, result),
        committed: (process, written) => {
          if (this.#onTrace !== undefined) this.trace(describeCommit(process, written))
          oracle.committed(process, written)
          if (keys !== null) oracle.fleet.keysSeen(store.keyIds)
          if (written.events.length > 0) { for (const other of this.processes) other.store.appended() }
        },
        forgettingChanged: (record, state) => {
          this.trace(`${record.model} ${record.id} is ${state}`)
          oracle.forgettingChanged(record, state)
        }
      },
      storeDelay: () => time.now < start + fastIntervals * setting.interval ? 0 : this.storeDelay,
      skew: () => this.skew,
      onKilled: (process) => {
        this.trace(`process ${process.number}  is killed`)
        placement?.died(process)
        this.restartAt ??= time.now + this.downtime(this.lastValue)
      }
    }
  }

  #keysRetired(keys: OperatorKeys, process: RunningProcess, retired: ReadonlyArray<string>): void {
    if (retired.length === 0) return
    this.trace(`process ${process.number}  retires the keys ${retired.join(", ")}`)
    const others = this.processes.filter((other) => other !== process && !other.dead && other.isListed)
    this.oracle.fleet.keysRetired(retired, others.map(({ store }) => store.keyed?.keys[0] ?? null))
    this.checkKeys()
    keys.remove(retired)
    for (const other of this.processes) other.store.keysChanged()
  }

  /** Called often: keys may be retired and processes may lack keys at any time. */
  checkKeys(): void {
    const { keys, lacking, oracle, placement, store, time } = this
    if (keys === null || placement === null) return
    const ids = store.keyIds
    oracle.fleet.keysSeen(ids)
    for (const process of this.processes) {
      const since = placement.awakeSince(process)
      const hasAll = [...ids.registered].every((id) => process.store.keyed?.keys.includes(id))
      if (process.dead || hasAll) lacking.delete(process)
      else if (since !== null) {
        // a transaction that claims nothing may have registered the key
        if (!lacking.has(process)) process.store.keysChanged()
        const noticed = Math.max(since, lacking.get(process) ?? time.now)
        lacking.set(process, noticed)
        if (time.now - noticed > handoverTime) oracle.fleet.keysLacked(process.number, placement.works(process))
      }
    }
  }

  #switchWrites(on: boolean): Effect.Effect<void, unknown> {
    const action = {
      at: this.time.now,
      command: on ? "plugins.resume-writes" : "plugins.stop-writes",
      target: "",
      detail: ""
    }
    return Effect.tap(
      this.store.deliveries.setSwitch({ _tag: "Writes" }, on, action),
      () => Effect.sync(() => this.oracle.ownership.writesSwitched(on))
    )
  }

  /** The store is a copy now: the oracle goes back to what it knew when the copy was made. */
  restoreOracle(snapshot: OracleSnapshot): void {
    this.oracle.restore(snapshot, this.sink.taken, this.sink.isForeign(this.store.store.identity))
  }

  /** From here on the copy is the store. */
  keepCopy(): void {
    if (this.failover === null) return
    this.restoreOracle(this.failover.snapshot)
    for (const hold of this.failover.approved) this.oracle.approve(hold)
    this.failover = null
  }

  #launch(): Process {
    this.keepCopy()
    const number = this.processes.length + 1
    const { duration, lacksList } = this.plan.setting
    const lacks = number % 3 === lacksList && this.time.now < start + duration
    const process = new Process(number, this.#environment, lacks)
    this.processes = [...this.processes, process]
    this.trace(`process ${process.number}  starts`)
    process.start()
    return process
  }

  /** A further process starts. */
  launch(): void {
    this.current = this.#launch()
  }

  /** A further process starts now, and none later. */
  replaceCurrent(): void {
    this.restartAt = null
    this.launch()
  }

  killAll(): void {
    for (const process of this.processes) process.kill()
  }

  /** Lets time pass until `to`, in ms; processes restart and failovers end when they are due. */
  advance(to: number): void {
    for (;;) {
      this.time.advance(Math.min(to, this.restartAt ?? Infinity, this.failover?.until ?? Infinity))
      if (this.failover !== null && this.failover.until <= this.time.now) {
        if (this.failover.restarts) {
          this.keepCopy()
          this.killAll()
        } else {
          this.store.failBack()
          this.failover = null
        }
      }
      if (this.restartAt !== null && this.restartAt <= this.time.now) this.replaceCurrent()
      if (this.time.now >= to) return
    }
  }

  get wholeLog() {
    return this.time.run(this.store.store.readLog({ after: 0, limit: 100_000 }), Infinity) ?? []
  }
}
