/**
 * How one process reaches its store: only while it lives, with the failures that are injected into its transactions, and with a note
 * to the observer about everything that is committed.
 *
 * Invariants
 * 1. A kill before a commit rolls the transaction back, as a database does when a client disconnects.
 *
 * Gotchas
 * - The oracle learns of a transaction's writes only after the commit.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type ForgettableRecord, nothingForgotten } from "../../../src/domain/Forgotten.ts"
import type { StreamKey } from "../../../src/domain/Model.ts"
import { deliveryScopeOf, shardOf } from "../../../src/domain/Shard.ts"
import { hash } from "../../../src/sandbox/world/SeededRandom.ts"
import type { Deliveries } from "../../../src/store/Deliveries.ts"
import { relayReader } from "../../../src/store/EventLog.ts"
import type { ForgottenRecord } from "../../../src/store/Operators.ts"
import type { IntegrationState, Owner, StreamState } from "../../../src/store/State.ts"
import { type Store, StoreError, type StreamTx, Unavailable } from "../../../src/store/Store.ts"
import { type CommittedTransaction, emptyTransaction, watchTransaction } from "./CommittedTransaction.ts"
import type { Environment, KeyedStore } from "./Environment.ts"
import type { ForgettingState, RunningProcess } from "./ProcessObserver.ts"

type InjectedFailure = "killBefore" | "killAfter" | "away" | "unsure"

export const storeUnavailable = new StoreError({ reason: new Unavailable({ operation: "simulated", cause: null }) })

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

/** The only integration to which plugins write. */
const writingScope = deliveryScopeOf(shardOf("greenhouse:acme"))

export class StoreAccess {
  readonly #process: RunningProcess
  readonly #environment: Environment
  /** Null if the store is not encrypted. */
  readonly keyed: KeyedStore | null
  readonly own: Store["Service"]
  readonly ownDeliveries: Deliveries["Service"] | null
  /** The owner of the deliveries that write, in this process. */
  delivers: Owner | null = null
  relays: Owner | null = null
  /** By scope: how often the process has taken it over. */
  readonly #tenures = new Map<string, number>()
  #commits = 0
  #failures: Array<{ readonly at: number; readonly failure: InjectedFailure }> = []
  #appended = Deferred.makeUnsafe<void>()
  #losesClaim = false
  #keysChanged = Deferred.makeUnsafe<void>()

  constructor(process: RunningProcess, environment: Environment) {
    this.#process = process
    this.#environment = environment
    this.keyed = environment.keyed?.open() ?? null
    this.own = this.keyed?.store ?? environment.store()
    this.ownDeliveries = environment.deliveries === null ? null : this.keyed?.deliveries ?? environment.deliveries()
  }

  /** The number of times that the process has taken over this scope. */
  tenuresOf(scope: string): number {
    return this.#tenures.get(scope) ?? 0
  }

  /** Injects a failure into the commit of the `count`th transaction from now on. */
  injectFailure(failure: InjectedFailure, count: number): void {
    this.#failures.push({ at: this.#commits + 1 + count, failure })
  }

  /** The response of the next transaction that claims deliveries is lost: few of all commits claim any. */
  loseNextClaim(): void {
    this.#losesClaim = true
  }

  /** Called when a key may have been registered or retired. */
  keysChanged(): void {
    const waiting = this.#keysChanged
    this.#keysChanged = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(waiting, Effect.void)
  }

  /** Called when any process appended to the log. */
  appended(): void {
    const waiting = this.#appended
    this.#appended = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(waiting, Effect.void)
  }

