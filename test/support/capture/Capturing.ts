/** Capture over a scripted API and a store in memory, running in virtual time. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import { Capture, type CaptureOptions, layer } from "../../../src/capture/schedule/Capture.ts"
import {
  Integrations,
  type IntegrationSettings,
  type IntegrationsOptions,
  layer as integrationsLayer
} from "../../../src/capture/schedule/Integrations.ts"
import type { StreamSettings } from "../../../src/capture/StreamLifecycle.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { Source } from "../../../src/source/Source.ts"
import { Store, StoreError } from "../../../src/store/Store.ts"
import * as MemoryStore from "../store/MemoryStore.ts"
import { start } from "./Rig.ts"
import * as Scripted from "./ScriptedApi.ts"
export const integration = "greenhouse:acme"
export const settings: CaptureOptions = { minOverlap: Duration.minutes(5), confirmInterval: Duration.minutes(10) }

export const streamsOf = (models: ReadonlyArray<IncrementalModel>): ReadonlyArray<StreamSettings> =>
  models.map((model) => ({
    integration,
    model,
    account: "default",
    interval: Duration.minutes(1),
    sweepInterval: Duration.hours(6)
  }))

/** Capture with streams of these models. */
export const capturing = (models: ReadonlyArray<IncrementalModel>, more: Partial<CaptureOptions> = {}) =>
  Layer.effectDiscard(Effect.flatMap(Capture, (capture) => capture.assign(new Map([[integration, streamsOf(models)]]))))
    .pipe(
      Layer.provideMerge(layer({ ...settings, ...more }))
    )

export const running = <A>(
  models: ReadonlyArray<IncrementalModel>,
  test: (
    api: Scripted.ScriptedApi,
    started: Fiber.Fiber<never, StoreError>
  ) => Effect.fn.Return<A, unknown, Capture | Store | Source | Scope.Scope>,
  /** Replaces operations of the store, for example to observe them. */
  replace: (store: Store["Service"]) => Partial<Store["Service"]> = () => ({})
) => {
  const api = Scripted.make()
  const store = Layer.effect(Store, Effect.map(Store, (store) => ({ ...store, ...replace(store) }))).pipe(
    Layer.provide(MemoryStore.layer())
  )
  const infrastructure = Layer.merge(Scripted.layer(api), store)
  return Effect.gen(function*() {
    yield* TestClock.setTime(start)
    api.put(start, { id: "a", title: "x" })
    api.put(start, { id: "b", title: "y" })
    return yield* Effect.gen(function*() {
      const capture = yield* Capture
      const fiber = yield* Effect.forkChild(capture.run)
      yield* TestClock.adjust("1 second")
      return yield* test(api, fiber)
    }).pipe(Effect.provide(capturing(models).pipe(Layer.provideMerge(infrastructure))))
  }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None"))
}

export const stateOf = (model: IncrementalModel) =>
  Effect.flatMap(Store, (store) => Effect.map(store.stream({ integration, model }), (state) => state!))

/** An integration as it is configured or added. */
export const acme: IntegrationSettings = {
  id: integration,
  account: "default",
  models: ["ats.tag"],
  interval: Duration.minutes(1),
  sweepInterval: Duration.hours(6),
  backfill: "publish"
}

/** Starts a process with the store and the API of the test. */
export const startProcess = Effect.fnUntraced(
  function*(options: Partial<IntegrationsOptions> = {}, captureOptions: Partial<CaptureOptions> = {}) {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const context = yield* integrationsLayer({
      declared: [],
      discovered: new Map(),
      processing: Processing.defaultProcessing,
      readers: [],
      ...options
    }).pipe(
      Layer.provideMerge(layer({ ...settings, ...captureOptions })),
      Layer.provide(Layer.succeed(Store, yield* Store)),
      Layer.provide(Layer.succeed(Source, yield* Source)),
      Layer.fresh,
      (one) => Layer.buildWithScope(one, scope)
    )
    const capture = Context.get(context, Capture)
    yield* Effect.forkIn(capture.run, scope)
    yield* TestClock.adjust("1 second")
    return { ...Context.get(context, Integrations), capture, stop: Scope.close(scope, Exit.void) }
  }
)
