/**
 * One process of the service: capture, relay, its access to store and sink, its clock, and every way to die.
 *
 * Invariants
 * 1. A killed process has no further effect: its requests to store, sink or API never return.
 * 2. A kill before a commit rolls the transaction back, as a database does when a client disconnects.
 *
 * Gotchas
 * - The oracle learns of a transaction's writes only after the commit.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as Commands from "../../../src/capture/command/Commands.ts"
import * as PlacedShards from "../../../src/capture/command/PlacedShards.ts"
import * as Forgetting from "../../../src/capture/forget/Forgetting.ts"
import * as Capture from "../../../src/capture/schedule/Capture.ts"
import * as Integrations from "../../../src/capture/schedule/Integrations.ts"
import { DeliveryEngine as Engine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import { type ForgettableRecord, type Forgotten, nothingForgotten } from "../../../src/domain/Forgotten.ts"
import type { Model, StreamKey } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { captureScopeOf, deliveryScopeOf, shardOf } from "../../../src/domain/Shard.ts"
import { KeyWatch } from "../../../src/fleet/KeyWatch.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import { Sink } from "../../../src/publish/Sink.ts"
import { hash } from "../../../src/sandbox/world/SeededRandom.ts"
import { Source } from "../../../src/source/Source.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import type { AttemptOutcome, ClaimResult } from "../../../src/store/DeliveryClaims.ts"
import { relayReader } from "../../../src/store/EventLog.ts"
import type { ForgottenRecord } from "../../../src/store/Operators.ts"
import type { Processes } from "../../../src/store/Processes.ts"
import type { Hold, Pending } from "../../../src/store/Records.ts"
import type { RequestLeases } from "../../../src/store/RequestLeases.ts"
import type { EndedRun } from "../../../src/store/Run.ts"
import type { IntegrationState, Owner, StreamState } from "../../../src/store/State.ts"
import { Store, StoreError, type StreamTx, Unavailable } from "../../../src/store/Store.ts"
import type { LoggedEvent } from "../oracle/ObservedStream.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import type { FaultyApi, ServedPage } from "../world/FaultyApi.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import * as SharedRequests from "./SharedRequests.ts"
import type { SimulatedPlacement } from "./SimulatedPlacement.ts"
import type { SimulatedSink } from "./SimulatedSink.ts"

/** The changes of one transaction. */
export interface CommittedTransaction {
  readonly key: StreamKey
  readonly owner: Owner
  /** Whether the owner was the latest one at the end of the transaction, before its commit. */
  owned: boolean
  readonly before: StreamState
  after: StreamState
  readonly events: Array<NewEvent>
  /** The same events and those of derived records, in log order. */
  readonly log: Array<LoggedEvent>
  /** Null if no longer pending. */
  readonly pending: Map<string, Pending | null>
  quarantined: number
  /** Opened or changed holds. */
  readonly holds: Array<Hold>
  /** Entries of the history of runs. */
  readonly runs: Array<EndedRun>
  /** Records that are no longer stale. */
  readonly refreshed: Array<string>
  /** The forgotten records of the integration, by model, as the transaction sees them at its end. */
  forgotten: Forgotten
}

export type ForgettingState = "erasing" | "forgotten" | "allowed"

/** Observes all processes. */
export interface ProcessObserver {
  readonly pageServed: (process: Process, delivery: ServedPage) => void
  readonly ownerClaimed: (owner: Owner) => void
  /** Whether no later owner of the same scope is known. */
  readonly isLatestOwner: (owner: Owner) => boolean
  /** A write may be sent for this owner. */
  readonly writeAllowed: (owner: Owner) => void
  /** A write is sent. */
  readonly writeSent: (owner: Owner) => void
  /** The relay of this owner opened the sink; it published a batch. */
  readonly sinkOpened: (store: Store["Service"], owner: Owner) => void
  readonly published: (store: Store["Service"], owner: Owner) => void
  /** Committed: handlers are registered; attempts are settled and deliveries claimed. */
  readonly handlersRegistered: () => void
  readonly settledAndClaimed: (
    owners: ReadonlyArray<Owner>,
    outcomes: ReadonlyArray<AttemptOutcome>,
    result: ClaimResult
  ) => void
  readonly committed: (process: Process, written: CommittedTransaction) => void
  /** Committed: an operator wants a record forgotten; it is removed from all places; or it may be stored again. */
  readonly forgettingChanged: (record: ForgettableRecord, state: ForgettingState) => void
}

