/** Processes that read the integrations of a scripted API, with a store in memory. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import type { IntegrationRefused } from "../../../src/capture/schedule/Integrations.ts"
import type { Source } from "../../../src/source/Source.ts"
import { Store, type StoreError } from "../../../src/store/Store.ts"
import * as MemoryStore from "../store/MemoryStore.ts"
import { acme } from "./Capturing.ts"
import { start } from "./Rig.ts"
import * as Scripted from "./ScriptedApi.ts"

export const other = { ...acme, id: "workday:acme" }

export const scenario = <A>(
  test: (api: Scripted.ScriptedApi) => Effect.fn.Return<A, unknown, Store | Source | Scope.Scope>
): Effect.Effect<A, unknown> => {
  const api = Scripted.make()
  return TestClock.setTime(start).pipe(
    Effect.andThen(Effect.sync(() => {
      for (const id of ["a", "b"]) api.put(start, { id, name: "1" })
    })),
    Effect.andThen(Effect.gen(() => test(api))),
    Effect.scoped,
    Effect.provide(Layer.merge(Scripted.layer(api), MemoryStore.layer())),
    Effect.provideService(References.MinimumLogLevel, "None")
  )
}

export const entries = Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 1000 }))
export const allEvents = Effect.map(
  entries,
  (all) => all.map(({ id, integration, generation, version }) => `${integration} ${id} ${generation}.${version}`)
)
export const stateOf = (id: string) =>
  Effect.flatMap(
    Store,
    (store) => Effect.map(store.integrations, (all) => all.find((integration) => integration.id === id))
  )
export const erased = (id: string) =>
  Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), stateOf(id)), { until: (one) => one?.state === "erased" })
export const streamOf = (integration: string) =>
  Effect.flatMap(Store, (store) => store.stream({ integration, model: "ats.tag" }))
export const reasonOf = <A>(effect: Effect.Effect<A, IntegrationRefused | StoreError>) =>
  Effect.map(Effect.flip(effect), (error) => error._tag === "IntegrationRefused" ? error.reason : error.message)
