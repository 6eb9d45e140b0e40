/**
 * One process of the service: capture, relay, plugins, its clock, and every way to die.
 *
 * Invariants
 * 1. A killed process has no further effect: its requests to store, sink or API never return.
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
import { builtInModels, CurrentModels } from "../../../src/domain/BuiltInModels.ts"
import { derivedFrom, isModel, type Model, type Models, type StreamKey } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { captureScopeOf } from "../../../src/domain/Shard.ts"
import { KeyWatch } from "../../../src/fleet/KeyWatch.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import { Sink } from "../../../src/publish/Sink.ts"
import { Source } from "../../../src/source/Source.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import type { Owner } from "../../../src/store/State.ts"
import { Store, type StoreError } from "../../../src/store/Store.ts"
import { modelsOf } from "../world/DefinedModels.ts"
import type { ServedPage } from "../world/FaultyApi.ts"
import type { Environment } from "./Environment.ts"
import type { RunningProcess } from "./ProcessObserver.ts"
import * as SharedRequests from "./SharedRequests.ts"
import type { SimulatedPlacement } from "./SimulatedPlacement.ts"
import { StoreAccess, storeUnavailable } from "./StoreAccess.ts"

const unexpectedClient = HttpClient.make(() => Effect.die(new Error("plugins must send requests to the API only")))

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

export class Process implements RunningProcess {
  readonly number: number
  /** A dead process waits for this until it is disposed. */
  readonly #disposed = Deferred.makeUnsafe<void>()
  readonly #untilDisposed = Effect.andThen(Deferred.await(this.#disposed), Effect.interrupt)
  readonly #environment: Environment
  readonly store: StoreAccess
  readonly listsCandidates: boolean
  /** Whether the list of processes shows it as alive. */
  isListed = false
  readonly #scope = Effect.runSync(Scope.make())
  #dead = false
  #running: Fiber.Fiber<unknown> | null = null
  /** The models that its configuration has. */
  readonly #models: Models
  capture: Capture.Capture["Service"] | null = null
  forgetting: Forgetting.Forgetting["Service"] | null = null

  constructor(number: number, environment: Environment, lacksList = false) {
    this.number = number
    this.#environment = environment
    this.listsCandidates = environment.listsCandidates()
    this.store = new StoreAccess(this, environment)
    this.#models = lacksList ? builtInModels : modelsOf(environment.setting, this.listsCandidates)
  }

  /** The processing of a model; that of a list which it does not know leaves the content as it is. */
  readonly #processing = (model: Model): Processing.Processing =>
    isModel(this.#models, model)
      ? Processing.defaultProcessing(model, this.#models)
      : Processing.unchanging(model, this.#models)

  /** Identifies the process since it took over the stream's shard: what it read before belongs to an earlier owner. */
  readerOf({ integration }: Pick<StreamKey, "integration">): string {
    return `${this.number}.${this.store.tenuresOf(captureScopeOf(integration))}`
  }

  get dead(): boolean {
    return this.#dead
  }

  /** Builds the service and starts it. */
  start(): void {
    const { setting, simulatedPlacement, time } = this.#environment
    const models = this.#models
    const read = setting.streams.filter(({ model }) =>
      isModel(models, model) && (model !== "ats.candidate" || this.listsCandidates)
    )
    const chosen = [...read.map(({ model }) => model), ...setting.candidates ? ["ats.candidate" as const] : []]
    const streams = read.map((stream) => {
      const derived = derivedFrom(models, stream.model, chosen)
      return {
        ...stream,
        processing: this.#processing(stream.model),
        ...derived === undefined ? {} : { derivedProcessing: this.#processing(derived) },
        account: "default",
        interval: Duration.millis(setting.interval),
        sweepInterval: Duration.millis(setting.sweepInterval)
      }
    })
    const capture = Capture.layer({
      takesAll: simulatedPlacement === null,
      minOverlap: Duration.millis(setting.minOverlap),
      confirmInterval: Duration.millis(setting.confirmInterval),
      // redaction includes encryption with the current key
      ...(this.store.keyed === null
        ? {}
        : { processingOf: ({ model }) => isModel(this.#models, model) ? this.#processing(model) : null })
    })
    const service = Layer.provideMerge(this.#forgetting(), capture).pipe(
      Layer.merge(Relay.placedLayer({ progressEvery: "10 minutes", takesAgain: simulatedPlacement !== null })),
      Layer.merge(this.#engine()),
      Layer.provideMerge(
        simulatedPlacement === null ? Placement.local : Layer.succeed(Placement, simulatedPlacement.of(this))
      ),
      Layer.provide(Layer.succeedContext(
        Context.make(Store, this.store.reached()).pipe(
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
    const { keyed } = this.store
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
      Effect.provide(Layer.provide(KeyWatch.layer, Layer.succeed(Store, this.store.reached())))
    )
  }

  /** Its reports stop: the list shows it as silent. */
  becomeSilent(): void {
    if (this.store.keyed === null) return
    this.isListed = false
    this.#environment.time.run(this.within(this.store.keyed.processes.leave), Infinity)
  }

  /** Runs an effect with this process's clock and random numbers. */
  within<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    const { setting, skew, time } = this.#environment
    return effect.pipe(
      Effect.provideService(Clock.Clock, time.clock(skew)),
      Effect.provideService(References.MinimumLogLevel, "None"),
      Effect.provideService(CurrentModels, this.#models),
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
      onSent: () => this.store.delivers !== null && observer.writeSent(this.store.delivers),
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
      if (this.store.relays !== null) note(this.store.own, this.store.relays)
    }
    return simulatedSink.sink(this, { opened: byRelay(observer.sinkOpened), published: byRelay(observer.published) })
  }

  #forgetting(): Layer.Layer<never, StoreError, Capture.Capture | Store> {
    const deliveries = this.store.ownDeliveries
    if (deliveries === null || !this.#environment.forgets) return Layer.empty
    return Layer.effectDiscard(Effect.map(Forgetting.Forgetting, (service) => {
      this.forgetting = service
    })).pipe(
      Layer.provide(Forgetting.layer({ processing: this.#processing })),
      Layer.provide(Layer.succeed(Deliveries, this.store.reachedDeliveries(deliveries)))
    )
  }

  #engine(): Layer.Layer<never, never, Store | Source | Placement> {
    const deliveries = this.store.ownDeliveries
    const { plugins } = this.#environment
    if (deliveries === null || plugins.length === 0) return Layer.empty
    return Layer.effectDiscard(Engine).pipe(
      Layer.provide(Engine.layer({ plugins, retention: Duration.days(7), pollInterval: Duration.seconds(20) })),
      Layer.provide(Layer.succeed(Deliveries, this.store.reachedDeliveries(deliveries))),
      Layer.provide(Layer.succeed(HttpClient.HttpClient, unexpectedClient))
    )
  }
}
