/**
 * The world as a `Source` without HTTP, for tests that run under virtual time.
 *
 * Gotchas
 * - The server's clock is Effect's `Clock` plus `skew`, truncated to whole seconds as a `Date` header is.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  listsOnly,
  type Page,
  type PageRequest,
  Rejected,
  Source,
  SourceError,
  Unsupported
} from "../../source/Source.ts"
import type { World } from "./World.ts"

export interface Options {
  /** The most rows in one page; default 250. */
  readonly pageSize?: number
  /** How far the server's clock is ahead of the client's clock; default none. */
  readonly skew?: Duration.Input
  /** How long a request takes; default none. */
  readonly latency?: Duration.Input
}

export const make = (world: World, options: Options = {}): Source["Service"] => {
  const skew = Duration.toMillis(options.skew ?? 0)
  const latency = options.latency ?? 0
  const page = Effect.fnUntraced(function*(request: PageRequest): Effect.fn.Return<Page, SourceError> {
    const requestedAt = yield* Clock.currentTimeMillis
    if (!world.hasModel(request.integration, request.model)) {
      return yield* new SourceError({
        reason: new Unsupported({
          code: "INTEGRATION.MODEL_NOT_AVAILABLE",
          message: `${request.integration} has no ${request.model}`
        })
      })
    }
    const serverTime = requestedAt + skew
    world.advance(serverTime)
    const { model } = request
    const paged = model === "assessment.package"
      ? { results: [...world.truth(request.integration, model).values()], next: null }
      : world.page(
        request.integration,
        model,
        {
          updatedAfter: request.updatedAfter,
          includeDeleted: true,
          ids: request.ids ?? [],
          remoteIds: [],
          filters: {}
        },
        options.pageSize ?? 250,
        request.cursor
      )
    if (paged === "bad cursor") {
      return yield* new SourceError({
        reason: new Rejected({ code: "PLATFORM.INPUT_INVALID", message: "the cursor was not issued by this list" })
      })
    }
    yield* Effect.sleep(latency)
    const duration = (yield* Clock.currentTimeMillis) - requestedAt
    return { ...paged, serverTime: Math.floor(serverTime / 1000) * 1000, requestedAt, duration }
  })
  return listsOnly(page)
}

export const layer = (world: World, options?: Options): Layer.Layer<Source> =>
  Layer.succeed(Source, make(world, options))
