/** The handlers of the published schemas. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { publishedSchemas } from "../../publish/SchemaDocuments.ts"
import { Api } from "../contract/Api.ts"
import { NotFound } from "../contract/Problem.ts"

export const layer = HttpApiBuilder.group(Api, "schemas", (handlers) =>
  handlers
    .handle("schemas", () =>
      Effect.map(CurrentModels, (models) => ({
        items: publishedSchemas(models).map(({ id, name, version }) => ({
          name,
          version,
          id,
          path: `/schemas/${name}/${version}`
        })),
        next: null
      })))
    .handle(
      "schema",
      Effect.fnUntraced(function*({ params: { name, version } }) {
        const known = publishedSchemas(yield* CurrentModels).find((schema) => schema.name === name)
        if (known !== undefined && version <= known.version) return known.document()
        return yield* new NotFound({
          detail: known === undefined
            ? "no schema has this name: GET /schemas lists all of them"
            : `this process knows this schema only up to version ${known.version}: a newer version of Rollcall published the data`
        })
      })
    ))
