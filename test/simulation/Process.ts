/**
 * One process of the service: capture, relay, its view of the store and the sink, its clock, and every way to die.
 * Hides how a kill is made of what runs on in this process.
 *
 * Invariants
 * 1. Of a killed process nothing has effect any more: whatever it asks of store, sink or API never returns.
 * 2. A kill before a commit rolls the transaction back, as a database does with a client that is gone.
 *
 * Gotchas
 * - What a transaction writes is told to the oracle only once it is committed.
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
import * as Capture from "../../src/capture/Capture.ts"
import { Delivery as Engine } from "../../src/delivery/Delivery.ts"
import type { NewEvent } from "../../src/domain/ChangeEvent.ts"
import type { StreamKey } from "../../src/domain/Model.ts"
import * as Processing from "../../src/domain/Processing.ts"
import { Relay } from "../../src/publish/Relay.ts"
import { Sink } from "../../src/publish/Sink.ts"
import { Source } from "../../src/source/Source.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import type { Hold, IntegrationState, Pending, StreamState } from "../../src/store/State.ts"
import { type Owner, Store, StoreError, type StreamTx, Unavailable } from "../../src/store/Store.ts"
import type { Delivery, FaultyApi } from "./FaultyApi.ts"
import type { Logged } from "./Known.ts"
import type { Outlet } from "./Outlet.ts"
import type { Setting } from "./Plan.ts"
import { plugins } from "./Plugins.ts"
import type { VirtualTime } from "./VirtualTime.ts"

/** What one transaction left behind. */
export interface Written {
  readonly key: StreamKey
  readonly owner: Owner
  readonly before: StreamState
  after: StreamState
  readonly events: Array<NewEvent>
  /** The same, and those of what is derived, in the order of the log. */
  readonly log: Array<Logged>
  /** null: dropped. */
  readonly pending: Map<string, Pending | null>
  quarantined: number
  /** Opened, or changed. */
  readonly holds: Array<Hold>
  /** Who is no longer owed a re-read. */
  readonly settled: Array<string>
}

/** Who watches all processes. */
export interface Witness {
  readonly delivered: (process: Process, delivery: Delivery) => void
  readonly claimed: (owner: Owner) => void
  /** A write may leave in its name. */
  readonly begun: (owner: Owner) => void
  /** It leaves. */
  readonly left: (owner: Owner) => void
  readonly committed: (process: Process, written: Written) => void
}

type Trap = "killBefore" | "killAfter" | "away" | "unsure"

export interface Surroundings {
  readonly time: VirtualTime
  readonly api: FaultyApi
  /** The one there is now; a process keeps the one it began with. */
  readonly store: () => Store["Service"]
  /** null: no plugin runs. */
  readonly deliveries: (() => Deliveries["Service"]) | null
  readonly outlet: Outlet
  readonly setting: Setting
  readonly witness: Witness
  /** Our clock − theirs, ms. */
  readonly skew: () => number
  readonly onKilled: (process: Process) => void
}

const away = new StoreError({ reason: new Unavailable({ operation: "simulated", cause: null }) })

const nobody = HttpClient.make(() => Effect.die(new Error("no plugin asks anybody but the API")))
const active = ({ integration }: StreamKey): IntegrationState => ({
  id: integration,
  account: "default",
  models: "auto",
  interval: 0,
  sweepInterval: 0,
  backfill: "publish",
  declared: true,
  lineage: 1,
  state: "active"
})

export class Process {
  readonly number: number
  /** What a dead process waits for, until it is buried. */
  readonly #burial = Deferred.makeUnsafe<void>()
  readonly #nothing = Effect.andThen(Deferred.await(this.#burial), Effect.interrupt)
  readonly #around: Surroundings
  readonly #held: Store["Service"]
  readonly #scope = Effect.runSync(Scope.make())
  #dead = false
  /** In whose name it delivers. */
  #delivers: Owner | null = null
  #running: Fiber.Fiber<unknown> | null = null
  #commits = 0
  #traps: Array<{ readonly at: number; readonly trap: Trap }> = []
  #appended = Deferred.makeUnsafe<void>()
  capture: Capture.Capture["Service"] | null = null

  constructor(number: number, around: Surroundings) {
    this.number = number
    this.#around = around
    this.#held = around.store()
  }

  get dead(): boolean {
    return this.#dead
  }

