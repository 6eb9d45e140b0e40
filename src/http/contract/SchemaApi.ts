/** The contract of the published schemas. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { NotFound } from "./Problem.ts"
import { page, PositiveInt, words } from "./Schemas.ts"

const PublishedSchema = Schema.Struct({
  name: Schema.String.annotate({
    description: "`<model>`: records; `<model>.event`: the `data` of events; `progress`: values of the progress topic"
  }),
  version: Schema.Int.annotate({ description: "The newest version" }),
  id: Schema.String.annotate({ description: "`$id` of the schema. Events have it as `dataschema`" }),
  path: Schema.String
}).annotate({ identifier: "PublishedSchema" })

export const schemas = HttpApiGroup.make("schemas").add(
  HttpApiEndpoint.get("schemas", "/schemas", { success: page(PublishedSchema) }).annotateMerge(words(
    "listSchemas",
    "List the schemas",
    "Lists the schemas of published records, events and progress."
  )),
  HttpApiEndpoint.get("schema", "/schemas/:name/:version", {
    params: { name: Schema.String, version: PositiveInt },
    success: Schema.Record(Schema.String, Schema.Unknown).pipe(
      HttpApiSchema.asJson({ contentType: "application/schema+json" })
    ),
    error: NotFound
  }).annotateMerge(words(
    "getSchema",
    "Get a schema",
    "Returns a JSON Schema (draft 2020-12). Schemas only grow, so a request for an earlier version returns the newest one, " +
      "which also describes the earlier data. `urn:rollcall:schema:<name>:<version>` is at `/schemas/<name>/<version>`."
  ))
)
