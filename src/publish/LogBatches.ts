/**
 * Reads the event log in batches that the sink may publish.
 *
 * Invariants
 * 1. Each read compares the chain at the position from which it reads. So the relay notices while it runs that another copy of the store
 *    replaced this one   (X14, X18)
 * 2. A batch contains nothing that was removed from the log before it was read. A batch that was read ahead contains nothing that was
 *    removed before it was verified   (I11)
 */
import * as Effect from "effect/Effect"
import type { LogEntry } from "../domain/ChangeEvent.ts"
import type { Store, StoreError } from "../store/Store.ts"
import { Diverged, failOn, findMismatch } from "./ResumePoint.ts"
import type { Checkpoint } from "./Sink.ts"

/** The events to publish next, and the checkpoint after them. */
export interface LogBatch {
  readonly events: ReadonlyArray<LogEntry>
  readonly checkpoint: Checkpoint
  /** The log held further events when it was read. */
  readonly more: boolean
  /** The number of removals from the log when it was read: see `LogChains`. */
  readonly removals: number
}

/**
 * The sink publishes a batch as a whole; Kafka in one transaction. `rows`: its maximum number of events. `content`: the approximate maximum
 * of its content (UTF-16 units), which only a batch of one event may exceed.
 */
const batchLimits = { rows: 500, content: 2_000_000 }

/** The first rows, as many as fit into a batch; at least one. */
const fitting = (rows: ReadonlyArray<LogEntry>): ReadonlyArray<LogEntry> => {
  let content = 0
  const end = rows.findIndex(({ after, before, changes }, index) => {
    content += (after?.length ?? 0) + (before?.length ?? 0) + changes.length
    return index > 0 && content > batchLimits.content
  })
  return end < 0 ? rows : rows.slice(0, end)
}

export const make = (store: Store["Service"]) => {
  /** Number of rows of the next read. It is small while events are so large that reads of many rows would be cut. */
  let readRows = batchLimits.rows

  const readBatch = (
    from: Checkpoint,
    removals: number,
    isAgain: boolean
  ): Effect.Effect<LogBatch, StoreError | Diverged> =>
    Effect.gen(function*() {
      const { newest } = yield* store.logRange
      const limit = Math.max(from.position, Math.min(newest, from.position + readRows))
      const rows = limit > from.position ? yield* store.readLog({ after: from.position, limit: readRows }) : []
      const known = rows.filter((row) => row.position <= limit)
      const events = fitting(known)
      const last = events.at(-1) ?? from
      const upTo = events.length < known.length ? last.position : limit
      readRows = events.length < known.length ? events.length : Math.min(batchLimits.rows, readRows * 2)
      const { chains: [before = null, read = null, chain = null], removals: now, ...range } = yield* store.chains([
        from.position,
        last.position,
        upTo
      ])
      yield* failOn(findMismatch(from, { ...range, chain: before }))
      if (chain !== null && read === last.chain) {
        if (now !== removals) return yield* readBatch(from, now, isAgain)
        return { events, checkpoint: { position: upTo, chain }, more: newest > upTo, removals }
      }
      return isAgain
        ? yield* new Diverged({ message: `position ${chain === null ? upTo : last.position} is missing in the log` })
        : yield* readBatch(from, now, true)
    })

  /**
   * Reads the next events after `from` and the checkpoint after them; silent rows are skipped (see `Store.readLog`). The chains are read
   * with a second query. If the chain of the last row differs there, another copy of the store replaced this one in between, and everything
   * is read once more. It is also read again if the number of removals has risen above `removals`, the number from before the rows
   * were read.
   */
  const read = (from: Checkpoint, removals: number) => readBatch(from, removals, false)

  /** Checks a batch that was read before something else was sent: returns it if the log is still the same, else reads it again. */
  const verified = Effect.fnUntraced(function*(from: Checkpoint, batch: LogBatch) {
    const { chains: [chain = null, read = null], removals, ...range } = yield* store.chains([
      from.position,
      batch.checkpoint.position
    ])
    yield* failOn(findMismatch(from, { ...range, chain }))
    return read === batch.checkpoint.chain && removals === batch.removals
      ? batch
      : yield* readBatch(from, removals, false)
  })

  return { read, verified }
}
