/** Helpers for tests of writes: they check a response, and read the lists afterwards. */
import { assert } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { type WriteName, writeSchemas } from "../../../src/api/Writes.ts"
import type { Answer, Client } from "./Client.ts"

export const integration = "sandbox:everything"

export const succeeded = (name: WriteName, { json, status, text }: Answer): void => {
  assert.strictEqual(status, 200, text)
  assert.strictEqual(json.status, "success")
  assert.isTrue(Schema.is(writeSchemas[name].data)(json.data), text)
}
export const refused = ({ json, status, text }: Answer, wanted: number, code = "PLATFORM.INPUT_INVALID"): void => {
  assert.deepStrictEqual([status, json?.error?.code], [wanted, code], text)
}
export const mutate = async ({ control }: Client, act: object) => {
  const { json, status, text } = await control("POST", "/mutations", { integration, ...act })
  assert.strictEqual(status, 200, text)
  return String(json["id"])
}
/** Ids of a list's records that match `updated_after` of this moment. */
export const since = async ({ get }: Client, path: string, moment: string) =>
  (await get(`${path}?updated_after=${moment}`)).json.data.results.map(({ id }) => id)
export const row = async ({ get }: Client, path: string, id: string) =>
  (await get(`${path}?ids=${id}`)).json.data.results[0] ?? assert.fail(`no ${id}`)
/** Waits, and returns a time later than all previous changes and earlier than all later ones. */
export const pause = async () => {
  await new Promise((resolve) => setTimeout(resolve, 5))
  return new Date().toISOString()
}
export const file = { name: "cv.pdf", content_type: "application/pdf", data: "aGVsbG8=" }
