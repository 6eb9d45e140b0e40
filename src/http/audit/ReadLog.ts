/**
 * Records in the audit log who used the operating API to read records: one entry per hour, route, stream, kind of caller and address.
 *
 * Invariants
 * 1. The entry of a read is in the store before the response is sent. If the store does not take it in time, it is in the log of the
 *    process
 * 2. Only the first read of an hour waits, and never longer than `patience`
 * 3. The entries of an hour are bounded: beyond `maxEntries`, those of a route and an actor are combined into one   (I9)
 * 4. An entry has no id of a record and no text of a request: only integrations of the store and known models are named   (I11)
 *
 * Gotchas
 * - A statement is not interrupted when the wait ends, because the interruption would wait for the statement.
 * - A read that names an unknown integration may also wait for the list of integrations, which is read at most once in `refreshInterval`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { isModel } from "../../domain/Model.ts"
import { type AuditedRead, CurrentActor } from "../../store/Operators.ts"
import { Store } from "../../store/Store.ts"

/** How long the first read of an hour waits for its entry. */
const patience = Duration.seconds(1)
/** Minimum time between two reads of the integrations because a request names an unknown one. */
const refreshInterval = Duration.toNanosUnsafe("10 seconds")
const hourMillis = 3_600_000
const maxEntries = 500

/** The integration and the model that a request names; each is undefined if the request names none or several. */
export interface Named {
  readonly integration?: string | undefined
  readonly model?: string | undefined
}

/** The start of the hour of a time, in ms. */
export const hourOf = (millis: number): number => millis - millis % hourMillis

const make = Effect.gen(function*() {
  const store = yield* Store
  const scope = yield* Effect.scope
  const models = yield* CurrentModels

  const integrations = new Set<string>()
  /** Nanoseconds of the monotonic clock. */
  let nextRefresh = 0n

  /** Returns when the newest read of the integrations has ended. */
  let refreshed: Effect.Effect<unknown> = Effect.void

  const refresh = Effect.map(store.integrations, (all) => {
    for (const { id } of all) integrations.add(id)
  })

  const targetOf = Effect.fnUntraced(function*({ integration, model }: Named) {
    if (integration !== undefined && !integrations.has(integration)) {
      const now = yield* Clock.monotonicTimeNanos
      if (now >= nextRefresh) {
        nextRefresh = now + refreshInterval
        refreshed = Fiber.await(yield* Effect.forkIn(refresh, scope))
      }
      yield* Effect.timeoutOption(refreshed, patience)
    }
    const known = integration !== undefined && integrations.has(integration) ? integration : "*"
    const kind = model !== undefined && isModel(models, model) ? model : "*"
    return known === "*" && kind === "*" ? "*" : `${known}/${kind}`
  })

  let hour = 0
  /** The writes of the entries of this hour. A key includes the hour, because a write may be added after the hour has ended. */
  const entries = new Map<string, Fiber.Fiber<void>>()

  /** Writes an entry; logs it if the store refuses it, or does not take it in time. */
  const write = Effect.fnUntraced(function*(read: AuditedRead) {
    const writing = yield* Effect.forkIn(store.recordRead(read), scope)
    const exit = yield* Effect.timeoutOption(Fiber.await(writing), patience)
    if (Option.exists(exit, Exit.isSuccess)) return
    const { actor, address, route, target } = read
    yield* Effect.annotateLogs(
      Effect.logWarning(
        "the store did not take an entry of the audit log in time: keep this line with the audit log"
      ),
      { route, target, actor, address }
    )
  })

  return {
    /** Notes a response that shows records, and returns when it may be sent. */
    noteRead: Effect.fnUntraced(function*(route: string, named: Named) {
      const target = yield* targetOf(named)
      const { actor, address } = yield* CurrentActor
      const now = yield* Clock.currentTimeMillis
      const period = hourOf(now)
      if (period !== hour) entries.clear()
      hour = period
      const exact = { period, route, target, actor, address: address ?? "unknown" }
      const isExact = entries.size < maxEntries || entries.has(JSON.stringify(exact))
      const place = isExact ? exact : { ...exact, target: "*", address: "several" }
      const key = JSON.stringify(place)
      const writing = entries.get(key) ?? (yield* Effect.forkIn(write({ ...place, firstAt: now }), scope))
      entries.set(key, writing)
      yield* Fiber.await(writing)
    })
  }
})

export class ReadLog extends Context.Service<ReadLog>()("rollcall/http/ReadLog", { make }) {
  static readonly layer: Layer.Layer<ReadLog, never, Store> = Layer.effect(ReadLog, make)
}