/** For processes that a benchmark runs. */
export const unobserved: ProcessObserver = {
  pageServed: () => {},
  ownerClaimed: () => {},
  isLatestOwner: () => true,
  writeAllowed: () => {},
  writeSent: () => {},
  sinkOpened: () => {},
  published: () => {},
  handlersRegistered: () => {},
  settledAndClaimed: () => {},
  committed: () => {},
  forgettingChanged: () => {}
}

type InjectedFailure = "killBefore" | "killAfter" | "away" | "unsure"

export interface Environment {
  readonly time: VirtualTime
  readonly api: FaultyApi
  /** Returns the current store; a process keeps the one it started with. */
  readonly store: () => Store["Service"]
  /** Null if no plugin runs and no record is forgotten. */
  readonly deliveries: (() => Deliveries["Service"]) | null
  readonly plugins: ReadonlyArray<Plugin<{}>>
  /** Returns the leases of request slots in the current store, for a process with this name; null if it has all slots. */
  readonly leases: ((process: string) => RequestLeases["Service"]) | null
  /** Null if the store is not encrypted. */
  readonly keyed: {
    /** Opens the store with the keys that are configured now. */
    readonly open: () => KeyedStore
    /** Committed: a process has retired these keys. */
    readonly retired: (process: Process, keys: ReadonlyArray<string>) => void
  } | null
  /** Whether an operator forgets records. */
  readonly forgets: boolean
  readonly simulatedSink: SimulatedSink
  /** null: one process does all the work. */
  readonly simulatedPlacement: SimulatedPlacement | null
  readonly setting: WorldSettings
  readonly observer: ProcessObserver
  /** How long each statement of the capture takes to reach the store, in ms; absent for no time. */
  readonly storeDelay?: () => number
  /** The service's clock minus the API's clock, in ms. */
  readonly skew: () => number
  readonly onKilled: (process: Process) => void
}

/** The store as one process opens it with its keys. */
export interface KeyedStore {
  readonly store: Store["Service"]
  readonly deliveries: Deliveries["Service"]
  readonly processes: Processes["Service"]
  /** The ids of its keys, the current one first. */
  readonly keys: ReadonlyArray<string>
}

const storeUnavailable = new StoreError({ reason: new Unavailable({ operation: "simulated", cause: null }) })

const unexpectedClient = HttpClient.make(() => Effect.die(new Error("plugins must send requests to the API only")))
const active = ({ integration }: StreamKey): IntegrationState => ({
  id: integration,
  account: "default",
  models: "auto",
  interval: 0,
  sweepInterval: 0,
  backfill: "publish",
  declared: true,
  generation: 1,
  state: "active"
})

const nothingToForget = {
  plan: () => Effect.die(new Error("nothing is forgotten in this world")),
  forget: () => Effect.die(new Error("nothing is forgotten in this world")),
  allow: () => Effect.die(new Error("nothing is forgotten in this world")),
  resume: () => Effect.void
}

const refused = () => Effect.die(new Error("commands do not arrive over HTTP in this world"))
const noCommands = Commands.Commands.of({
  execute: refused,
  audit: refused,
  add: refused,
  remove: refused,
  plan: refused,
  forget: refused,
  allow: refused,
  serve: () => Effect.void
})

/** The only integration to which plugins write. */
const writingScope = deliveryScopeOf(shardOf("greenhouse:acme"))

