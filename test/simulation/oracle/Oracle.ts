/**
 * Watches everything that is committed and everything that reaches the sink, and says what must not have happened.
 * Shares no code with the capture: it knows the world, what was handed out, and the design's invariants I1 to I8 and I10.
 *
 * Gotchas
 * - Whatever it excuses stands in docs/simulation.md, and in the code beside its reason. An allowance that hides a defect is
 *   worse than no oracle.
 */
import type { LogEntry, NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { Pending } from "../../../src/store/State.ts"
import type { Owner } from "../../../src/store/Store.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import type { CommittedTransaction, Process, ProcessObserver } from "../service/Process.ts"
import type { ServedPage, WriteEffect } from "../world/FaultyApi.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { World } from "../world/World.ts"
import { candidateIn, Candidates, model as candidateModel } from "./Candidates.ts"
import { CompletenessClaims } from "./CompletenessClaims.ts"
import { contentOf } from "./Content.ts"
import { Echoes } from "./Echoes.ts"
import { checkEvent } from "./EventRules.ts"
import {
  copyOf,
  nameOf,
  newStream,
  type ObservedStream,
  recordServedRows,
  type ReportViolation,
  type StoredState
} from "./ObservedStream.ts"
import { type LogSnapshot, Publishing } from "./Publishing.ts"
import { Runs } from "./Runs.ts"
import type { PublishedChange } from "./Waves.ts"

export interface Violation {
  readonly invariant: string
  /** Server ms. */
  readonly at: number
  readonly stream: string
  readonly what: string
}

/** What the oracle knew of the store when a copy of it was made. */
export interface OracleSnapshot {
  readonly log: LogSnapshot
  readonly streams: ReadonlyMap<string, StoredState>
  readonly candidates: ReadonlyMap<string, Candidates>
  readonly approved: ReadonlySet<number>
}

/** Between the check of a write and its leaving, ms: what docs/delivery.md says remains. */
const maxSendDelay = 10_000

export class Oracle implements ProcessObserver {
  readonly violations: Array<Violation> = []
  readonly #time: VirtualTime
  readonly #setting: WorldSettings
  readonly #streams: ReadonlyMap<string, ObservedStream>
  /** By integration. */
  #candidates = new Map<string, Candidates>()
  readonly #readings: Runs
  readonly #claims: CompletenessClaims
  readonly #publishing = new Publishing()
  readonly #echoes = new Echoes()
  readonly #epochs = new Map<string, number>()
  /** The latest claim of each scope, and when it was made. */
  readonly #takeovers = new Map<string, { readonly epoch: number; readonly at: number }>()
  #stoppedAt: number | null = null
  /** Holds that a person let pass. */
  #approved = new Set<number>()
  /** Of a store in which there is nothing yet. */
  readonly #blank: OracleSnapshot

  constructor(world: World, time: VirtualTime, setting: WorldSettings) {
    this.#time = time
    this.#setting = setting
    this.#readings = new Runs(setting)
    this.#claims = new CompletenessClaims(setting)
    this.#streams = new Map(world.tables.map((table) => [nameOf(table), newStream(table)]))
    this.#blank = this.#memory()
  }

  pageServed(process: Process, delivery: ServedPage): void {
    this.#readings.pageServed(process, delivery, this.#time.now)
    this.#claims.pageServed(process, delivery, this.#time.now)
    recordServedRows(this.#streams.get(nameOf(delivery.table))!, delivery.copies, this.#time.now)
  }

  ownerClaimed(owner: Owner): void {
    this.#epochs.set(owner.scope, owner.epoch)
    this.#takeovers.set(owner.scope, { epoch: owner.epoch, at: this.#time.now })
  }

  /** A write of a plugin took effect. */
  writeTookEffect(effect: WriteEffect): void {
    for (const what of this.#echoes.writeTookEffect(effect)) {
      this.#reportOf(`${effect.integration}/ats.application`)("L5", what)
    }
  }

  writeAllowed({ epoch, scope }: Owner): void {
    if (this.#epochs.get(scope) !== epoch) {
      this.#reportOf(scope)("X16", `a write leaves for a fenced owner (epoch ${epoch})`)
    }
  }

  /** All writes are stopped, or resumed. */
  writesSwitched(on: boolean): void {
    this.#stoppedAt = on ? null : this.#time.now
  }

  /** A write leaves: what it was checked for held a moment ago (X16). */
  writeSent({ epoch, scope }: Owner): void {
    const report = this.#reportOf(scope)
    const latest = this.#takeovers.get(scope)
    const isPast = (at: number) => this.#time.now - at > maxSendDelay
    if (latest !== undefined && latest.epoch !== epoch && isPast(latest.at)) {
      report("X16", `a write leaves for epoch ${epoch}, which was taken over ${this.#time.now - latest.at} ms ago`)
    }
    if (this.#stoppedAt !== null && isPast(this.#stoppedAt)) {
      report("X16", `a write leaves ${this.#time.now - this.#stoppedAt} ms after all writes were stopped`)
    }
  }

  /** Somebody lets a hold pass. */
  approve(hold: number): void {
    this.#approved.add(hold)
  }

  committed(process: Process, written: CommittedTransaction): void {
    const stream = this.#streams.get(`${written.key.integration}/${written.key.model}`)
    if (stream === undefined) return
    const report = this.#reportOf(nameOf(stream.table))
    if (this.#epochs.get(written.owner.scope) !== written.owner.epoch) {
      report("I10", `a fenced owner committed (epoch ${written.owner.epoch})`)
    }
    for (const hold of written.holds) stream.holds.set(hold.id, hold)
    const released = written.holds.filter(({ state }) => state === "approving" || state === "approved")
    if (released.length > 0) this.#released(stream, written.events, released.map(({ id }) => id), report)
    else if (!isConcluded(written)) checkUnfinishedRun(written.events, report)

    this.#readings.noteBackfill(process, stream, written.before, written.after, this.#time.now)
    const told = this.#log(stream, written, report)
    if (stream.table.model === "ats.application") this.#echoed(stream, written, told, report)
    stream.quarantined += written.quarantined
    for (const [id, row] of written.pending) {
      if (row === null) stream.pending.delete(id)
      else {
        stream.pending.set(id, row)
        checkAbsence(stream, row, report)
      }
    }
    for (const { kind } of released) stream.waves.approved(kind)
    if (released.length === 0 && isConcluded(written)) checkWaves(stream, told, report)
    if (written.refreshed.length > 0) this.#readings.checkRefresh(process, stream, written.refreshed, report)
    for (const { id, state } of written.holds) {
      if (state === "approved" || state === "cancelled") stream.holds.delete(id)
    }
    this.#readings.committed(process, stream, written.before, written.after, report)
    this.#claims.committed(process, stream, written.before, written.after, report)
  }

  /** null: some stream has not polled yet, a copy would be of next to nothing. */
  snapshot(): OracleSnapshot | null {
    return [...this.#streams.values()].some(({ polls }) => polls.length === 0) ? null : this.#memory()
  }

  #memory(): OracleSnapshot {
    return {
      log: this.#publishing.snapshot(),
      streams: new Map([...this.#streams].map(([name, stream]) => [name, copyOf(stream)])),
      candidates: new Map([...this.#candidates].map(([integration, own]) => [integration, own.copy()])),
      approved: new Set(this.#approved)
    }
  }

  /** The store is an empty one. */
  lost(taken: number, foreign: boolean): void {
    this.restore(this.#blank, taken, foreign)
  }

  /** The store is the one remembered; the sink had taken so many events by then, of another store if it is `foreign`. */
  restore(memory: OracleSnapshot, taken: number, foreign: boolean): void {
    this.#publishing.restore(memory.log, taken, foreign)
    for (const [name, stored] of memory.streams) Object.assign(this.#streams.get(name)!, copyOf(stored))
    this.#candidates = new Map([...memory.candidates].map(([integration, own]) => [integration, own.copy()]))
    this.#approved = new Set(memory.approved)
    this.#readings.forget()
    this.#claims.forget()
    this.#epochs.clear()
  }

  /** An operator adopted the store: exactly what lived is told anew, as it was (X11). */
  adopted(log: ReadonlyArray<LogEntry>, newest: number, sink: ReadonlyArray<LogEntry>): void {
    const report = this.#reportOf("log")
    this.#publishing.adopted(log, newest, sink, report)
    const anew = new Map(log.map((entry) => [`${entry.integration}/${entry.model}/${entry.id}`, entry]))
    if (anew.size !== log.length) report("X11", "a record was adopted twice")
    const isAnew = (key: string, text: string | null) => {
      const entry = anew.get(key)
      anew.delete(key)
      if (
        text === null
          ? entry === undefined
          : entry?.after === text && entry.version === 1 && entry.origin === "backfill"
      ) return
      report("X11", `${key} is not adopted as it was published`)
    }
    for (const [name, { records }] of this.#streams) {
      for (const [id, known] of records) {
        isAnew(`${name}/${id}`, known.afterText)
        records.set(id, { ...known, version: known.after === null ? 0 : 1 })
      }
    }
    for (const [integration, own] of this.#candidates) {
      for (const [id, { afterText }] of own.published) isAnew(`${integration}/${candidateModel}/${id}`, afterText)
      own.adopted()
    }
    for (const key of anew.keys()) report("X11", `${key} was adopted and never published`)
    this.#readings.forget()
    this.#claims.forget()
    this.#epochs.clear()
  }

  /** After peace: the log as it is stored, the sink, and the world. */
  conclude(
    log: ReadonlyArray<LogEntry>,
    sink: { readonly entries: ReadonlyArray<LogEntry>; readonly latest: ReadonlyMap<string, LogEntry> },
    pending: ReadonlySet<string>
  ): void {
    this.#publishing.conclude(log, sink.entries, sink.latest, (at) => this.#reportOf(at))
    for (const [name, stream] of this.#streams) {
      const report = this.#reportOf(name)
      this.#readings.checkPollWindows(stream, report)
      checkFold(stream, pending, report)
      const derives = this.#setting.candidates && stream.table.model === "ats.application"
      if (derives) this.#candidatesOf(stream).conclude(stream, report)
    }
  }

  #candidatesOf({ table: { integration } }: ObservedStream): Candidates {
    const known = this.#candidates.get(integration) ?? new Candidates()
    this.#candidates.set(integration, known)
    return known
  }

  /** Takes what was committed for what is told by now. */
  #log(stream: ObservedStream, { log }: CommittedTransaction, report: ReportViolation): ReadonlyArray<PublishedChange> {
    const told: Array<PublishedChange> = []
    const erased = new Set<string>()
    for (const { event, model } of log) {
      this.#publishing.appended(event, report)
      if (model === candidateModel) {
        this.#candidatesOf(stream).checkEvent(stream, event, erased, report)
        continue
      }
      const known = stream.records.get(event.id)
      const before = known?.after ?? null
      const candidate = event.reason === "erased" ? candidateIn(before) : null
      if (candidate !== null) erased.add(candidate.id)
      if (model === "ats.application") this.#candidatesOf(stream).applicationPublished(event)
      checkEvent(stream, event, this.#time.now, report)
      told.push({ event, before, isBack: (stream.records.get(event.id)?.state ?? -1) < (known?.state ?? -1) })
    }
    return told
  }

  /** L1, L3, E1, E2, L9. */
  #echoed(
    { table: { integration } }: ObservedStream,
    { after, before }: CommittedTransaction,
    told: ReadonlyArray<PublishedChange>,
    report: ReportViolation
  ): void {
    for (const { event, isBack } of told) {
      for (const what of this.#echoes.checkCause(integration, event, isBack)) {
        report("L1", `${event.kind} ${event.version} of ${event.id} ${what}`)
      }
    }
    if (after.lastSweep?.id !== before.lastSweep?.id) this.#echoes.swept(integration)
  }

  /** What a person let pass, and nothing else, is released with it (D17). */
  #released(
    stream: ObservedStream,
    events: ReadonlyArray<NewEvent>,
    holds: ReadonlyArray<number>,
    report: ReportViolation
  ): void {
    for (const hold of holds) if (!this.#approved.has(hold)) report("D17", `nobody approved hold ${hold}`)
    for (const { id, kind } of events) {
      const hold = stream.pending.get(id)?.hold ?? null
      if (hold === null || !holds.includes(hold)) {
        report("D17", `${kind} of ${id} passed with a hold that it was not part of`)
      }
    }
  }

  #reportOf(stream: string): ReportViolation {
    return (invariant, what) => void this.violations.push({ invariant, at: this.#time.now, stream, what })
  }
}

const isConcluded = ({ after, before }: CommittedTransaction): boolean =>
  after.lastPoll?.id !== before.lastPoll?.id || after.lastSweep?.id !== before.lastSweep?.id

/** Deletes and restores wait for the end of their reading, where they can be judged together (D4, D19, I7). */
const checkUnfinishedRun = (events: ReadonlyArray<NewEvent>, report: ReportViolation): void => {
  for (const { id, kind, reason, restored } of events) {
    // Both at once are one fact about one record that nobody had ever heard of (D8).
    if (reason === "unseen") continue
    if (kind === "deleted" || restored) report("I7", `${kind} of ${id} before its reading was complete`)
  }
}

/** Waves wait for a person (C2, C3, D6). */
const checkWaves = (stream: ObservedStream, told: ReadonlyArray<PublishedChange>, report: ReportViolation): void => {
  const live = [...stream.records.values()].filter(({ after }) => after !== null).length
  const absent = [...stream.pending.values()].filter(({ confirms, status }) => status === "absent" && confirms > 0)
  for (const what of stream.waves.findUnheld(told, live, absent.length)) report("D6", what)
}

/** An absence is an inference too, before it is published: never of a record that was there all the time (I7). */
const checkAbsence = (stream: ObservedStream, pending: Pending, report: ReportViolation): void => {
  if (pending.status !== "absent" || pending.confirms === 0) return
  const row = stream.table.byId.get(pending.id)
  const seen = stream.newestLiveState.get(pending.id)
  if (row === undefined || seen === undefined) return
  if (row.history.slice(seen.state).every(({ live }) => live)) {
    report("I7", `${pending.id} counts as absent and was there all the time`)
  }
}

/** I8. */
const checkFold = (stream: ObservedStream, pendingInStore: ReadonlySet<string>, report: ReportViolation): void => {
  // A list that ran empty has nobody left to vouch for an answer: what was to be confirmed or asked again stays visible.
  const isUnanswerable = stream.table.rows.every((row) => !row.history.at(-1)!.live)
  for (const row of stream.table.byId.values()) {
    const truth = row.history.at(-1)!
    const published = stream.records.get(row.id)
    const pending = stream.pending.get(row.id)
    if ((pending !== undefined) !== pendingInStore.has(`${nameOf(stream.table)}/${row.id}`)) {
      report("I2", `the pending row of ${row.id} is not what was committed`)
    }
    const is = truth.live ? contentOf(truth.record) : null
    const says = published?.after == null ? null : contentOf(published.after)
    if (isUnanswerable && is === null && (pending?.status === "absent" || pending?.status === "disputed")) continue
    if (is === says) {
      if (pending !== undefined) report("I1", `${row.id} is as published and ${pending.status}`)
      continue
    }
    // Met for the first time with nothing left in it, a record is what it shows.
    if (published?.createdEmpty === true && says === contentOf(truth.record)) continue
    report("I8", `${row.id} is ${is ?? "gone"}, told as ${says ?? "gone"}, ${pending?.status ?? "not pending"}`)
  }
  if (stream.quarantined > stream.rowsWithoutId) report("I1", "readable rows were set aside")
}
