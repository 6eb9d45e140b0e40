/**
 * The commands of operators for streams, integrations and forgotten records. Each is executed by the process that owns the integration's
 * streams: directly if that is this process, otherwise by a call.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { ForgettableRecord } from "../../domain/Forgotten.ts"
import { ModelName } from "../../domain/Model.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import {
  type CallError,
  Calls,
  type Handler,
  handler,
  type Method,
  method,
  notTaken,
  unanswered
} from "../../fleet/Calls.ts"
import { SourceError } from "../../source/Source.ts"
import type { ForgottenRecord } from "../../store/Operators.ts"
import type { IntegrationState } from "../../store/State.ts"
import { StoreError } from "../../store/Store.ts"
import { Forgetting, ForgettingRefused, Plan } from "../forget/Forgetting.ts"
import { AuditReport } from "../read/Audit.ts"
import { Capture, UnknownStream } from "../schedule/Capture.ts"
import { IntegrationRefused, Integrations, type IntegrationSettings } from "../schedule/Integrations.ts"
import { CommandRefused, type StreamCommand, streamCommands } from "../schedule/StreamCommands.ts"
import { RunAborted } from "../StreamLifecycle.ts"

// ---- values -------------------------------------------------------------------------------------------------------

const StreamKey = Schema.Struct({ integration: Schema.String, model: ModelName })

const Command: Schema.Codec<StreamCommand> = Schema.Union([
  Schema.Struct({ kind: Schema.Literals(streamCommands) }),
  Schema.Struct({ kind: Schema.Literal("rewind"), to: Schema.Number })
])

const integrationFields = {
  id: Schema.String,
  account: Schema.String,
  models: Schema.Union([Schema.Literal("auto"), Schema.Array(ModelName)]),
  backfill: Schema.Literals(["publish", "fill"])
}

const Settings: Schema.Codec<IntegrationSettings> = Schema.Struct({
  ...integrationFields,
  interval: Schema.Duration,
  sweepInterval: Schema.Duration
})

const Integration: Schema.Codec<IntegrationState> = Schema.Struct({
  ...integrationFields,
  interval: Schema.Number,
  sweepInterval: Schema.Number,
  declared: Schema.Boolean,
  generation: Schema.Number,
  state: Schema.Literals(["active", "removed", "erasing", "erased"])
})

const Removal = Schema.Struct({ id: Schema.String, data: Schema.Literals(["keep", "erase"]) })

const Record = Schema.Struct({
  integration: Schema.String,
  model: ModelName,
  id: Schema.String
})

const Forgotten: Schema.Codec<ForgottenRecord> = Schema.Struct({
  integration: Schema.String,
  model: Schema.String,
  id: Schema.String,
  state: Schema.Literals(["erasing", "forgotten"]),
  requestedAt: Schema.Number,
  doneAt: Schema.NullOr(Schema.Number),
  progress: Schema.NullOr(Schema.Struct({ done: Schema.Number, total: Schema.Number }))
})

// ---- methods ------------------------------------------------------------------------------------------------------

const ofStreams = { check: "rollcall streams list" }
const ofIntegrations = {
  check: "rollcall integrations list",
  success: Integration,
  error: Schema.Union([IntegrationRefused, StoreError])
}
const ofForgotten = { check: "rollcall forget --list", error: Schema.Union([ForgettingRefused, StoreError]) }

/** The calls to the owner of an integration. `check`: the command that shows whether a call took effect. */
export const methods = {
  execute: method("streams.execute", {
    ...ofStreams,
    payload: Schema.Struct({ key: StreamKey, command: Command }),
    success: Schema.Void,
    error: Schema.Union([CommandRefused, UnknownStream, StoreError])
  }),
  audit: method("streams.audit", {
    ...ofStreams,
    payload: StreamKey,
    success: AuditReport,
    error: Schema.Union([CommandRefused, UnknownStream, SourceError, RunAborted, StoreError])
  }),
  add: method("integrations.add", { ...ofIntegrations, payload: Settings }),
  remove: method("integrations.remove", { ...ofIntegrations, payload: Removal }),
  plan: method("forget.plan", { ...ofForgotten, payload: Record, success: Plan }),
  forget: method("forget", {
    ...ofForgotten,
    payload: Schema.Struct({ record: Record, plan: Schema.String }),
    success: Forgotten
  }),
  allow: method("forget.allow", { ...ofForgotten, payload: Record, success: Forgotten })
}

// ---- commands -----------------------------------------------------------------------------------------------------

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
            (error) => error instanceof UnknownStream && !calls.isLocal(shard),
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
      methods.execute,
      ({ key }) => key.integration,
      ({ command, key }) => Effect.asVoid(capture.execute(key, command))
    ),
    audit: routed(methods.audit, ofRecord, capture.audit),
    /** See `Integrations`. */
    add: routed(methods.add, ofSettings, integrations.add),
    remove: routed(methods.remove, ofSettings, ({ data, id }) => integrations.remove(id, data)),
    /** See `Forgetting`. */
    plan: routed(methods.plan, ofRecord, forgetting.plan),
    forget: routed(
      methods.forget,
      ({ record }) => record.integration,
      ({ plan, record }) => forgetting.forget(record, plan)
    ),
    allow: routed(methods.allow, ofRecord, forgetting.allow),
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
