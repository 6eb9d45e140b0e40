/** The part of the operating API's contract that is about holds: what waits for a decision, and the decision. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { Conflict, NotFound, StoreUnavailable } from "../Problem.ts"
import { Instant, Limit, Model, page, PositiveInt } from "../Schemas.ts"

const HoldState = Schema.Literals(["open", "rejected", "approving", "approved", "cancelled"])

export const HoldView = Schema.Struct({
  id: Schema.Number,
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  kind: Schema.Literals(["deletes", "restores", "scope"]),
  state: HoldState,
  /** In words. */
  reason: Schema.String,
  /** Of a scope hold: JSON Pointers that keep their published values; `*` is any member of an array. */
  paths: Schema.Array(Schema.String),
  opened_at: Schema.String,
  decided_at: Instant,
  /** Held now. */
  records: Schema.Number,
  /** Released since it was approved. */
  released: Schema.Number,
  /** Why an approval is not carried out yet, and when it will be, in words; null where nothing is in its way. */
  waiting_reason: Schema.NullOr(Schema.String)
})
export type HoldView = typeof HoldView.Type

/** One held record, without content. */
const HeldRecord = Schema.Struct({
  id: Schema.String,
  status: Schema.Literals(["held", "rejected"]),
  /** Why it counts as deleted, if it does. */
  reason: Schema.NullOr(Schema.String),
  changed_at: Instant,
  detected_at: Schema.String
})

/** A hold and a page of its records. */
export const HoldPage = Schema.Struct({
  hold: HoldView,
  records: Schema.Array(HeldRecord),
  next: Schema.NullOr(Schema.String)
})

const holdId = { id: PositiveInt }

export const holds = HttpApiGroup.make("holds").add(
  HttpApiEndpoint.get("list", "/v1/holds", {
    query: {
      state: Schema.optionalKey(HoldState),
      after: Schema.optionalKey(Schema.FiniteFromString),
      limit: Schema.optionalKey(Limit)
    },
    success: page(HoldView),
    error: StoreUnavailable
  }).annotate(
    OpenApi.Description,
    "Changes that the guard keeps back, newest first. Without `state` those that are neither approved nor cancelled."
  ),
  HttpApiEndpoint.get("show", "/v1/holds/:id", {
    params: holdId,
    query: { after: Schema.optionalKey(Schema.String), limit: Schema.optionalKey(Limit) },
    success: HoldPage,
    error: [NotFound, StoreUnavailable]
  }),
  HttpApiEndpoint.post("approve", "/v1/holds/:id/approve", {
    params: holdId,
    query: {
      origin: Schema.optionalKey(Schema.Literal("backfill")),
      silent: Schema.optionalKey(Schema.Literals(["true", "false"]))
    },
    success: HoldView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Publishes what is held, as `origin: backfill` if asked for. `silent=true`, for a scope hold: publishes nothing, the " +
      "records count as they are now shown. The answer comes at once; the hold is `approving` until all is published. That is " +
      "soon, of a paused or blocked stream too; of one that is not read any more, once it is read again: `waiting_reason` says so."
  ),
  HttpApiEndpoint.post("reject", "/v1/holds/:id/reject", {
    params: holdId,
    success: HoldView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Publishes nothing; the records stay listed as rejected and are not asked about again until they are seen otherwise."
  )
)
