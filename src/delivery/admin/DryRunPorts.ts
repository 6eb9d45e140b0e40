/**
 * The read-only ports of a dry run. Reads are real; writes are only recorded here.
 *
 * Invariants
 * 1. The ports that a dry run gets cannot write: reads of the source, reads of the store, GET and HEAD on the network
 * 2. Results in the journal are used, as in a replay
 *
 * Gotchas
 * - A write of unknown outcome is treated as not started, because only a real attempt verifies whether it took effect.
 * - The response of a write is invented: it contains only an id, which starts with `dry-run`. The response of an HTTP request is `{}`.
 */
import * as Effect from "effect/Effect"
import type { HttpBody } from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Schema from "effect/Schema"
import { checkWrite, type UncheckedWrite } from "../../api/WriteCheck.ts"
import { type WriteData, type WriteName, writeSchemas } from "../../api/Writes.ts"
import type { Json } from "../../domain/ChangeEvent.ts"
import { Invalid, type SendHooks, type Source } from "../../source/Source.ts"
import type { AttemptJournal, BeginRefusal, BeginResult, StepKey } from "../../store/AttemptJournal.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { DryRunRequest } from "./PluginAdmin.ts"

/** Everything that a dry run can access. */
export interface ReadOnlyPorts {
  readonly source: Pick<Source["Service"], "page" | "read">
  readonly deliveries: Pick<Deliveries["Service"], "result" | "entries" | "batches" | "content" | "applicationsOf">
  /** Used for GET and HEAD only. */
  readonly http: HttpClient.HttpClient
}

const isRead = (method: string): boolean => method === "GET" || method === "HEAD"

const decoder = new TextDecoder()

/** The body for people to read, parsed if it is JSON. */
const bodyOf = (body: HttpBody): unknown => {
  if (body._tag === "Empty") return null
  if (body._tag !== "Uint8Array") return "(a body that is not text)"
  const text = decoder.decode(body.body)
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const httpOf = ({ http }: ReadOnlyPorts, requests: Array<DryRunRequest>): HttpClient.HttpClient =>
  HttpClient.make((request, url) => {
    if (isRead(request.method)) return http.execute(request)
    // the query is left out, because it may contain a secret
    const what = `${request.method} ${url.origin}${url.pathname}`
    return Effect.sync(() => {
      requests.push({ what, integration: null, params: {}, body: bodyOf(request.body) })
      const response = new Response("{}", { headers: { "content-type": "application/json" } })
      return HttpClientResponse.fromWeb(request, response)
    })
  })

type Write = UncheckedWrite & { readonly integration: string }

const sourceOf = ({ source: { page, read } }: ReadOnlyPorts, requests: Array<DryRunRequest>): Source["Service"] => {
  const write = Effect.fnUntraced(function*({ integration, ...request }: Write) {
    const faults = checkWrite(request).filter(({ rule }) => rule !== "pattern_unsupported")
    if (faults.length > 0) return yield* new Invalid({ faults })
    requests.push({ what: request.write, integration, params: request.params, body: request.body })
    const { data } = writeSchemas[request.write]
    return yield* Effect.orDie(Schema.decodeUnknownEffect(data)({ id: `dry-run-${requests.length}` }))
  })
  return {
    page,
    read,
    // the data was decoded with the schema of this write
    write: <W extends WriteName, E>(request: Write & { readonly write: W }, { before }: SendHooks<E>) =>
      Effect.andThen(before, write(request) as Effect.Effect<WriteData<W>, Invalid>)
  }
}

const nameOf = ({ dedupKeys, step }: StepKey, dedupKey = dedupKeys[0]): string => JSON.stringify([dedupKey, step])

/** Reads the stored journal and keeps new results in memory. */
const journalOf = ({ deliveries }: ReadOnlyPorts): AttemptJournal => {
  const results = new Map<string, Json>()
  const resultOf = (key: StepKey) =>
    Effect.suspend(() => {
      const own = key.dedupKeys.map((dedupKey) => results.get(nameOf(key, dedupKey))).find((one) => one !== undefined)
      return own === undefined ? deliveries.result(key) : Effect.succeed(own)
    })
  return {
    content: deliveries.content,
    applicationsOf: deliveries.applicationsOf,
    check: () => Effect.void,
    result: resultOf,
    checkBegin: (_, key) =>
      Effect.map(resultOf(key), (result): BeginRefusal | null => result === null ? null : { _tag: "Done", result }),
    begin: (_, key) =>
      Effect.map(
        resultOf(key),
        (result): BeginResult => result === null ? { _tag: "Begun" } : { _tag: "Done", result }
      ),
    finish: (_, key, result) => Effect.sync(() => void results.set(nameOf(key), result)),
    withdraw: () => Effect.void
  }
}

/** The ports for one delivery, and the requests that it would have made, in order. */
export const ports = (readable: ReadOnlyPorts) => {
  const requests: Array<DryRunRequest> = []
  return {
    requests: requests as ReadonlyArray<DryRunRequest>,
    source: sourceOf(readable, requests),
    journal: journalOf(readable),
    client: httpOf(readable, requests)
  }
}