export class Process {
  readonly number: number
  /** A dead process waits for this until it is disposed. */
  readonly #disposed = Deferred.makeUnsafe<void>()
  readonly #untilDisposed = Effect.andThen(Deferred.await(this.#disposed), Effect.interrupt)
  readonly #environment: Environment
  /** Null if the store is not encrypted. */
  readonly keyed: KeyedStore | null
  /** Whether the list of processes shows it as alive. */
  isListed = false
  readonly #ownStore: Store["Service"]
  readonly #ownDeliveries: Deliveries["Service"] | null
  readonly #scope = Effect.runSync(Scope.make())
  #dead = false
  /** The owner of the deliveries that write, in this process. */
  #delivers: Owner | null = null
  #relays: Owner | null = null
  /** By scope: how often the process has taken it over. */
  readonly #tenures = new Map<string, number>()
  #running: Fiber.Fiber<unknown> | null = null
  #commits = 0
  #failures: Array<{ readonly at: number; readonly failure: InjectedFailure }> = []
  #appended = Deferred.makeUnsafe<void>()
  #losesClaim = false
  #keysChanged = Deferred.makeUnsafe<void>()
  capture: Capture.Capture["Service"] | null = null
  forgetting: Forgetting.Forgetting["Service"] | null = null

  constructor(number: number, environment: Environment) {
    this.number = number
    this.#environment = environment
    this.keyed = environment.keyed?.open() ?? null
    this.#ownStore = this.keyed?.store ?? environment.store()
    this.#ownDeliveries = environment.deliveries === null ? null : this.keyed?.deliveries ?? environment.deliveries()
  }

  /** Identifies the process since it took over the stream's shard: what it read before belongs to an earlier owner. */
  readerOf({ integration }: Pick<StreamKey, "integration">): string {
    return `${this.number}.${this.#tenures.get(captureScopeOf(integration)) ?? 0}`
  }

  get dead(): boolean {
    return this.#dead
  }

