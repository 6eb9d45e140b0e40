/**
 * The commands of operators for streams, integrations and forgotten records. Each is executed by the process that owns the integration's
 * streams: directly if that is this process, otherwise by a call.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { ForgettableRecord } from "../../domain/Forgotten.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import { type CallError, Calls, type Handler, handler, type Method, notTaken, unanswered } from "../../fleet/Calls.ts"
import { StoreError } from "../../store/Store.ts"
import { Forgetting } from "../forget/Forgetting.ts"
import { Capture } from "../schedule/Capture.ts"
import { Integrations, type IntegrationSettings } from "../schedule/Integrations.ts"
import * as Methods from "./Methods.ts"

interface Tagged {
  readonly _tag?: string
}
const isFenced = (error: unknown): boolean => error instanceof StoreError && error.reason._tag === "Fenced"

const make = Effect.gen(function*() {
  const calls = yield* Calls
  const capture = yield* Capture
  const integrations = yield* Integrations
  const forgetting = yield* Forgetting
  const handlers: Array<Handler> = []

  /** Executes a command in this process, or passes it to the owner by a call. */
  const routed = <P, A, E>(
    method: Method<P, A, E>,
    integrationOf: (payload: P) => string,
    execute: (payload: P) => Effect.Effect<A, E>
  ) => {
    handlers.push(handler(method, execute))
    return (payload: P): Effect.Effect<A, E | StoreError | CallError> =>
      Effect.suspend(() => {
        const shard = captureScopeOf(integrationOf(payload))
        const result = calls.isLocal(shard)
          // the stream may be unknown because its shard has just moved
          ? Effect.catchIf(
            execute(payload),
            (error) => (error as Tagged)._tag === "UnknownStream" && !calls.isLocal(shard),
            () => Effect.fail(notTaken())
          )
          : calls.call(shard, method, payload)
        // the shard has moved, perhaps between two transactions
        return Effect.catchIf(result, isFenced, () => Effect.fail(unanswered(method)))
      })
  }

  const ofRecord = ({ integration }: Pick<ForgettableRecord, "integration">) => integration
  const ofSettings = ({ id }: Pick<IntegrationSettings, "id">) => id

  return {
    /** See `Capture`. */
    execute: routed(
      Methods.execute,
      ({ key }) => key.integration,
      ({ command, key }) => Effect.asVoid(capture.execute(key, command))
    ),
    audit: routed(Methods.audit, ofRecord, capture.audit),
    /** See `Integrations`. */
    add: routed(Methods.add, ofSettings, integrations.add),
    remove: routed(Methods.remove, ofSettings, ({ data, id }) => integrations.remove(id, data)),
    /** See `Forgetting`. */
    plan: routed(Methods.plan, ofRecord, forgetting.plan),
    forget: routed(
      Methods.forget,
      ({ record }) => record.integration,
      ({ plan, record }) => forgetting.forget(record, plan)
    ),
    allow: routed(Methods.allow, ofRecord, forgetting.allow),
    /**
     * Executes the commands that all processes send for a shard, until the scope closes. Call this after the reading of the shard's
     * streams has started, and close the scope before they are released.
     */
    serve: (shard: string): Effect.Effect<void, never, Scope.Scope> => calls.serve(shard, handlers)
  }
})

export class Commands extends Context.Service<Commands, Effect.Success<typeof make>>()("rollcall/capture/Commands") {}

export const layer: Layer.Layer<Commands, never, Calls | Capture | Integrations | Forgetting> = Layer.effect(
  Commands,
  make
)