  /** The store as the capture and the relay reach it. */
  reached(): Store["Service"] {
    const store = this.own
    const { observer } = this.#environment
    return {
      ...store,
      integrations: Effect.succeed(this.#environment.setting.streams.map(active)),
      integration: (id) =>
        Effect.succeed(
          this.#environment.setting.streams.map(active).find((integration) => integration.id === id) ?? null
        ),
      takeOwnership: (scope) =>
        this.#process.whileAlive(
          Effect.tap(store.takeOwnership(scope), (owner) =>
            Effect.sync(() => {
              if (scope === relayReader) this.relays = owner
              observer.ownerClaimed(owner)
            }))
        ),
      takeOwnerships: (scopes) =>
        this.#process.whileAlive(
          Effect.tap(store.takeOwnerships(scopes), (owners) =>
            Effect.sync(() => {
              for (const owner of owners.values()) {
                this.#tenures.set(owner.scope, (this.#tenures.get(owner.scope) ?? 0) + 1)
                observer.ownerClaimed(owner)
              }
              this.delivers = owners.get(writingScope) ?? this.delivers
            }))
        ),
      ensureStreams: (streams) => this.#process.whileAlive(store.ensureStreams(streams)),
      streams: this.#process.whileAlive(store.streams),
      stream: (key) => this.#delayed(store.stream(key)),
      liveNotSeenSince: (...args) => this.#delayed(store.liveNotSeenSince(...args)),
      controlIds: (...args) => this.#delayed(store.controlIds(...args)),
      readLog: (query) => this.#process.whileAlive(store.readLog(query)),
      logRange: this.#process.whileAlive(store.logRange),
      readerPosition: (reader) => this.#process.whileAlive(store.readerPosition(reader)),
      saveReaderPosition: (...args) => this.#process.whileAlive(store.saveReaderPosition(...args)),
      // an operator decides through the store of the world
      awaitDecision: this.#environment.store().awaitDecision,
      missingKeys: this.#process.whileAlive(this.#missingKeys),
      encryptJournal: this.#process.whileAlive(store.encryptJournal),
      retireKeys: this.#process.whileAlive(
        Effect.tap(
          store.retireKeys,
          (retired) => Effect.sync(() => this.#environment.keyed?.retired(this.#process, retired ?? []))
        )
      ),
      forgotten: this.#process.whileAlive(store.forgotten),
      findRows: (...args) => this.#process.whileAlive(store.findRows(...args)),
      requestForgetting: (owner, record, action) =>
        this.#changing("erasing", record, store.requestForgetting(owner, record, action)),
      dropQuarantinedCopies: (...args) => this.#withFailures(store.dropQuarantinedCopies(...args)),
      noteForgetting: (...args) => this.#process.whileAlive(store.noteForgetting(...args)),
      endForgetting: (owner, record, at) => this.#changing("forgotten", record, store.endForgetting(owner, record, at)),
      allowForgotten: (owner, record, action) =>
        this.#changing("allowed", record, store.allowForgotten(owner, record, action)),
      // The store checks every second whether another process appended; in virtual time that would be a day of checks.
      awaitLog: (after) => this.#process.whileAlive(this.#awaitLog(after)),
      transact: (...args) => this.#delayed(this.#transact(...args)),
      replaceQuietState: (owner, before, after) => this.#delayed(this.#replaceQuietState(owner, before, after))
    }
  }

  /** The deliveries as the engine and the forgetting reach them. Each call that writes is one transaction. */
  reachedDeliveries(deliveries: Deliveries["Service"]): Deliveries["Service"] {
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
      check: (fence) => this.#process.whileAlive(deliveries.check(fence)),
      entries: (positions) => this.#process.whileAlive(deliveries.entries(positions)),
      result: (key) => this.#process.whileAlive(deliveries.result(key)),
      prune: (before) => this.#process.whileAlive(deliveries.prune(before)),
      countForgettable: (...args) => this.#process.whileAlive(deliveries.countForgettable(...args)),
      purgeForgotten: (...args) => withFailures(deliveries.purgeForgotten(...args)),
      purgeResults: (...args) => withFailures(deliveries.purgeResults(...args))
    }
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
          return this.own.missingKeys
        })
      )
    })
  }

  #awaitLog(after: number): Effect.Effect<void, StoreError> {
    return Effect.suspend(() => {
      const next = this.#appended
      return Effect.flatMap(
        this.own.logRange,
        ({ newest }) => newest > after ? Effect.void : Effect.andThen(Deferred.await(next), this.#awaitLog(after))
      )
    })
  }

  /** Reaches the store after the delay, if the process still lives then. */
  #delayed<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    const { storeDelay = () => 0, time } = this.#environment
    return Effect.suspend(() =>
      storeDelay() > 0
        ? Effect.andThen(time.sleep(storeDelay()), this.#process.whileAlive(effect))
        : this.#process.whileAlive(effect)
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

  /** Runs one transaction into which a failure may be injected. */
  #withFailures<A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> {
    return this.#process.whileAlive(Effect.suspend(() => {
      const number = ++this.#commits
      const failure = this.#failures.find(({ at }) => at === number)?.failure
      if (failure === "killBefore") this.#process.kill()
      if (failure === "killBefore" || failure === "away") return Effect.fail(storeUnavailable)
      return Effect.flatMap(effect, (result) => {
        if (failure === "killAfter") this.#process.kill()
        return failure === "unsure" ? Effect.fail(storeUnavailable) : Effect.succeed(result)
      })
    }))
  }

  #transact<A, E>(
    owner: Owner,
    key: StreamKey,
    body: (tx: StreamTx) => Effect.Effect<A, E>,
    pageOf?: Parameters<Store["Service"]["transact"]>[3]
  ): Effect.Effect<A, E | StoreError> {
    const store = this.own
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
      }, pageOf)
      return Effect.onExit(watched, (exit) =>
        Effect.suspend(() => {
          if (Exit.isSuccess(exit) && written !== undefined) observer.committed(this.#process, written)
          if (failure === "killBefore" || failure === "killAfter") this.#process.kill()
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
    const value = hash(`slow ${this.#process.number} ${this.#commits}`) % 100
    return value < 60 ? 0 : (value - 60) * 200
  }

  /**
   * The oracle compares with the state that is stored, not with the one that the process has in memory. Not one transaction: the store
   * learns only from its commit whether the state was replaced.
   */
  #replaceQuietState(owner: Owner, before: StreamState, after: StreamState): Effect.Effect<boolean, StoreError> {
    const store = this.own
    const { observer } = this.#environment
    let written: CommittedTransaction | null = null
    const watched = Effect.gen(function*() {
      const stored = yield* store.stream(before)
      const owned = observer.isLatestOwner(owner)
      const isReplaced = yield* store.replaceQuietState(owner, before, after)
      if (isReplaced && stored !== null) written = { ...emptyTransaction(owner, before, stored), after, owned }
      return isReplaced
    })
    return this.#withFailures(
      Effect.tap(watched, () => Effect.sync(() => written !== null && observer.committed(this.#process, written)))
    )
  }
}
