/** The errors of the store. The reason says how the caller proceeds, and has a hint for the operator. */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { FaultCause, faultOf } from "./StoreFault.ts"

/**
 * A newer owner took over: stop, do not retry. In a fleet, a shard is handed over before it moves, so this error is not the usual end of an
 * ownership.
 */
export class Fenced extends Schema.TaggedError<Fenced>()("Fenced", { scope: Schema.String, epoch: Schema.Number }) {
  readonly retryable = false
  get hint(): string {
    const [owned] = this.scope.split("/")
    return `another process owns "${owned}" now; this process stops writing. Nothing is lost. A SQLite store allows only one process: to run both, give each its own store. On PostgreSQL, processes of \`rollcall start\` share the work. They take it back from \`rollcall start --once\`: if this is such a run, repeat it while none of them runs. If \`rollcall store adopt\` or an earlier version took everything over, start this process again, as a supervisor does, when that has ended.`
  }
}
/** The database is unavailable (see `StoreFault`), or too many transactions compete for the same rows: nothing was committed, try later. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", {
  operation: Schema.String,
  cause: FaultCause
}) {
  readonly retryable = true
  get hint(): string {
    const fault = faultOf(this.cause)
    return fault === null
      ? "the store could not do this now because other transactions change the same rows; Rollcall tries again."
      : `${fault.message}; ${fault.hint}.`
  }
}
/** An older copy of the database answers instead: nothing was read from it or committed to it, try again later. */
export class OlderCopy extends Schema.TaggedError<OlderCopy>()("OlderCopy", {
  /** How many commits of this process the copy lacks. */
  missing: Schema.Number
}) {
  readonly retryable = true
  get hint(): string {
    const commits = this.missing === 1 ? "a commit" : `${this.missing} commits`
    return `the database that answers lacks ${commits} of this process: an older copy of the store took its place, because a failover lost data or a disk was restored to an earlier state. Rollcall neither reads from this copy nor writes to it. Bring back the database that has all commits, and Rollcall continues by itself; or stop Rollcall, run \`rollcall store adopt\`, and start it again.`
  }
}
/** There is no store at the configured location, and none can be created there. The message contains the remedy. */
export class Misconfigured extends Schema.TaggedError<Misconfigured>()("Misconfigured", { message: Schema.String }) {
  readonly retryable = false
  get hint(): string {
    return this.message
  }
}
/** This program did not write the stored data, or a newer version of this program wrote it. */
export class Incompatible extends Schema.TaggedError<Incompatible>()("Incompatible", { message: Schema.String }) {
  readonly retryable = false
  get hint(): string {
    return `${this.message}; use the version of Rollcall that wrote this store, or another store.`
  }
}
/** The stored data is no longer what this program wrote. Nothing that was read from it may be used. */
export class Damaged extends Schema.TaggedError<Damaged>()("Damaged", { message: Schema.String }) {
  readonly retryable = false
  get hint(): string {
    return `${this.message}; check the disk, restore the store from a backup, and run \`rollcall store adopt\`.`
  }
}
/**
 * This process lacks a key with which content of the store is encrypted. Another process may have it: nothing was changed, and work that
 * is not running waits until this process is started with the key, or until no content needs the key.
 */
export class MissingKey extends Schema.TaggedError<MissingKey>()("MissingKey", { keys: Schema.Array(Schema.String) }) {
  readonly retryable = true
  get hint(): string {
    const keys = this.keys.length === 1 ? `the key ${this.keys[0]}` : `the keys ${this.keys.join(", ")}`
    return `content of this store is encrypted with ${keys}, which this process does not have. The store is intact, and this process changes nothing in it. Add what is missing to the file of ROLLCALL_ENCRYPTION_KEY_FILE, which has all keys in use, and start this process again.`
  }
}
/** The caller decides by the reason how to proceed. */
export class StoreError extends Schema.TaggedError<StoreError>()("StoreError", {
  reason: Schema.Union([Fenced, Unavailable, OlderCopy, Misconfigured, Incompatible, Damaged, MissingKey])
}) {
  override get message(): string {
    return this.reason.hint
  }
}

/** Another process works on the SQLite store, so a service cannot start on it. */
export class StoreInUse extends Schema.TaggedError<StoreInUse>()("StoreInUse", { file: Schema.String }) {
  override get message(): string {
    return `another process of Rollcall works on ${this.file}, so this one does not start`
  }
  get hint(): string {
    return "a SQLite store allows only one process: give each its own store, or end the other one first. With `rollcall start --take-over` this one continues its work, and the other one ends"
  }
}

/** Why the store cannot be used; `since` is our clock, in ms. */
export interface Outage {
  readonly message: string
  readonly hint: string
  readonly since: number
}

export const missingKeys = (keys: ReadonlyArray<string>) => new StoreError({ reason: new MissingKey({ keys }) })
export const misconfigured = (message: string) => new StoreError({ reason: new Misconfigured({ message }) })
export const incompatible = (message: string) => new StoreError({ reason: new Incompatible({ message }) })

/** An operation of the store. */
export type Operation<A> = Effect.Effect<A, StoreError>
