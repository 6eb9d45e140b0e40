/**
 * The ports as a dry run has them: everything can be read, and what would be written is written down here and nowhere else.
 *
 * Invariants
 * 1. Nothing given to a dry run can write: of the source it has the reads, of the store what the journal holds, of the
 *    network GET and HEAD
 * 2. What was journaled counts, as it would in a replay
 *
 * Gotchas
 * - What an earlier attempt began and never heard of again counts as not begun: only a real attempt asks what became of it.
 * - What a write would answer is made up: an id that begins with `dry-run`, and nothing else. So is that of a request.
 */
import * as Effect from "effect/Effect"
import type { HttpBody } from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Schema from "effect/Schema"
import type { EmployeeForm } from "../../api/Forms.ts"
import type { ProficiencyScale } from "../../api/Proficiency.ts"
import { checkWrite } from "../../api/WriteCheck.ts"
import { type WriteData, type WriteName, writeSchemas } from "../../api/Writes.ts"
import type { Json } from "../../domain/ChangeEvent.ts"
import { Invalid, type SendHooks, type Source } from "../../source/Source.ts"
import type { BeginRefusal, BeginResult, Deliveries, StepKey } from "../../store/Deliveries.ts"
import type { DryRunRequest } from "./PluginAdmin.ts"

/** What a dry run reads of, and all it has. */
export interface ReadOnlyPorts {
  readonly source: Pick<Source["Service"], "page" | "read">
  readonly deliveries: Pick<Deliveries["Service"], "result" | "entries" | "batches" | "content" | "applicationsOf">
  /** Asked for GET and HEAD only. */
  readonly http: HttpClient.HttpClient
}

const isRead = (method: string): boolean => method === "GET" || method === "HEAD"

const decoder = new TextDecoder()

/** JSON where it is, for people to read. */
const bodyOf = (body: HttpBody): unknown => {
  if (body._tag === "Empty") return null
  if (body._tag !== "Uint8Array") return `(${body._tag})`
  const text = decoder.decode(body.body)
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const httpOf = ({ http }: ReadOnlyPorts, asked: Array<DryRunRequest>): HttpClient.HttpClient =>
  HttpClient.make((request, url) => {
    if (isRead(request.method)) return http.execute(request)
    // a query may hold a secret
    const what = `${request.method} ${url.origin}${url.pathname}`
    return Effect.sync(() => {
      asked.push({ what, integration: null, params: {}, body: bodyOf(request.body) })
      const answer = new Response("{}", { headers: { "content-type": "application/json" } })
      return HttpClientResponse.fromWeb(request, answer)
    })
  })

interface Write {
  readonly integration: string
  readonly write: WriteName
  readonly params: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly form?: EmployeeForm
  readonly scale?: ProficiencyScale
}

const sourceOf = ({ source: { page, read } }: ReadOnlyPorts, asked: Array<DryRunRequest>): Source["Service"] => {
  const write = Effect.fnUntraced(function*({ integration, ...request }: Write) {
    const faults = checkWrite(request).filter(({ rule }) => rule !== "pattern_unsupported")
    if (faults.length > 0) return yield* new Invalid({ faults })
    asked.push({ what: request.write, integration, params: request.params, body: request.body })
    const { data } = writeSchemas[request.write]
    return yield* Effect.orDie(Schema.decodeUnknownEffect(data)({ id: `dry-run-${asked.length}` }))
  })
  return {
    page,
    read,
    // the schema that decoded it is this write's
    write: <W extends WriteName, E>(request: Write & { readonly write: W }, { before }: SendHooks<E>) =>
      Effect.andThen(before, write(request) as Effect.Effect<WriteData<W>, Invalid>)
  }
}

const nameOf = ({ dedupKeys, step }: StepKey, occasion = dedupKeys[0]): string => JSON.stringify([occasion, step])

/** A journal that is read, and goes on in memory. What is neither read nor a step has no place in a dry run. */
const deliveriesOf = ({ deliveries }: ReadOnlyPorts): Deliveries["Service"] => {
  const results = new Map<string, Json>()
  const resultOf = (key: StepKey) =>
    Effect.suspend(() => {
      const own = key.dedupKeys.map((occasion) => results.get(nameOf(key, occasion))).find((one) => one !== undefined)
      return own === undefined ? deliveries.result(key) : Effect.succeed(own)
    })
  const impossible = Effect.die(new Error("a dry run has no deliveries to settle, and no operators"))
  const never = () => impossible
  return {
    entries: deliveries.entries,
    batches: deliveries.batches,
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
    withdraw: () => Effect.void,
    registerHandlers: never,
    dispatch: never,
    dispatchTicks: never,
    settleAndClaim: never,
    handlers: impossible,
    backlog: impossible,
    deadLetters: never,
    deadLetterDetail: never,
    redrive: never,
    discard: never,
    unresolvedSteps: never,
    resolve: never,
    replay: never,
    switchedOff: impossible,
    setSwitch: never,
    awaitCommand: never,
    prune: never
  }
}

/** For one delivery: the ports to run it with, and what it would have asked for, as it comes. */
export const ports = (readable: ReadOnlyPorts) => {
  const requests: Array<DryRunRequest> = []
  return {
    requests: requests as ReadonlyArray<DryRunRequest>,
    source: sourceOf(readable, requests),
    deliveries: deliveriesOf(readable),
    client: httpOf(readable, requests)
  }
}
