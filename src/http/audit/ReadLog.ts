/**
 * Records in the audit log who used the operating API to read records, with totals per hour.
 *
 * Invariants
 * 1. The first read of an hour is in the store before its response is sent. If the store does not save the entry in time, the entry is
 *    logged by the process, and saved later. So a crash loses at most the numbers of requests
 * 2. Only the first read of an hour waits, and never longer than `patience`
 * 3. Entries in memory and in the store are bounded: beyond `maxEntries` an hour, the entries of a route and an actor are combined into
 *    one   (I9)
 * 4. An entry has no id of a record and no text of a request: only integrations of the store and known models are named   (I11)
 *
 * Gotchas
 * - A statement is not interrupted when the wait ends, because the interruption would wait for the statement.
 * - A read that names an unknown integration may also wait for the list of integrations, which is read at most once in `refreshInterval`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { modelNames } from "../../domain/Model.ts"
import { type Actor, CurrentActor } from "../../store/Actor.ts"
import type { ReadSummary } from "../../store/AuditLog.ts"
import { Store } from "../../store/Store.ts"

/** How long the first read of an hour waits for its entry. */
const patience = Duration.seconds(1)
/** How long numbers of requests stay in memory before they are written. */
const writeInterval = Duration.minutes(1)
/** Minimum time between two reads of the integrations because a request names an unknown one. */
const refreshInterval = Duration.toNanosUnsafe("10 seconds")
const hourMillis = 3_600_000
const maxEntries = 500

/** The integration and the model that a request names; each is undefined if the request names none or several. */
export interface Named {
  readonly integration?: string | undefined
  readonly model?: string | undefined
}

interface Entry {
  /** The entry without the number of its requests. */
  readonly read: Omit<ReadSummary, "lastAt" | "requests"> & { lastAt: number }
  /** Requests that are not in the store yet. */
  unwritten: number
  isWritten: boolean
  /** Done when reads no longer wait for this entry. */
  readonly settled: Deferred.Deferred<void>
}

/** True if all requests of an entry are in the store. `isWritten` is false until the first write has succeeded. */
const isInStore = ({ isWritten, unwritten }: Entry): boolean => isWritten && unwritten === 0

/** The start of the hour of a time, in ms. */
export const hourOf = (millis: number): number => millis - millis % hourMillis

const models: ReadonlySet<string | undefined> = new Set<string>(modelNames)

