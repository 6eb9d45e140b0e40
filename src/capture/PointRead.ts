/**
 * Asks the API for named records, in a way that tells "it is not there" from "you were not answered".
 *
 * Invariants
 * 1. An answer counts only if the controls, records known to be alive, come back first and last, nothing unasked does and
 *    every row is readable   (D12, D13, D14, D22, I7)
 */
import * as Effect from "effect/Effect"
import { readRow } from "../domain/Observation.ts"
import { type Priority, Source, type SourceError } from "../source/Source.ts"
import { type Pending, type PendingStatus, Store, type StoreError, type StreamTx } from "../store/Store.ts"
import { commitPage, type ReadingError, type Stream } from "./Pages.ts"

/** Ids of one request, controls included. */
const mostIds = 250
/** Records that one point read may ask for beside its controls. */
export const mostAsked = mostIds - 2

/** Ids are joined by commas: with one in it, an id would ask for other records. */
export const canBeAsked = (id: string): boolean => !id.includes(",")

export type Answer =
  /** Rows of the asked records, without the controls, and which of them were not there. */
  | { readonly counts: true; readonly rows: ReadonlyArray<unknown>; readonly absent: ReadonlyArray<string> }
  | { readonly counts: false; readonly why: string; readonly noControl?: false }
  /** Nobody vouches for what is missing; what is there is as it is. */
  | { readonly counts: false; readonly why: string; readonly noControl: true; readonly rows: ReadonlyArray<unknown> }

/** Up to two records to ask beside `ids` that were met live by `reading` or later. */
export const controlsFor = Effect.fnUntraced(function*(stream: Stream, reading: number, ids: ReadonlyArray<string>) {
  const store = yield* Store
  const asked = new Set(ids)
  const found = yield* store.controls(stream.key, reading, ids.length + 2)
  return found.filter((id) => !asked.has(id) && canBeAsked(id)).slice(0, 2)
})

/** After a quiet poll those of the last sweep vouch for an answer: one of them that is gone is found by the next. */
const controlsLately = Effect.fnUntraced(function*(stream: Stream, reading: number, ids: ReadonlyArray<string>) {
  const met = yield* controlsFor(stream, reading, ids)
  if (met.length > 0) return met
  const state = yield* (yield* Store).stream(stream.key)
  return yield* controlsFor(stream, state?.lastSweep?.id ?? 0, ids)
})

/** Of ids that cannot be asked for nothing is said. */
export const pointRead = Effect.fn("PointRead.ask")(function*(
  stream: Stream,
  named: ReadonlyArray<string>,
  controls: ReadonlyArray<string>,
  priority: Priority
): Effect.fn.Return<Answer, SourceError, Source> {
  const source = yield* Source
  const ids = named.filter(canBeAsked)
  if (ids.length === 0) return { counts: false, why: "ids with a comma cannot be asked for" }
  const [last, first] = controls
  const asked = [...(first === undefined ? [] : [first]), ...ids, ...(last === undefined ? [] : [last])]
  const missing = new Set(asked)
  const rows: Array<unknown> = []
  const cursors = new Set<string>()
  let cursor: string | null = null
  do {
    const page: { readonly results: ReadonlyArray<unknown>; readonly next: string | null } = yield* source.page({
      account: stream.settings.account,
      integration: stream.key.integration,
      model: stream.key.model,
      priority,
      cursor,
      updatedAfter: null,
      ids: asked
    })
    for (const value of page.results) {
      const row = readRow(stream.processing, value)
      if (!("id" in row)) return { counts: false, why: "a row of the answer has no id" }
      if (!asked.includes(row.id)) return { counts: false, why: "the answer holds records that were not asked for" }
      missing.delete(row.id)
      if (row.id !== first && row.id !== last) rows.push(value)
    }
    cursor = page.next
    if (cursor !== null && (cursors.has(cursor) || cursors.size > mostIds)) {
      return { counts: false, why: "the answer does not end" }
    }
    if (cursor !== null) cursors.add(cursor)
  } while (cursor !== null)
  if (controls.some((control) => missing.has(control))) {
    return { counts: false, why: "a record known to be alive was not returned either" }
  }
  if (controls.length === 0 && missing.size > 0) {
    const why = "no live record is known that could show whether ids are answered"
    return { counts: false, why, noControl: true, rows }
  }
  return { counts: true, rows, absent: ids.filter((id) => missing.has(id)) }
})

/** Pending rows of one status, as many at a time as one point read may ask for. */
export const eachPending = Effect.fnUntraced(function*<E, R>(
  stream: Stream,
  status: PendingStatus,
  each: (rows: ReadonlyArray<Pending>) => Effect.Effect<void, E, R>
): Effect.fn.Return<void, E | StoreError, R | Store> {
  const store = yield* Store
  let after: string | null = null
  for (;;) {
    const from: string | null = after
    const rows: ReadonlyArray<Pending> = yield* store.transact(
      stream.owner,
      stream.key,
      (tx) => tx.pendingBy(status, from, mostAsked)
    )
    if (rows.length > 0) yield* each(rows)
    if (rows.length < mostAsked) return
    after = rows.at(-1)!.id
  }
})

/**
 * Settles records of which two readings disagreed (P3) by asking for each of them. What the answer leaves open stays
 * pending: the next reading asks again, the next sweep finds what is gone.
 */
export const settleDisputes = Effect.fn("PointRead.settle")(function*(
  stream: Stream,
  reading: number
): Effect.fn.Return<void, ReadingError, Store | Source> {
  yield* eachPending(
    stream,
    "reread",
    Effect.fnUntraced(function*(rows) {
      const ids = rows.map((row) => row.id)
      const answer = yield* pointRead(stream, ids, yield* controlsLately(stream, reading, ids), "confirm")
      if (!answer.counts) {
        yield* Effect.logWarning("point re-read did not count").pipe(
          Effect.annotateLogs({ stream: stream.key.integration, model: stream.key.model, why: answer.why })
        )
        if (answer.noControl !== true) return
      }
      const absent = answer.counts ? answer.absent : []
      yield* commitPage(stream, answer.rows, { id: reading, kind: "poll", backfill: false }, {
        decisive: true,
        conclude: (tx, state) => Effect.as(dropSettled(tx, absent), { state, events: [], holds: [] })
      })
    })
  )
})

/**
 * Not there when asked for, and nobody was told that it is: an old live copy said nothing. One that was never known is given
 * up once a whole sweep did not meet it either; a live one is that sweep's (D2).
 */
const dropSettled = Effect.fnUntraced(function*(tx: StreamTx, absent: ReadonlyArray<string>) {
  const heads = yield* tx.heads(absent)
  const rows = yield* tx.pending(absent)
  const swept = tx.state.lastSweep?.id ?? 0
  const isMissed = (id: string) => (rows.get(id)?.reading ?? swept) < swept
  yield* tx.dropPending(absent.filter((id) => {
    const head = heads.get(id)
    return head === undefined ? isMissed(id) : !head.live
  }))
})
