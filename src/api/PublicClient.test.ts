/**
 * The contract against the schemas of the public TypeScript client of this family of APIs: every response that the client
 * accepts can be read, and every request that it sends is valid.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type ClientCall, clientCalls, endpointNames } from "../../test/support/api/PublicClient.ts"
import { requestsOf, samplesOf } from "../../test/support/api/ZodSamples.ts"
import { parseTime } from "../domain/Watermark.ts"
import { incrementalModels } from "./Lists.ts"
import { readNames, readSchemas } from "./Reads.ts"
import { recordSchemas } from "./Records.ts"
import { pageOf, successEnvelope } from "./UnifiedHttpApi.ts"
import { writeNames, writeSchemas } from "./Writes.ts"

type AnySchema = Schema.Codec<unknown, unknown>

const responses = new Map<string, AnySchema>([
  ...incrementalModels.map((model) => [model, pageOf(recordSchemas[model])] as const),
  ...readNames.map((name) => [name, successEnvelope(readSchemas[name])] as const),
  ...writeNames.map((name) => [name, successEnvelope(writeSchemas[name].data)] as const)
])

const shared = clientCalls.flatMap((call) => {
  const name = endpointNames.get(call.request)
  return name === undefined ? [] : [[name, call] as const]
})

/** Why the schema rejects the values: each reason once. */
const faultsOf = (schema: AnySchema, values: ReadonlyArray<unknown>): ReadonlyArray<string> => [
  ...new Set(values.flatMap((value) => {
    const result = Schema.decodeUnknownResult(schema, { errors: "all" })(value)
    return Result.isFailure(result) ? [result.failure.message] : []
  }))
]

interface Wire {
  readonly Result?: { readonly data?: { readonly results?: ReadonlyArray<Readonly<Record<string, unknown>>> } }
}

/** The response bodies that the client accepts; lists are wrapped in `Result`. */
const bodiesOf = ({ responseSchema }: ClientCall): ReadonlyArray<unknown> =>
  samplesOf(responseSchema).map((sample) => (sample as Wire).Result ?? sample)

describe("a response that the public client accepts", () => {
  it.each(shared)("to %s can be read (U71)", (name, call) => {
    const bodies = bodiesOf(call)
    assert.isNotEmpty(bodies)
    assert.deepStrictEqual(faultsOf(responses.get(name) ?? assert.fail(name), bodies), [])
  })

  it.each(shared.filter(([name]) => name in recordSchemas))(
    "to %s has times that capture understands (U71)",
    (_, call) => {
      const records = bodiesOf(call).flatMap((body) => (body as Wire["Result"])?.data?.results ?? [])
      assert.isNotEmpty(records)
      for (const { changed_at } of records) assert.isNotNull(parseTime(changed_at), String(changed_at))
    }
  )
})

describe("a request of the public client", () => {
  const bodies = shared.flatMap(([name, call]) =>
    name in writeSchemas ? [[name as keyof typeof writeSchemas, call] as const] : []
  )
  it.each(bodies)("for %s is valid (U71)", (name, { argumentsSchema }) => {
    const sent = requestsOf(argumentsSchema).map((args) => (args as { readonly body?: unknown }).body ?? args)
    assert.isNotEmpty(sent)
    assert.deepStrictEqual(faultsOf(writeSchemas[name].body, sent), [])
  })
})