export class ReadLog extends Context.Service<ReadLog, {
  /** Notes a response that shows records, and returns when it may be sent. */
  readonly noteRead: (route: string, named: Named) => Effect.Effect<void>
  /** Notes a request with a token or a session, and returns at once. */
  readonly noteRequest: Effect.Effect<void>
}>()("rollcall/http/ReadLog") {
  static readonly layer: Layer.Layer<ReadLog, never, Store> = Layer.effect(
    ReadLog,
    Effect.gen(function*() {
      const store = yield* Store
      const scope = yield* Effect.scope
      const writing = yield* Semaphore.make(1)
      const entries = new Map<string, Entry>()

      /** Runs the effect, and returns when it has ended, or after `patience`. The effect continues then. */
      const patiently = <E>(effect: Effect.Effect<unknown, E>) =>
        Effect.forkIn(effect, scope).pipe(
          Effect.flatMap((fiber) => Effect.timeoutOption(Fiber.await(fiber), patience)),
          Effect.asVoid
        )

      // ---- writing

      /** Drops the entries of other hours that are completely in the store. */
      const dropWritten = (current: number): void => {
        for (const [key, entry] of entries) {
          if (entry.read.period !== current && isInStore(entry)) entries.delete(key)
        }
      }

      const write = Effect.gen(function*() {
        const current = hourOf(yield* Clock.currentTimeMillis)
        const taken = [...entries.values()].filter(({ unwritten }) => unwritten > 0)
          .map((entry) => ({ entry, row: { ...entry.read, requests: entry.unwritten } }))
        for (const { entry } of taken) entry.unwritten = 0
        const rows = taken.map(({ row }) => row)
        yield* Effect.onExit(rows.length === 0 ? Effect.void : store.recordReads(rows), (exit) =>
          Effect.sync(() => {
            for (const { entry, row } of taken) {
              if (Exit.isSuccess(exit)) entry.isWritten = true
              else entry.unwritten += row.requests
            }
            dropWritten(current)
          }))
      }).pipe(Effect.ignore, writing.withPermit)

      let isScheduled = false

      /** Writes the entries after `writeInterval`, and again until no requests are left. */
      const writeLater: Effect.Effect<void> = Effect.suspend(() => {
        if (isScheduled) return Effect.void
        isScheduled = true
        return Effect.delay(Effect.andThen(Effect.sync(() => isScheduled = false), write), writeInterval).pipe(
          Effect.andThen(
            Effect.suspend(() =>
              [...entries.values()].some(({ unwritten }) => unwritten > 0) ? writeLater : Effect.void
            )
          ),
          Effect.interruptible,
          Effect.forkIn(scope),
          Effect.asVoid
        )
      }).pipe(Effect.uninterruptible)

      /** Writes a new entry, or logs it if that takes too long. */
      const settle = (entry: Entry) =>
        Effect.gen(function*() {
          yield* patiently(write)
          if (!entry.isWritten) {
            const { actor, address, route, target } = entry.read
            yield* writeLater
            yield* Effect.logWarning(
              "reads are not in the audit log yet; the entry is written once the store is available"
            )
              .pipe(Effect.annotateLogs({ route, target, actor, address }))
          }
          yield* Deferred.succeed(entry.settled, undefined)
        })

      // ---- names

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
        const kind = models.has(model) ? model : "*"
        return known === "*" && kind === "*" ? "*" : `${known}/${kind}`
      })

      // ---- noting

      const keyOf = ({ actor, address, route, target }: Pick<ReadSummary, "route" | "target" | "actor" | "address">) =>
        JSON.stringify([route, target, actor, address])

      const note = Effect.fnUntraced(function*(route: string, target: string, { actor, address }: Actor) {
        const now = yield* Clock.currentTimeMillis
        const period = hourOf(now)
        const exact = { route, target, actor, address: address ?? "unknown" }
        const exactKey = `${period} ${keyOf(exact)}`
        if (entries.size >= maxEntries && !entries.has(exactKey)) dropWritten(period)
        const isExact = entries.has(exactKey) || entries.size < maxEntries
        const place = isExact ? exact : { ...exact, target: "*", address: "several" }
        // without the hour: while the store is unavailable, there is one such entry for all hours, so the number of entries is bounded
        const key = isExact ? exactKey : keyOf(place)
        const found = entries.get(key)
        if (found !== undefined && (found.read.period === period || !isInStore(found))) {
          found.read.lastAt = now
          found.unwritten += 1
          yield* writeLater
          return found
        }
        const settled = yield* Deferred.make<void>()
        const entry: Entry = {
          read: { ...place, period, firstAt: now, lastAt: now },
          unwritten: 1,
          isWritten: false,
          settled
        }
        const settling = Effect.forkIn(Effect.interruptible(settle(entry)), scope)
        // an interrupted request must not leave an entry for which other requests wait
        yield* Effect.uninterruptible(Effect.suspend(() => {
          entries.set(key, entry)
          return settling
        }))
        return entry
      })

      // the numbers of the last minute, when the server stops
      yield* Effect.addFinalizer(() => Effect.timeoutOption(write, patience))

      return ReadLog.of({
        noteRead: Effect.fnUntraced(function*(route, named) {
          const entry = yield* note(route, yield* targetOf(named), yield* CurrentActor)
          yield* Deferred.await(entry.settled)
        }),
        noteRequest: Effect.flatMap(CurrentActor, (actor) => Effect.asVoid(note("*", "*", actor)))
      })
    })
  )
}
