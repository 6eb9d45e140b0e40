/** The changes of one transaction of the capture, noted while it runs, so that the oracle sees them after the commit. */
import * as Effect from "effect/Effect"
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import { type Forgotten, nothingForgotten } from "../../../src/domain/Forgotten.ts"
import type { StreamKey } from "../../../src/domain/Model.ts"
import type { Hold, Pending, RecordWrite } from "../../../src/store/Records.ts"
import type { EndedRun } from "../../../src/store/Run.ts"
import type { Owner, StreamState } from "../../../src/store/State.ts"
import type { StreamTx } from "../../../src/store/Store.ts"

/** An event of a stream or of its derived model, in log order. */
export interface LoggedEvent {
  readonly model: string
  readonly event: NewEvent
}

/** The changes of one transaction. */
export interface CommittedTransaction {
  readonly key: StreamKey
  readonly owner: Owner
  /** Whether the owner was the latest one at the end of the transaction, before its commit. */
  owned: boolean
  readonly before: StreamState
  after: StreamState
  readonly events: Array<NewEvent>
  /** The same events and those of derived records, in log order. */
  readonly log: Array<LoggedEvent>
  /** Null if no longer pending. */
  readonly pending: Map<string, Pending | null>
  quarantined: number
  /** Opened or changed holds. */
  readonly holds: Array<Hold>
  /** Entries of the history of runs. */
  readonly runs: Array<EndedRun>
  /** Records that are no longer stale. */
  readonly refreshed: Array<string>
  /** The forgotten records of the integration, by model, as the transaction sees them at its end. */
  forgotten: Forgotten
}

export const emptyTransaction = (owner: Owner, key: StreamKey, before: StreamState): CommittedTransaction => ({
  key,
  owner,
  owned: true,
  before,
  after: before,
  events: [],
  log: [],
  pending: new Map(),
  quarantined: 0,
  holds: [],
  runs: [],
  refreshed: [],
  forgotten: nothingForgotten
})

/** The transaction, whose writes are noted in `written`. */
export const watchTransaction = (owner: Owner, key: StreamKey, tx: StreamTx) => {
  const written = emptyTransaction(owner, key, tx.state)
  const log = (model: string, records: ReadonlyArray<RecordWrite>) => {
    for (const { events } of records) for (const event of events) written.log.push({ model, event })
  }
  const watched: StreamTx = {
    ...tx,
    saveState: (state) => {
      written.after = state
      return tx.saveState(state)
    },
    putPending: (rows) => {
      for (const row of rows) written.pending.set(row.id, row)
      return tx.putPending(rows)
    },
    dropPending: (ids) => {
      for (const id of ids) written.pending.set(id, null)
      return tx.dropPending(ids)
    },
    openHold: (hold) => Effect.tap(tx.openHold(hold), (opened) => Effect.sync(() => written.holds.push(opened))),
    saveHold: (hold) => {
      written.holds.push(hold)
      return tx.saveHold(hold)
    },
    recordRun: (run) => {
      written.runs.push(run)
      return tx.recordRun(run)
    },
    derived: Effect.map(tx.derived, (derived) => ({
      ...derived,
      write: (records) => {
        log(derived.state.model, records)
        return derived.write(records)
      }
    })),
    markRefreshed: (ids) => {
      written.refreshed.push(...ids)
      return tx.markRefreshed(ids)
    },
    quarantine: (rows) => {
      written.quarantined += rows.length
      return tx.quarantine(rows)
    },
    write: (records, derived = []) => {
      for (const record of records) written.events.push(...record.events)
      log(key.model, records)
      log("ats.candidate", derived)
      return tx.write(records, derived)
    }
  }
  return { tx: watched, written }
}
