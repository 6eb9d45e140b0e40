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
import { CurrentModels } from "../domain/BuiltInModels.ts"
import * as OutgoingHttp from "../network/OutgoingHttp.ts"
import * as AccountClient from "./AccountClient.ts"
import * as AccountStatus from "./AccountStatus.ts"
import * as ApiRequest from "./ApiRequest.ts"
import * as ApiResponse from "./ApiResponse.ts"
import * as Failures from "./Failures.ts"
import * as PageSizes from "./PageSizes.ts"
import type { RequestBudget } from "./RequestBudget.ts"
import * as SendAttempt from "./SendAttempt.ts"
import {
  type Invalid,
  type PageRequest,
  type ReadData,
  type ReadRequest,
  type SendHooks,
  Source,
  SourceError,
  Unauthorized,
  Unsupported,
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
  /** Settings of integrations that differ from those of their account. */
  readonly integrations?: ReadonlyArray<
    AccountClient.RequestSettings & { readonly id: string; readonly account: string }
  >
  /** For one request including its response, in place of `requestTimeout` of accounts and integrations. */
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

/** For writes without a result: any data, or none, is accepted. */
const ignoreData: ApiResponse.DataDecoder<typeof Empty.Type> = () => Result.succeed({})

const make = Effect.fnUntraced(function*(options: Options) {
  const { maxBytes = 32 * 1024 * 1024 } = options
  const shared = { retryBase: Duration.fromInputUnsafe(options.retryBase), noteWarnings: Warnings.make() }
  const integrations = new Map(options.integrations?.map((settings) => [settings.id, settings]))
  const timeoutOf = (account: AccountClient.Account, integration: string | null): Duration.Duration =>
    Duration.fromInputUnsafe(
      options.timeout ?? integrations.get(integration ?? "")?.requestTimeout ?? account.requestTimeout ?? "1 minute"
    )
  const models = yield* CurrentModels
  const clients = new Map<string, AccountClient.AccountClient>()
  for (const [name, account] of Object.entries(options.accounts)) {
    const own = [...integrations.values()].filter((integration) => integration.account === name)
    const timeout = [null, ...own.map(({ id }) => id)].map((id) => timeoutOf(account, id)).reduce(Duration.max)
    const timeouts = { timeout, timeoutOf: (id: string | null) => timeoutOf(account, id) }
    clients.set(name, yield* AccountClient.make(name, account, { ...shared, ...timeouts }))
  }
  const clientOf = Effect.fnUntraced(function*(account: string) {
    return clients.get(account) ??
      (yield* Failures.notSent(Unauthorized, `the configuration has no account "${account}"`))
  })

  const pageSizes = PageSizes.make()

  const page: Source["Service"]["page"] = Effect.fnUntraced(function*(request: PageRequest) {
    const { account, integration, model } = request
    const list = models.listOf(model)
    if (list === undefined) {
      return yield* new SourceError({
        reason: new Unsupported({ code: null, message: `the configuration defines no list ${model}` })
      })
    }
    const isPaged = list.unpaged !== true
    const format = isPaged ? ApiResponse.listPage : ApiResponse.packageList
    const cursorName = options.accounts[account]?.cursorParameter ?? cursorParameter
    const pageSize = integrations.get(integration)?.pageSize ?? options.accounts[account]?.pageSize
    const limit = isPaged ? pageSize ?? pageSizeLimits.max : 1
    const client = yield* clientOf(account)
    const { data, ...times } = yield* pageSizes.read(
      request,
      limit,
      (rows, onFailure) =>
        client.send<ApiResponse.ListData>(() => ApiRequest.forPage(list, request, cursorName, rows()), {
          ...format,
          maxBytes
        }, onFailure)
    ).pipe(Effect.mapError((error) => Failures.ofList(list, error)))
    return { ...data, ...times }
  })

  const read = Effect.fnUntraced(function*<R extends ReadName>(request: ReadRequest<R>) {
    const call = yield* ApiRequest.forRead(request)
    const client = yield* clientOf(request.account)
    const decode = ApiResponse.decoderFor<ReadData<R>>(request.read, readSchemas[request.read])
    return (yield* client.send(() => call, { decode, maxBytes: maxBytes / 8 })).data
  })

  const write = Effect.fnUntraced(function*<W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>
  ): Effect.fn.Return<WriteData<W>, WriteError | Invalid | E> {
    const call = yield* ApiRequest.forWrite(request)
    const { data } = writeSchemas[request.write]
    const { resolutionPolicy } = writes[request.write]
    const decode: ApiResponse.DataDecoder<WriteData<W>> = data === Empty
      ? ignoreData
      : ApiResponse.decoderFor(request.write, data)
    const mayRepeat = resolutionPolicy === "safe" ? () => true : Failures.hasNoEffect
    const toWriteError = Failures.toWriteError(resolutionPolicy)
    const response = yield* clientOf(request.account).pipe(
      Effect.flatMap((client) =>
        client.send(() => call, { decode, maxBytes: maxBytes / 8 }, mayRepeat, SendAttempt.withHooks(hooks))
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
