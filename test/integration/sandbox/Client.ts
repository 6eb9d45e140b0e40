/** A running sandbox and a minimal client that does not know the contract. */
import * as Effect from "effect/Effect"
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
