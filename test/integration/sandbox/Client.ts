/** A running sandbox, a minimal client that does not know the contract, and checks of the responses to writes. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type WriteName, writeSchemas } from "../../../src/api/Writes.ts"
import {
  type AddressUnavailable,
  type SandboxHandle,
  type SandboxOptions,
  serve
} from "../../../src/sandbox/Sandbox.ts"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: {
    readonly status: string
    readonly data: {
      readonly next: string | null
      readonly results: ReadonlyArray<Record<string, unknown>>
      readonly [key: string]: unknown
    }
    readonly warnings: ReadonlyArray<{ readonly message: string }>
    readonly error: Record<"code" | "title" | "message" | "log_url", string | null>
    readonly [key: string]: unknown
  }
}

export interface Sent {
  readonly integration?: string | null
  readonly headers?: Record<string, string>
  /** A raw body, sent unchanged; the caller sets its headers. */
  readonly raw?: string | Uint8Array<ArrayBuffer>
}

export interface Client {
  readonly handle: SandboxHandle
  readonly get: (path: string, headers?: Record<string, string>) => Promise<Answer>
  /** Sends the key, the integration and, if there is a body, its media type. */
  readonly send: (method: string, path: string, body?: unknown, more?: Sent) => Promise<Answer>
  /** A request to `/_sandbox`. */
  readonly control: (method: string, path: string, body?: unknown) => Promise<Answer>
  /** Live records of a model, from `/_sandbox`. */
  readonly truth: (model: string, integration?: string) => Promise<ReadonlyArray<Record<string, unknown>>>
}

const answerOf = async (response: Response): Promise<Answer> => {
  const text = await response.text()
  const json = response.headers.get("content-type") === "application/json" && text.endsWith("}")
    ? JSON.parse(text)
    : null
  return { status: response.status, headers: response.headers, text, json }
}

const jsonType = { "content-type": "application/json" }

/** Serves a sandbox without activity unless the options set a speed. */
export const withSandbox = (
  options: SandboxOptions,
  use: (client: Client) => Promise<void>
): Effect.Effect<void, AddressUnavailable> =>
  Effect.scoped(Effect.flatMap(serve({ speed: 0, records: 60, ...options }), (handle) => {
    const root = handle.url.replace(/\/v1$/, "/_sandbox")
    const key = { authorization: `Bearer ${handle.key}` }
    const [first = ""] = handle.integrations
    const defaultHeaders = { ...key, "x-integration-id": first }
    const control = async (method: string, path: string, body?: unknown) =>
      answerOf(
        await fetch(`${root}${path}`, {
          method,
          ...(body !== undefined && { body: JSON.stringify(body), headers: jsonType })
        })
      )
    return Effect.promise(() =>
      use({
        handle,
        control,
        get: async (path, headers = defaultHeaders) => answerOf(await fetch(`${handle.url}${path}`, { headers })),
        send: async (method, path, body, { headers, integration = first, raw } = {}) =>
          answerOf(
            await fetch(`${handle.url}${path}`, {
              method,
              headers: {
                ...key,
                ...(integration !== null && { "x-integration-id": integration }),
                ...(body !== undefined && jsonType),
                ...headers
              },
              ...(raw !== undefined ? { body: raw } : body !== undefined && { body: JSON.stringify(body) })
            })
          ),
        truth: async (model, integration = first) => {
          const { json } = await control("GET", `/models/${model}?integration=${integration}`)
          return json["records"] as ReadonlyArray<Record<string, unknown>>
        }
      })
    )
  }))

// ---- writes -------------------------------------------------------------------------------------------------------

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
