/**
 * Deletes old rows of the event log, of the quarantine and of the audited reads. A row of the log stays until all of Rollcall's readers
 * have read it.
 *
 * Gotchas
 * - The readers of other processes count too: each process notes its readers every ten minutes. A reader counts until no process has noted
 *   it for the retention.
 * - A record's latest row is its current content and stays, however old it is.
 * - The last row that a reader has read stays too: with it the relay proves that the sink holds this log   (X14)
 * - The place of an event in the sink is deleted once it is older than the retention, even if the event's row stays.
 * - The age of a quarantined row counts from the last time that a run read it, so a row that runs still read stays.
 * - Rows whose record was erased are kept for one day, or for the retention if that is shorter. That day is for HTTP
 *   readers, whose positions Rollcall does not know   (D11)
 * - Deleted content is also removed from the bytes of the store's files, at the latest an hour later. That includes what other modules
 *   deleted   (I11)
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { Placement } from "../fleet/Placement.ts"
import { failOnDefect } from "../store/Recovery.ts"
import { Store } from "../store/Store.ts"

export interface RetentionOptions {
  readonly retention: Duration.Duration
  /** Readers of the log in this process: no row is deleted before all of them have read it, and those of other processes. */
  readonly readers: ReadonlyArray<string>
}

const pruneInterval = Duration.hours(1)
/** Time between two notes of the readers of a process. */
const noteInterval = Duration.minutes(10)
/** A reader that a process noted within this time is needed: that process runs, or was restarted. */
const neededLately = Duration.hours(1)
/** Time until the next try after a failure. It is short, so that the gauge is correct soon after the cause is gone. */
const retryInterval = Duration.minutes(5)
const erasedRetention = Duration.days(1)
/** An investigation may start long after the content of the log is gone, so this does not depend on the retention of the log. */
const auditedReadsRetention = Duration.days(90)

const prune = Effect.fn("Retention.prune")(function*({ readers, retention }: RetentionOptions) {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const { newest } = yield* store.logRange
  yield* store.noteReaders(readers)
  const positions = yield* store.neededPositions(Duration.toMillis(Duration.max(retention, neededLately)))
  // `before`: our clock, in ms; `upTo`: a position of the log
  const deleted = yield* store.prune({
    before: now - Duration.toMillis(retention),
    upTo: Math.min(newest, ...positions.map((position) => position - 1))
  })
  const quarantined = yield* store.pruneQuarantine(now - Duration.toMillis(retention))
  yield* store.prunePlaces(now - Duration.toMillis(retention))
  yield* store.pruneReads(now - Duration.toMillis(auditedReadsRetention))
  const erased = yield* store.purgeErased({
    before: now - Duration.toMillis(Duration.min(retention, erasedRetention)),
    upTo: Math.min(newest, ...positions)
  })
  // The space is always reclaimed, because other modules delete content too, and the last call may have failed while another process read
  // the store.
  yield* store.reclaim
  if (deleted > 0 || erased > 0) yield* Effect.logInfo("log pruned").pipe(Effect.annotateLogs({ deleted, erased }))
  if (quarantined > 0) {
    yield* Effect.logInfo("quarantine pruned").pipe(Effect.annotateLogs({ deleted: quarantined }))
  }
})

const failing = Metric.gauge("rollcall_retention_failing", {
  description:
    "1 while old rows cannot be deleted, else 0. The process that deletes them exports it; a process that did so earlier exports 0"
})

/** Prunes when it is placed in this process, and every hour, in the background. */
export const placedLayer = (options: RetentionOptions): Layer.Layer<never, never, Store | Placement> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const store = yield* Store
    const placement = yield* Placement
    /** The failure that was logged last, if it still lasts. */
    let logged: string | null = null
    const pruneAndLog = prune(options).pipe(
      Effect.provideService(Store, store),
      Effect.tap(() => Metric.update(failing, 0)),
      Effect.map(() => {
        logged = null
        return pruneInterval
      }),
      failOnDefect,
      Effect.catch(Effect.fnUntraced(function*(error) {
        const { message } = error
        yield* Metric.update(failing, 1)
        // the store logs its outages
        if (error._tag === "StoreError" && error.reason.retryable) return retryInterval
        if (logged !== message) yield* Effect.logWarning("log not pruned").pipe(Effect.annotateLogs({ why: message }))
        logged = message
        return retryInterval
      }))
    )
    yield* Effect.forkScoped(
      Effect.forever(Effect.andThen(Effect.ignore(store.noteReaders(options.readers)), Effect.sleep(noteInterval)))
    )
    yield* placement.singleton(
      "retention",
      // another process may delete the rows from now on
      Effect.onInterrupt(Effect.forever(Effect.flatMap(pruneAndLog, Effect.sleep)), () => Metric.update(failing, 0))
    )
  }))

/** For a process that shares its store with no other. */
export const layer = (options: RetentionOptions): Layer.Layer<never, never, Store> =>
  Layer.provide(placedLayer(options), Placement.local)
