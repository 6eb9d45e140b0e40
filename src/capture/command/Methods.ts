/** The commands that a process of a fleet passes on to the owner of the integration, with their parameters, results and errors. */
import * as Schema from "effect/Schema"
import { type ForgettableModel, forgettableModels } from "../../domain/Forgotten.ts"
import { type Model, modelNames } from "../../domain/Model.ts"
import { method } from "../../fleet/Calls.ts"
import { SourceError } from "../../source/Source.ts"
import type { ForgottenRecord } from "../../store/Operators.ts"
import type { IntegrationState } from "../../store/State.ts"
import { StoreError } from "../../store/Store.ts"
import { ForgettingRefused, Plan } from "../forget/Forgetting.ts"
import { AuditReport } from "../read/Audit.ts"
import { UnknownStream } from "../schedule/Capture.ts"
import { IntegrationRefused, type IntegrationSettings } from "../schedule/Integrations.ts"
import { CommandRefused, type StreamCommand, streamCommands } from "../schedule/StreamCommands.ts"
import { RunAborted } from "../StreamLifecycle.ts"

// ---- values -------------------------------------------------------------------------------------------------------

const AnyModel: Schema.Codec<Model> = Schema.Literals(modelNames)
const StreamKey = Schema.Struct({ integration: Schema.String, model: AnyModel })

const Command: Schema.Codec<StreamCommand> = Schema.Union([
  Schema.Struct({ kind: Schema.Literals(streamCommands) }),
  Schema.Struct({ kind: Schema.Literal("rewind"), to: Schema.Number })
])

const integrationFields = {
  id: Schema.String,
  account: Schema.String,
  models: Schema.Union([Schema.Literal("auto"), Schema.Array(AnyModel)]),
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

const ForgettableRecord = Schema.Struct({
  integration: Schema.String,
  model: Schema.Literals(forgettableModels) satisfies Schema.Codec<ForgettableModel>,
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

const showStreams = "rollcall streams list"
const showIntegrations = "rollcall integrations list"
const showForgotten = "rollcall forget --list"

const OfStream = Schema.Union([CommandRefused, UnknownStream, StoreError])
const OfAudit = Schema.Union([UnknownStream, SourceError, RunAborted, StoreError])
const OfIntegration = Schema.Union([IntegrationRefused, StoreError])
const OfForgetting = Schema.Union([ForgettingRefused, StoreError])

export const execute = method("streams.execute", {
  check: showStreams,
  payload: Schema.Struct({ key: StreamKey, command: Command }),
  success: Schema.Void,
  error: OfStream
})
export const audit = method("streams.audit", {
  check: showStreams,
  payload: StreamKey,
  success: AuditReport,
  error: OfAudit
})
export const add = method("integrations.add", {
  check: showIntegrations,
  payload: Settings,
  success: Integration,
  error: OfIntegration
})
export const remove = method("integrations.remove", {
  check: showIntegrations,
  payload: Removal,
  success: Integration,
  error: OfIntegration
})
export const plan = method("forget.plan", {
  check: showForgotten,
  payload: ForgettableRecord,
  success: Plan,
  error: OfForgetting
})
export const forget = method("forget", {
  check: showForgotten,
  payload: Schema.Struct({ record: ForgettableRecord, plan: Schema.String }),
  success: Forgotten,
  error: OfForgetting
})
export const allow = method("forget.allow", {
  check: showForgotten,
  payload: ForgettableRecord,
  success: Forgotten,
  error: OfForgetting
})
