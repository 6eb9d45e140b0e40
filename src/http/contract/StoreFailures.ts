/** Lets every handler fail with an error of the store (`request/FailureResponses.ts`). */
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { StoreError } from "../../store/Store.ts"
import { StoreUnavailable } from "./Problem.ts"

export const toProblem = ({ reason }: StoreError) => new StoreUnavailable({ detail: reason.hint })

/** An error of the store as clients see it. */
const StoreFailure = StoreUnavailable.pipe(
  Schema.decodeTo(Schema.instanceOf(StoreError), {
    decode: SchemaGetter.forbidden(() => "clients do not make errors of the store"),
    encode: SchemaGetter.transform(toProblem)
  }),
  HttpApiSchema.status(503),
  HttpApiSchema.asJson({ contentType: "application/problem+json" })
).annotate({ identifier: "StoreUnavailable", description: "The store is unavailable" })

export class StoreFailures extends HttpApiMiddleware.Service<StoreFailures>()("rollcall/http/StoreFailures", {
  error: StoreFailure
}) {}