  /** Builds the service and starts it. */
  start(): void {
    const { setting, simulatedPlacement, time } = this.#environment
    const streams = setting.streams.map((stream) => ({
      ...stream,
      ...(setting.candidates && stream.model === "ats.application"
        ? { derivedProcessing: Processing.defaultProcessing("ats.candidate") }
        : {}),
      account: "default",
      interval: Duration.millis(setting.interval),
      sweepInterval: Duration.millis(setting.sweepInterval)
    }))
    const capture = Capture.layer({
      takesAll: simulatedPlacement === null,
      minOverlap: Duration.millis(setting.minOverlap),
      confirmInterval: Duration.millis(setting.confirmInterval),
      // redaction includes encryption with the current key
      ...(this.keyed === null ? {} : { processingOf: ({ model }) => Processing.defaultProcessing(model as Model) })
    })
    const service = Layer.provideMerge(this.#forgetting(), capture).pipe(
      Layer.merge(Relay.placedLayer({ progressEvery: "10 minutes", takesAgain: simulatedPlacement !== null })),
      Layer.merge(this.#engine()),
      Layer.provideMerge(
        simulatedPlacement === null ? Placement.local : Layer.succeed(Placement, simulatedPlacement.of(this))
      ),
      Layer.provide(Layer.succeedContext(
        Context.make(Store, this.#store()).pipe(
          Context.add(Sink, this.#sink())
        )
      )),
      Layer.provide(this.#sharingSource())
    )
    const run = Layer.buildWithScope(service, this.#scope).pipe(
      Effect.flatMap((context) => {
        const capture = Context.get(context, Capture.Capture)
        this.capture = capture
        const assign = (isRead: (integration: string) => boolean) =>
          capture.assign(
            Map.groupBy(streams.filter(({ integration }) => isRead(integration)), ({ integration }) => integration)
          )
        if (simulatedPlacement === null) return Effect.andThen(assign(() => true), capture.run)
        const refuse = Effect.die(new Error("integrations do not change"))
        const integrations = Integrations.Integrations.of({
          add: () => refuse,
          remove: () => refuse,
          resume: (scopes) => assign((integration) => scopes.has(captureScopeOf(integration)))
        })
        const placed = PlacedShards.run.pipe(
          Effect.provideContext(
            Context.make(Capture.Capture, capture).pipe(
              Context.add(Integrations.Integrations, integrations),
              Context.add(Commands.Commands, noCommands),
              Context.add(Placement, Context.get(context, Placement)),
              Context.add(Forgetting.Forgetting, this.forgetting ?? nothingToForget)
            )
          )
        )
        return Effect.raceAllFirst([capture.run, placed, this.#watchKeys(simulatedPlacement)])
      }),
      // a fenced process ends; its relay handles the fencing itself
      Effect.ignore
    )
    this.#running = Effect.runFork(this.within(run), { scheduler: time })
  }

  /** While a key is missing the process takes no part in the placement. It reports every minute that it lives. */
  #watchKeys(placement: SimulatedPlacement): Effect.Effect<never> {
    const { keyed } = this
    if (keyed === null) return Effect.never
    const report = { version: "1", host: "h", pid: this.number, address: null, clockOffset: null, problems: [] }
    const beat = Effect.suspend(() =>
      placement.awakeSince(this) === null
        ? Effect.void
        : Effect.andThen(keyed.processes.report(report), Effect.sync(() => void (this.isListed = true)))
    )
    const beats = Effect.forever(
      Effect.andThen(Effect.ignore(this.whileAlive(beat)), this.#environment.time.sleep(60_000))
    )
    return Effect.gen({ self: this }, function*() {
      const { whileComplete } = yield* KeyWatch
      return yield* Effect.raceFirst(beats, whileComplete(placement.takePart(this)))
    }).pipe(
      Effect.provide(Layer.provide(KeyWatch.layer, Layer.succeed(Store, this.#store())))
    )
  }

  /** Its reports stop: the list shows it as silent. */
  becomeSilent(): void {
    if (this.keyed === null) return
    this.isListed = false
    this.#environment.time.run(this.within(this.keyed.processes.leave), Infinity)
  }

  /** Called when a key may have been registered or retired. */
  keysChanged(): void {
    const waiting = this.#keysChanged
    this.#keysChanged = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(waiting, Effect.void)
  }

  /** Waits until the keys may have changed: in virtual time, a query every second would be too many. */
  get #missingKeys(): Store["Service"]["missingKeys"] {
    let next: Deferred.Deferred<void> | null = null
    return Effect.suspend(() => {
      const awaited = next === null ? Effect.void : Deferred.await(next)
      return Effect.andThen(
        awaited,
        Effect.suspend(() => {
          next = this.#keysChanged
          return this.#ownStore.missingKeys
        })
      )
    })
  }

  /** Runs an effect with this process's clock and random numbers. */
  within<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    const { setting, skew, time } = this.#environment
    return effect.pipe(
      Effect.provideService(Clock.Clock, time.clock(skew)),
      Effect.provideService(References.MinimumLogLevel, "None"),
      Random.withSeed(`${setting.duration} ${this.number}`)
    )
  }

  kill(): void {
    if (this.#dead) return
    this.#dead = true
    this.#environment.onKilled(this)
  }

  /** Stops cleanly, in at most ten seconds. */
  stop(): void {
    if (this.#dead) return
    const { time } = this.#environment
    const end = Effect.andThen(
      this.#running === null ? Effect.void : Fiber.interrupt(this.#running),
      Scope.close(this.#scope, Exit.void)
    )
    time.run(this.within(end), time.now + 10_000)
    this.#dead = true
  }

  /** Releases the resources of a dead process; it does nothing more. */
  dispose(): void {
    Deferred.doneUnsafe(this.#disposed, Effect.void)
    const { time } = this.#environment
    time.run(this.within(Scope.close(this.#scope, Exit.void)), time.now)
  }

  /** Injects a failure into the commit of the `count`th transaction from now on. */
  injectFailure(failure: InjectedFailure, count: number): void {
    this.#failures.push({ at: this.#commits + 1 + count, failure })
  }

  /** The response of the next transaction that claims deliveries is lost: few of all commits claim any. */
  loseNextClaim(): void {
    this.#losesClaim = true
  }

  /** Runs an effect while the process lives; afterwards it never returns. */
  whileAlive<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() =>
      this.#dead
        ? this.#untilDisposed
        : Effect.onExit(effect, () => Effect.suspend(() => this.#dead ? this.#untilDisposed : Effect.void))
    )
  }

  #source(): Source["Service"] {
    const { api, skew, time, observer } = this.#environment
    const delivered = (delivery: ServedPage) => {
      // requests of plugins belong to no run
      if (!this.#dead && delivery.request.priority !== "write") observer.pageServed(this, delivery)
    }
    const source = api.source(() => time.now + skew(), delivered, {
      kill: () => this.kill(),
      onSent: () => this.#delivers !== null && observer.writeSent(this.#delivers),
      alive: this.whileAlive(Effect.void)
    })
    return {
      ...source,
      page: (request) => this.whileAlive(source.page(request)),
      write: (request, hooks) => this.whileAlive(source.write(request, hooks))
    }
  }

  /** In some fleets each request waits for one of the slots that the processes share. */
  #sharingSource(): Layer.Layer<Source> {
    const { leases, setting, time } = this.#environment
    const slots = setting.requestSlots
    if (slots === null || leases === null) return Layer.succeed(Source, this.#source())
    const table = leases(`process ${this.number}`)
    const untilDisposed = Effect.andThen(Deferred.await(this.#disposed), Effect.fail(storeUnavailable))
    const reached: typeof table = {
      // a process that stops returns its slots; a dead one cannot
      claim: (claims) => this.#dead ? untilDisposed : this.whileAlive(table.claim(claims)),
      leasesOf: (account) => this.whileAlive(table.leasesOf(account))
    }
    return SharedRequests.layer(this.#source(), reached, { setting, slots, time })
  }

  #sink(): Sink["Service"] {
    const { observer, simulatedSink } = this.#environment
    const byRelay = (note: (store: Store["Service"], owner: Owner) => void) => () => {
      if (this.#relays !== null) note(this.#ownStore, this.#relays)
    }
    return simulatedSink.sink(this, { opened: byRelay(observer.sinkOpened), published: byRelay(observer.published) })
  }

  #store(): Store["Service"] {
    const store = this.#ownStore
    const { observer } = this.#environment
    return {
      ...store,
      integrations: Effect.succeed(this.#environment.setting.streams.map(active)),
      integration: (id) =>
        Effect.succeed(
          this.#environment.setting.streams.map(active).find((integration) => integration.id === id) ?? null
        ),
      takeOwnership: (scope) =>
        this.whileAlive(
          Effect.tap(store.takeOwnership(scope), (owner) =>
            Effect.sync(() => {
              if (scope === relayReader) this.#relays = owner
              observer.ownerClaimed(owner)
            }))
        ),
      takeOwnerships: (scopes) =>
        this.whileAlive(
          Effect.tap(store.takeOwnerships(scopes), (owners) =>
            Effect.sync(() => {
              for (const owner of owners.values()) {
                this.#tenures.set(owner.scope, (this.#tenures.get(owner.scope) ?? 0) + 1)
                observer.ownerClaimed(owner)
              }
              this.#delivers = owners.get(writingScope) ?? this.#delivers
            }))
        ),
      ensureStreams: (streams) => this.whileAlive(store.ensureStreams(streams)),
      streams: this.whileAlive(store.streams),
      stream: (key) => this.#delayed(store.stream(key)),
      liveNotSeenSince: (...args) => this.#delayed(store.liveNotSeenSince(...args)),
      controlIds: (...args) => this.#delayed(store.controlIds(...args)),
      readLog: (query) => this.whileAlive(store.readLog(query)),
      logRange: this.whileAlive(store.logRange),
      readerPosition: (reader) => this.whileAlive(store.readerPosition(reader)),
      saveReaderPosition: (...args) => this.whileAlive(store.saveReaderPosition(...args)),
      // an operator decides through the store of the world
      awaitDecision: this.#environment.store().awaitDecision,
      missingKeys: this.whileAlive(this.#missingKeys),
      encryptJournal: this.whileAlive(store.encryptJournal),
      retireKeys: this.whileAlive(
        Effect.tap(
          store.retireKeys,
          (retired) => Effect.sync(() => this.#environment.keyed?.retired(this, retired ?? []))
        )
      ),
      forgotten: this.whileAlive(store.forgotten),
      findRows: (...args) => this.whileAlive(store.findRows(...args)),
      requestForgetting: (owner, record, action) =>
        this.#changing("erasing", record, store.requestForgetting(owner, record, action)),
      dropQuarantinedCopies: (...args) => this.#withFailures(store.dropQuarantinedCopies(...args)),
      noteForgetting: (...args) => this.whileAlive(store.noteForgetting(...args)),
      endForgetting: (owner, record, at) => this.#changing("forgotten", record, store.endForgetting(owner, record, at)),
      allowForgotten: (owner, record, action) =>
        this.#changing("allowed", record, store.allowForgotten(owner, record, action)),
      // The store checks every second whether another process appended; in virtual time that would be a day of checks.
      awaitLog: (after) => this.whileAlive(this.#awaitLog(after)),
      transact: (owner, key, body) => this.#delayed(this.#transact(owner, key, body)),
      replaceQuietState: (owner, before, after) => this.#delayed(this.#replaceQuietState(owner, before, after))
    }
  }

  /** Reaches the store after the delay, if the process still lives then. */
  #delayed<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    const { storeDelay = () => 0, time } = this.#environment
    return Effect.suspend(() =>
      storeDelay() > 0 ? Effect.andThen(time.sleep(storeDelay()), this.whileAlive(effect)) : this.whileAlive(effect)
    )
  }

  /** Changes the state of a forgotten record. */
  #changing(
    state: ForgettingState,
    record: Pick<ForgottenRecord, "integration" | "model" | "id">,
    change: Effect.Effect<void, StoreError>
  ): Effect.Effect<void, StoreError> {
    const { observer } = this.#environment
    const changed = record as ForgettableRecord
    return this.#withFailures(Effect.tap(change, () => Effect.sync(() => observer.forgettingChanged(changed, state))))
  }

  #forgetting(): Layer.Layer<never, StoreError, Capture.Capture | Store> {
    const deliveries = this.#ownDeliveries
    if (deliveries === null || !this.#environment.forgets) return Layer.empty
    return Layer.effectDiscard(Effect.map(Forgetting.Forgetting, (service) => {
      this.forgetting = service
    })).pipe(
      Layer.provide(Forgetting.layer({ processing: Processing.defaultProcessing })),
      Layer.provide(Layer.succeed(Deliveries, this.#deliveries(deliveries)))
    )
  }

  #engine(): Layer.Layer<never, never, Store | Source | Placement> {
    const deliveries = this.#ownDeliveries
    const { plugins } = this.#environment
    if (deliveries === null || plugins.length === 0) return Layer.empty
    return Layer.effectDiscard(Engine).pipe(
      Layer.provide(Engine.layer({ plugins, retention: Duration.days(7), pollInterval: Duration.seconds(20) })),
      Layer.provide(Layer.succeed(Deliveries, this.#deliveries(deliveries))),
      Layer.provide(Layer.succeed(HttpClient.HttpClient, unexpectedClient))
    )
  }

  /** Runs one transaction into which a failure may be injected. */
  #withFailures<A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> {
    return this.whileAlive(Effect.suspend(() => {
      const number = ++this.#commits
      const failure = this.#failures.find(({ at }) => at === number)?.failure
      if (failure === "killBefore") this.kill()
      if (failure === "killBefore" || failure === "away") return Effect.fail(storeUnavailable)
      return Effect.flatMap(effect, (result) => {
        if (failure === "killAfter") this.kill()
        return failure === "unsure" ? Effect.fail(storeUnavailable) : Effect.succeed(result)
      })
    }))
  }

  /** Each call that writes is one transaction. */
  #deliveries(deliveries: Deliveries["Service"]): Deliveries["Service"] {
    const withFailures = <A>(effect: Effect.Effect<A, StoreError>) => this.#withFailures(effect)
    const { observer } = this.#environment
    return {
      ...deliveries,
      registerHandlers: (...args) =>
        withFailures(Effect.tap(deliveries.registerHandlers(...args), () => Effect.sync(observer.handlersRegistered))),
      recoverShards: (...args) => withFailures(deliveries.recoverShards(...args)),
      dispatch: (...args) => withFailures(deliveries.dispatch(...args)),
      settleAndClaim: (owners, outcomes, requests) =>
        withFailures(
          Effect.tap(deliveries.settleAndClaim(owners, outcomes, requests), (result) => {
            observer.settledAndClaimed(owners, outcomes, result)
            if (!this.#losesClaim || result.claimed.length === 0) return Effect.void
            this.#losesClaim = false
            return Effect.fail(storeUnavailable)
          })
        ),
      begin: (fence, intent) =>
        withFailures(Effect.tap(deliveries.begin(fence, intent), ({ _tag }) =>
          Effect.sync(() => {
            if (_tag === "Begun") observer.writeAllowed(fence.owner)
          }))),
      finish: (...args) => withFailures(deliveries.finish(...args)),
      withdraw: (...args) => withFailures(deliveries.withdraw(...args)),
      check: (fence) => this.whileAlive(deliveries.check(fence)),
      entries: (positions) => this.whileAlive(deliveries.entries(positions)),
      result: (key) => this.whileAlive(deliveries.result(key)),
      prune: (before) => this.whileAlive(deliveries.prune(before)),
      countForgettable: (...args) => this.whileAlive(deliveries.countForgettable(...args)),
      purgeForgotten: (...args) => withFailures(deliveries.purgeForgotten(...args)),
      purgeResults: (...args) => withFailures(deliveries.purgeResults(...args))
    }
  }

  #awaitLog(after: number): Effect.Effect<void, StoreError> {
    return Effect.suspend(() => {
      const next = this.#appended
      return Effect.flatMap(
        this.#ownStore.logRange,
        ({ newest }) => newest > after ? Effect.void : Effect.andThen(Deferred.await(next), this.#awaitLog(after))
      )
    })
  }

  /** Called when any process appended to the log. */
  appended(): void {
    const waiting = this.#appended
    this.#appended = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(waiting, Effect.void)
  }

  #transact<A, E>(
    owner: Owner,
    key: StreamKey,
    body: (tx: StreamTx) => Effect.Effect<A, E>
  ): Effect.Effect<A, E | StoreError> {
    const store = this.#ownStore
    const { forgets, observer, time } = this.#environment
    const transact = Effect.suspend(() => {
      const number = ++this.#commits
      const failure = this.#failures.find(({ at }) => at === number)?.failure
      let written: CommittedTransaction | undefined
      const watched = store.transact(owner, key, (tx) => {
        const watch = watchTransaction(owner, key, tx)
        written = watch.written
        // Noted under the lock: after the commit, another process may claim the streams before this fiber runs again.
        const forgotten = forgets ? tx.forgotten : Effect.succeed(nothingForgotten)
        const noted = Effect.tap(body(watch.tx), () =>
          Effect.map(forgotten, (records) => {
            watch.written.forgotten = records
            watch.written.owned = observer.isLatestOwner(owner)
          }))
        return failure === "killBefore" || failure === "away"
          ? Effect.andThen(noted, Effect.fail(storeUnavailable))
          : noted
      })
      return Effect.onExit(watched, (exit) =>
        Effect.suspend(() => {
          if (Exit.isSuccess(exit) && written !== undefined) observer.committed(this, written)
          if (failure === "killBefore" || failure === "killAfter") this.kill()
          return Effect.void
        })).pipe(
          Effect.flatMap((result) => failure === "unsure" ? Effect.fail(storeUnavailable) : Effect.succeed(result))
        )
    })
    // encrypting again takes time, so that keys change and processes end meanwhile
    return this.keyed === null ? transact : Effect.andThen(time.sleep(this.#slowness()), transact)
  }

  /** How long a store takes until a transaction begins, in ms: mostly nothing, and sometimes seconds. */
  #slowness(): number {
    const value = hash(`slow ${this.number} ${this.#commits}`) % 100
    return value < 60 ? 0 : (value - 60) * 200
  }

  /** The oracle compares with the state that is stored, not with the one that the process has in memory. */
  #replaceQuietState(owner: Owner, before: StreamState, after: StreamState): Effect.Effect<boolean, StoreError> {
    const store = this.#ownStore
    const { observer } = this.#environment
    let written: CommittedTransaction | null = null
    const watched = store.batchReads(Effect.gen(function*() {
      const stored = yield* store.stream(before)
      const owned = observer.isLatestOwner(owner)
      const isReplaced = yield* store.replaceQuietState(owner, before, after)
      if (isReplaced && stored !== null) written = { ...emptyTransaction(owner, before, stored), after, owned }
      return isReplaced
    }))
    return this.#withFailures(
      Effect.tap(watched, () => Effect.sync(() => written !== null && observer.committed(this, written)))
    )
  }
}

const emptyTransaction = (owner: Owner, key: StreamKey, before: StreamState): CommittedTransaction => ({
  key,
  owner,
  owned: true,
  before,
  after: before,
  events: [],
  log: [],
  pending: new Map(),
  quarantined: 0,
  holds: [],
  runs: [],
  refreshed: [],
  forgotten: nothingForgotten
})

const watchTransaction = (owner: Owner, key: StreamKey, tx: StreamTx) => {
  const written = emptyTransaction(owner, key, tx.state)
  const writing = (model: string, { write }: StreamTx): StreamTx["write"] => (records) => {
    for (const { events } of records) for (const event of events) written.log.push({ model, event })
    return write(records)
  }
  const watched: StreamTx = {
    ...tx,
    saveState: (state) => {
      written.after = state
      return tx.saveState(state)
    },
    putPending: (rows) => {
      for (const row of rows) written.pending.set(row.id, row)
      return tx.putPending(rows)
    },
    dropPending: (ids) => {
      for (const id of ids) written.pending.set(id, null)
      return tx.dropPending(ids)
    },
    openHold: (hold) => Effect.tap(tx.openHold(hold), (opened) => Effect.sync(() => written.holds.push(opened))),
    saveHold: (hold) => {
      written.holds.push(hold)
      return tx.saveHold(hold)
    },
    recordRun: (run) => {
      written.runs.push(run)
      return tx.recordRun(run)
    },
    derived: (model) => Effect.map(tx.derived(model), (derived) => ({ ...derived, write: writing(model, derived) })),
    markRefreshed: (ids) => {
      written.refreshed.push(...ids)
      return tx.markRefreshed(ids)
    },
    quarantine: (rows) => {
      written.quarantined += rows.length
      return tx.quarantine(rows)
    },
    write: (records) => {
      for (const record of records) written.events.push(...record.events)
      return writing(key.model, tx)(records)
    }
  }
  return { tx: watched, written }
}