  /** Builds the service and lets it run. */
  start(): void {
    const { setting, time } = this.#around
    const streams = setting.streams.map((stream) => ({
      ...stream,
      ...(setting.candidates && stream.model === "ats.application"
        ? { derives: Processing.plain("ats.candidate") }
        : {}),
      account: "default",
      interval: Duration.millis(setting.interval),
      sweepInterval: Duration.millis(setting.sweepInterval)
    }))
    const service = Capture.layer({
      overlapMin: Duration.millis(setting.overlapMin),
      confirmInterval: Duration.millis(setting.confirmInterval)
    }).pipe(
      Layer.merge(Relay.layerWith("10 minutes")),
      Layer.merge(this.#engine()),
      Layer.provide(Layer.succeedContext(
        Context.make(Store, this.#store()).pipe(
          Context.add(Source, this.#source()),
          Context.add(Sink, this.#around.outlet.sink(this))
        )
      ))
    )
    const run = Layer.buildWithScope(service, this.#scope).pipe(
      Effect.flatMap((context) => {
        const capture = Context.get(context, Capture.Capture)
        this.capture = capture
        const assigned = Effect.forEach(
          Map.groupBy(streams, ({ integration }) => integration),
          ([integration, own]) => capture.assign(integration, own),
          { discard: true }
        )
        return Effect.andThen(assigned, capture.run)
      }),
      // a fenced process ends; its relay has been told in its own way
      Effect.ignore
    )
    this.#running = Effect.runFork(this.within(run), { scheduler: time })
  }

  /** Runs something with this process' clock and chance. */
  within<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    const { setting, skew, time } = this.#around
    return effect.pipe(
      Effect.provideService(Clock.Clock, time.clock(skew)),
      Effect.provideService(References.MinimumLogLevel, "None"),
      Random.withSeed(`${setting.duration} ${this.number}`)
    )
  }

  kill(): void {
    if (this.#dead) return
    this.#dead = true
    this.#around.onKilled(this)
  }

  /** Stops in good order, at most ten seconds long. */
  stop(): void {
    if (this.#dead) return
    const { time } = this.#around
    const end = Effect.andThen(
      this.#running === null ? Effect.void : Fiber.interrupt(this.#running),
      Scope.close(this.#scope, Exit.void)
    )
    time.run(this.within(end), time.now + 10_000)
    this.#dead = true
  }

  /** Lets go of what a dead process holds; it does nothing more. */
  bury(): void {
    Deferred.doneUnsafe(this.#burial, Effect.void)
    const { time } = this.#around
    time.run(this.within(Scope.close(this.#scope, Exit.void)), time.now)
  }

  /** Springs at the commit of the `count`th transaction from now on. */
  trap(trap: Trap, count: number): void {
    this.#traps.push({ at: this.#commits + 1 + count, trap })
  }

  /** Passes while the process lives; afterwards nothing comes back. */
  gate<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() =>
      this.#dead
        ? this.#nothing
        : Effect.onExit(effect, () => Effect.suspend(() => this.#dead ? this.#nothing : Effect.void))
    )
  }

  #source(): Source["Service"] {
    const { api, skew, time, witness } = this.#around
    const delivered = (delivery: Delivery) => {
      // what plugins ask for is no reading
      if (!this.#dead && delivery.request.priority !== "write") witness.delivered(this, delivery)
    }
    const source = api.source(() => time.now + skew(), delivered, {
      kill: () => this.kill(),
      leaves: () => this.#delivers !== null && witness.left(this.#delivers),
      alive: this.gate(Effect.void)
    })
    return {
      ...source,
      page: (request) => this.gate(source.page(request)),
      write: (request, hooks) => this.gate(source.write(request, hooks))
    }
  }

  #store(): Store["Service"] {
    const store = this.#held
    const { witness } = this.#around
    return {
      ...store,
      integrations: Effect.succeed(this.#around.setting.streams.map(active)),
      claim: (scope) =>
        this.gate(Effect.tap(store.claim(scope), (owner) =>
          Effect.sync(() => {
            if (scope === "delivery") this.#delivers = owner
            witness.claimed(owner)
          }))),
      ensureStreams: (streams) => this.gate(store.ensureStreams(streams)),
      streams: this.gate(store.streams),
      stream: (key) => this.gate(store.stream(key)),
      unseen: (...args) => this.gate(store.unseen(...args)),
      controls: (...args) => this.gate(store.controls(...args)),
      log: (query) => this.gate(store.log(query)),
      logRange: this.gate(store.logRange),
      readerPosition: (reader) => this.gate(store.readerPosition(reader)),
      saveReaderPosition: (...args) => this.gate(store.saveReaderPosition(...args)),
      // The store looks every second whether another process appended; here that would be a day's worth of looking.
      awaitLog: (after) => this.gate(this.#awaitLog(after)),
      transact: (owner, key, body) => this.gate(this.#transact(owner, key, body))
    }
  }

  #engine(): Layer.Layer<never, never, Store | Source> {
    const { deliveries } = this.#around
    if (deliveries === null) return Layer.empty
    return Layer.effectDiscard(Engine).pipe(
      Layer.provide(Engine.layer({ plugins, retention: Duration.days(7) })),
      Layer.provide(Layer.succeed(Deliveries, this.#deliveries(deliveries()))),
      Layer.provide(Layer.succeed(HttpClient.HttpClient, nobody))
    )
  }

  /** Each call that writes is one transaction: a trap may spring at any. */
  #deliveries(held: Deliveries["Service"]): Deliveries["Service"] {
    const trapped = <A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
      this.gate(Effect.suspend(() => {
        const number = ++this.#commits
        const trap = this.#traps.find(({ at }) => at === number)?.trap
        if (trap === "killBefore") this.kill()
        if (trap === "killBefore" || trap === "away") return Effect.fail(away)
        return Effect.flatMap(effect, (result) => {
          if (trap === "killAfter") this.kill()
          return trap === "unsure" ? Effect.fail(away) : Effect.succeed(result)
        })
      }))
    return {
      ...held,
      open: (...args) => trapped(held.open(...args)),
      dispatch: (...args) => trapped(held.dispatch(...args)),
      turn: (...args) => trapped(held.turn(...args)),
      begin: (fence, intent) =>
        trapped(Effect.tap(held.begin(fence, intent), ({ _tag }) =>
          Effect.sync(() => {
            if (_tag === "Begun") this.#around.witness.begun(fence.owner)
          }))),
      finish: (...args) => trapped(held.finish(...args)),
      withdraw: (...args) => trapped(held.withdraw(...args)),
      check: (fence) => this.gate(held.check(fence)),
      entries: (positions) => this.gate(held.entries(positions)),
      result: (key) => this.gate(held.result(key)),
      prune: (before) => this.gate(held.prune(before))
    }
  }

  #awaitLog(after: number): Effect.Effect<void, StoreError> {
    return Effect.suspend(() => {
      const next = this.#appended
      return Effect.flatMap(
        this.#held.logRange,
        ({ newest }) => newest > after ? Effect.void : Effect.andThen(Deferred.await(next), this.#awaitLog(after))
      )
    })
  }

  /** The log has grown, by whichever process. */
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
    const store = this.#held
    const { witness } = this.#around
    return Effect.suspend(() => {
      const number = ++this.#commits
      const trap = this.#traps.find(({ at }) => at === number)?.trap
      let written: Written | undefined
      const watched = store.transact(owner, key, (tx) => {
        const watch = watchTransaction(owner, key, tx)
        written = watch.written
        return trap === "killBefore" || trap === "away"
          ? Effect.andThen(body(watch.tx), Effect.fail(away))
          : body(watch.tx)
      })
      return Effect.onExit(watched, (exit) =>
        Effect.suspend(() => {
          if (Exit.isSuccess(exit) && written !== undefined) witness.committed(this, written)
          if (trap === "killBefore" || trap === "killAfter") this.kill()
          return Effect.void
        })).pipe(
          Effect.flatMap((result) => trap === "unsure" ? Effect.fail(away) : Effect.succeed(result))
        )
    })
  }
}

const watchTransaction = (owner: Owner, key: StreamKey, tx: StreamTx) => {
  const written: Written = {
    key,
    owner,
    before: tx.state,
    after: tx.state,
    events: [],
    log: [],
    pending: new Map(),
    quarantined: 0,
    holds: [],
    settled: []
  }
  const writing = (model: string, { write }: StreamTx): StreamTx["write"] => (records) => {
    for (const { events } of records) for (const event of events) written.log.push({ model, event })
    return write(records)
  }
  const watched: StreamTx = {
    ...tx,
    save: (state) => {
      written.after = state
      return tx.save(state)
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
    derived: (model) => Effect.map(tx.derived(model), (derived) => ({ ...derived, write: writing(model, derived) })),
    settleOwed: (ids) => {
      written.settled.push(...ids)
      return tx.settleOwed(ids)
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
