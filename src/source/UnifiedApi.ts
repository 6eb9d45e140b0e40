/**
 * The unified API over HTTP: the adapter of `Source`.
 *
 * Invariants
 * 1. The key is sent only to the account's own URL: redirects are not followed
 * 2. A write is sent again only if the API certainly did nothing, or if sending it twice is safe
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { cursorParameter, pageSizeLimits } from "../api/Lists.ts"
import { type ReadName, readSchemas } from "../api/Reads.ts"
import { Empty, type WriteData, type WriteName, writes, writeSchemas } from "../api/Writes.ts"
import * as OutgoingHttp from "../network/OutgoingHttp.ts"
import * as AccountClient from "./AccountClient.ts"
import * as AccountStatus from "./AccountStatus.ts"
import * as ApiRequest from "./ApiRequest.ts"
import * as ApiResponse from "./ApiResponse.ts"
import * as Failures from "./Failures.ts"
import type { RequestBudget } from "./RequestBudget.ts"
import * as SendAttempt from "./SendAttempt.ts"
import {
  type Invalid,
  type PageRequest,
  type ReadData,
  type ReadRequest,
  type SendHooks,
  Source,
  type SourceError,
  Unauthorized,
  type WriteError,
  type WriteRequest
} from "./Source.ts"
import * as Warnings from "./Warnings.ts"

export interface Options {
  readonly accounts: Readonly<Record<string, AccountClient.Account>>
  /**
   * First delay between two attempts; it doubles up to 30 seconds, with a jitter of 20 %. It is also the account's first pause
   * after a rate-limit response without `Retry-After`, doubling up to a minute. The circuit of a failing integration opens for
   * ten times this duration, doubling up to a minute.
   */
  readonly retryBase: Duration.Input
  /** For one request including its response; a minute by default. */
  readonly timeout?: Duration.Input
  /** Largest page of a list, decompressed; 32 MiB by default. Other responses may have an eighth of this size. */
  readonly maxBytes?: number
}

/**
 * Idle connections are closed after this time (ms). A server that closed an idle connection first could cut off a write that was just
 * sent.
 */
const idleTimeoutMillis = 4_000

/** The client to provide. It reuses connections. */
export const httpClient = OutgoingHttp.layer({ keepAlive: true, timeout: idleTimeoutMillis })

const isTooLarge = ({ reason }: SourceError): boolean => reason._tag === "Unreadable" && reason.tooLarge === true

/** For writes without a result: any data, or none, is accepted. */
const ignoreData: ApiResponse.DataDecoder<typeof Empty.Type> = () => Result.succeed({})

const make = Effect.fnUntraced(function*(options: Options) {
  const { maxBytes = 32 * 1024 * 1024 } = options
  const shared = {
    retryBase: Duration.fromInputUnsafe(options.retryBase),
    timeout: Duration.fromInputUnsafe(options.timeout ?? "1 minute"),
    noteWarnings: Warnings.make()
  }
  const clients = new Map<string, AccountClient.AccountClient>()
  for (const [name, account] of Object.entries(options.accounts)) {
    clients.set(name, yield* AccountClient.make(name, account, shared))
  }
  const clientOf = Effect.fnUntraced(function*(account: string) {
    return clients.get(account) ??
      (yield* Failures.notSent(Unauthorized, `the configuration has no account "${account}"`))
  })

  /**
   * Page size of each list that had a page that was too large. The size only shrinks: if the API's cursor counts pages, larger pages
   * would skip rows. It is reset only if even one row is too large, because the run then fails and starts again.
   */
  const pageSizes = new Map<string, number>()

  const page: Source["Service"]["page"] = Effect.fnUntraced(function*(request: PageRequest) {
    const { account, integration, model } = request
    const list = `${integration}/${model}`
    const format = model === "assessment.package" ? ApiResponse.packageList : ApiResponse.listPage
    const cursorName = options.accounts[account]?.cursorParameter ?? cursorParameter
    for (;;) {
      const rows = pageSizes.get(list) ?? pageSizeLimits.max
      const fewer = Math.ceil(rows / 5)
      const call = ApiRequest.forPage(request, cursorName, rows)
      const client = yield* clientOf(account)
      const found = yield* Effect.result(client.send(call, { ...format, maxBytes }, (error) => !isTooLarge(error)))
      if (Result.isSuccess(found)) {
        const { data, ...times } = found.success
        return { ...data, ...times }
      }
      if (!isTooLarge(found.failure)) return yield* found.failure
      // A list without `page_size` is always returned as a whole.
      if (fewer === rows || !("page_size" in call.query)) {
        // Fewer rows are not possible: even a page of one row, or the whole list, is too large.
        pageSizes.delete(list)
        return yield* found.failure
      }
      yield* Effect.logWarning("a page was too large: later pages of this list are requested with fewer rows").pipe(
        Effect.annotateLogs({ integration, model, rows: fewer })
      )
      pageSizes.set(list, fewer)
    }
  })

  const read = Effect.fnUntraced(function*<R extends ReadName>(request: ReadRequest<R>) {
    const call = yield* ApiRequest.forRead(request)
    const client = yield* clientOf(request.account)
    const decode = ApiResponse.decoderFor<ReadData<R>>(request.read, readSchemas[request.read])
    return (yield* client.send(call, { decode, maxBytes: maxBytes / 8 })).data
  })

  const write = Effect.fnUntraced(function*<W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>
  ): Effect.fn.Return<WriteData<W>, WriteError | Invalid | E> {
    const call = yield* ApiRequest.forWrite(request)
    const { data } = writeSchemas[request.write]
    const { resendPolicy } = writes[request.write]
    const decode: ApiResponse.DataDecoder<WriteData<W>> = data === Empty
      ? ignoreData
      : ApiResponse.decoderFor(request.write, data)
    const mayRepeat = resendPolicy === "safe" ? () => true : Failures.hasNoEffect
    const toWriteError = Failures.toWriteError(resendPolicy)
    const response = yield* clientOf(request.account).pipe(
      Effect.flatMap((client) =>
        client.send(call, { decode, maxBytes: maxBytes / 8 }, mayRepeat, SendAttempt.withHooks(hooks))
      ),
      Effect.mapError((error) => error._tag === "HookFailed" ? error.by : toWriteError(error))
    )
    return response.data
  })

  return Context.make(Source, { page, read, write }).pipe(
    Context.add(AccountStatus.AccountStatus, AccountStatus.make(clients))
  )
})

/** `Source` over HTTP. Requires an `HttpClient` that does not follow redirects and reads at most `MaxBodySize` of a body. */
export const layer = (
  options: Options
): Layer.Layer<Source | AccountStatus.AccountStatus, never, HttpClient.HttpClient | RequestBudget> =>
  Layer.effectContext(make(options))
