/**
 * Observes everything that is committed and everything that reaches the sink, and reports violations of the invariants.
 * It shares no code with the capture: it knows the world, the rows in each response, and the invariants I1 to I8, I10 and I11.
 *
 * Gotchas
 * - Every exception is listed in docs/simulation.md, and explained in the code. An exception that hides a defect is
 *   worse than no oracle.
 */
import type { LogEntry, NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { ForgettableRecord } from "../../../src/domain/Forgotten.ts"
import type { StreamKey } from "../../../src/domain/Model.ts"
import { deliveryScopeOf, shardOf } from "../../../src/domain/Shard.ts"
import type { AttemptOutcome, ClaimResult } from "../../../src/store/DeliveryClaims.ts"
import type { ForgottenRecord } from "../../../src/store/Operators.ts"
import type { Pending } from "../../../src/store/Records.ts"
import type { EndedRun } from "../../../src/store/Run.ts"
import type { Owner } from "../../../src/store/State.ts"
import type { Store } from "../../../src/store/Store.ts"
import type { FaultKind, WorldSettings } from "../plan/Plan.ts"
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import type { ForgettingState, ProcessObserver, RunningProcess } from "../service/ProcessObserver.ts"
import { leaseMillis } from "../service/SharedRequests.ts"
import type { ServedPage, WriteEffect } from "../world/FaultyApi.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { JsonObject, Table, World } from "../world/World.ts"
import { candidateIn, Candidates, model as candidateModel } from "./Candidates.ts"
import { CompletenessClaims } from "./CompletenessClaims.ts"
import { contentOf } from "./Content.ts"
import { Echoes } from "./Echoes.ts"
import { checkEvent, checkSequence } from "./EventRules.ts"
import { FleetRules, type KeyIds } from "./FleetRules.ts"
import { Forgettings, isIn, withoutForgotten } from "./Forgettings.ts"
import {
  copyOf,
  nameOf,
  newStream,
  type ObservedStream,
  type PublishedRecord,
  recordServedRows,
  type ReportViolation,
  type StoredState,
  unpublished
} from "./ObservedStream.ts"
import { checkPlaces, type Placed } from "./Places.ts"
import { type Concerns, type LogSnapshot, Publishing, type Taken } from "./Publishing.ts"
import { RefusedWrites } from "./RefusedWrites.ts"
import { Runs } from "./Runs.ts"
import type { PublishedChange } from "./Waves.ts"

export interface Violation {
  readonly invariant: string
  /** Server time (ms). */
  readonly at: number
  readonly stream: string
  readonly what: string
}

/** The oracle's view of the store when a copy of the store was made. */
export interface OracleSnapshot {
  readonly log: LogSnapshot
  readonly streams: ReadonlyMap<string, StoredState>
  readonly candidates: ReadonlyMap<string, Candidates>
  readonly approved: ReadonlySet<number>
  readonly forgettings: Forgettings
}

/** Time between the check of a write and its sending, in ms: the remaining window that docs/delivery.md describes. */
const maxSendDelay = 10_000

export class Oracle implements ProcessObserver {
  readonly violations: Array<Violation> = []
  readonly #time: VirtualTime
  readonly #setting: WorldSettings
  readonly #streams: ReadonlyMap<string, ObservedStream>
  /** By integration. */
  #candidates = new Map<string, Candidates>()
  readonly #forgettings = new Forgettings()
  readonly #runs: Runs
  readonly #claims: CompletenessClaims
  readonly #publishing = new Publishing()
  readonly #echoes = new Echoes()
  readonly #fleet: FleetRules
  readonly #refusedWrites: RefusedWrites
  readonly #epochs = new Map<string, number>()
  /** The latest takeover of each scope, with its time. */
  readonly #takeovers = new Map<string, { readonly epoch: number; readonly at: number }>()
  #stoppedAt: number | null = null
  /** Holds that an operator approved. */
  #approved = new Set<number>()
  /** The view of an empty store. */
  readonly #emptyStore: OracleSnapshot
  /** The places where the store still has content of a forgotten record, in words. */
  readonly #remainsOf: (record: ForgettableRecord) => ReadonlyArray<string>

  constructor(
    world: World,
    time: VirtualTime,
    setting: WorldSettings,
    remainsOf: (record: ForgettableRecord) => ReadonlyArray<string>,
    hasIntent: (delivery: number, claim: number) => boolean
  ) {
    this.#remainsOf = remainsOf
    this.#time = time
    this.#setting = setting
    this.#runs = new Runs(setting, time.now)
    this.#claims = new CompletenessClaims(setting)
    this.#fleet = new FleetRules(setting.requestSlots, leaseMillis(setting))
    this.#refusedWrites = new RefusedWrites(setting.refusedWrites?.code ?? null, hasIntent)
    this.#streams = new Map(world.tables.map((table) => [nameOf(table), newStream(table, this.#forgettings)]))
    this.#emptyStore = this.#takeSnapshot()
  }

  pageServed(process: RunningProcess, delivery: ServedPage): void {
    this.#runs.pageServed(process, delivery, this.#time.now)
    this.#claims.pageServed(process, delivery, this.#time.now)
    recordServedRows(this.#streams.get(nameOf(delivery.table))!, delivery.copies, this.#time.now)
  }

  requestFailed(table: Table, kinds: ReadonlyArray<FaultKind>): void {
    for (const kind of kinds) this.#streams.get(nameOf(table))?.faults.add(kind)
  }

  ownerClaimed(owner: Owner): void {
    this.#epochs.set(owner.scope, owner.epoch)
    this.#takeovers.set(owner.scope, { epoch: owner.epoch, at: this.#time.now })
  }

  isLatestOwner({ epoch, scope }: Owner): boolean {
    return this.#epochs.get(scope) === epoch
  }

  /** Called when a plugin's write takes effect. */
  writeTookEffect(effect: WriteEffect): void {
    for (const what of this.#echoes.writeTookEffect(effect)) {
      this.#reportOf(`${effect.integration}/ats.application`)("L5", what)
    }
  }

  writeAllowed({ epoch, scope }: Owner): void {
    if (!this.isLatestOwner({ epoch, scope })) {
      this.#reportOf(scope)("X16", `a write was allowed for a fenced owner (epoch ${epoch})`)
    }
  }

  /** Called when all writes are stopped or resumed. */
  writesSwitched(on: boolean): void {
    this.#stoppedAt = on ? null : this.#time.now
  }

  /** Called when a write is sent: the conditions of its check must have held a moment ago (X16). */
  writeSent({ epoch, scope }: Owner): void {
    const report = this.#reportOf(scope)
    const latest = this.#takeovers.get(scope)
    const isPast = (at: number) => this.#time.now - at > maxSendDelay
    if (latest !== undefined && latest.epoch !== epoch && isPast(latest.at)) {
      report("X16", `a write was sent for epoch ${epoch}, which was taken over ${this.#time.now - latest.at} ms ago`)
    }
    if (this.#stoppedAt !== null && isPast(this.#stoppedAt)) {
      report("X16", `a write was sent ${this.#time.now - this.#stoppedAt} ms after all writes were stopped`)
    }
  }

  /** Called when a request reaches the API; `inFlight`: with it. */
  requestSent(inFlight: number): void {
    this.#fleet.requestSent(inFlight, this.#time.now, this.#reportOf("account"))
  }

  sinkOpened(store: Store["Service"], owner: Owner): void {
    this.#fleet.sinkOpened(store, owner)
  }

  published(store: Store["Service"], owner: Owner): void {
    this.#fleet.published(store, owner, this.#reportOf("sink"))
  }

  handlersRegistered(): void {
    this.#fleet.trialsPermitted(this.#time.now)
  }

  settledAndClaimed(
    owners: ReadonlyArray<Owner>,
    outcomes: ReadonlyArray<AttemptOutcome>,
    result: ClaimResult
  ): void {
    const fenced = new Set(owners.flatMap((owner) => this.isLatestOwner(owner) ? [] : [owner.scope]))
    const stolen = result.claimed.find(({ integration }) => fenced.has(deliveryScopeOf(shardOf(integration))))
    if (stolen !== undefined) {
      this.#reportOf(`${stolen.integration}/deliveries`)("I10", "a fenced owner claimed deliveries")
    }
    this.#fleet.settledAndClaimed(outcomes, result, this.#time.now, this.#reportOf("deliveries"))
    this.#refusedWrites.settledAndClaimed(outcomes, result, this.#reportOf("deliveries"))
  }

  keysSeen(ids: KeyIds): void {
    this.#fleet.keysSeen(ids, this.#reportOf("keys"))
  }

  keysRetired(retired: ReadonlyArray<string>, others: ReadonlyArray<string | null>): void {
    this.#fleet.keysRetired(retired, others, this.#reportOf("keys"))
  }

  keysLacked(process: number, works: boolean): void {
    this.#fleet.keysLacked(process, works, this.#reportOf("keys"))
  }

  /** Called when another store, or a copy, answers the processes. */
  storeReplaced(): void {
    this.#fleet.storeReplaced(this.#time.now)
  }

  /** Called when an operator approves a hold. */
  approve(hold: number): void {
    this.#approved.add(hold)
  }

  forgettingChanged(record: ForgettableRecord, state: ForgettingState): void {
    this.#forgettings.changed(record, state)
    if (state !== "erasing") this.#checkForgotten(record)
    if (state === "allowed" && record.model === "ats.application") {
      this.#candidates.get(record.integration)?.applicationAllowed(record.id)
    }
  }

  get isForgetting(): boolean {
    return this.#forgettings.in("erasing").length > 0
  }

  checkForgettingEnded(when: string): void {
    for (const { id, integration, model } of this.#forgettings.in("erasing")) {
      this.#reportOf(`${integration}/${model}`)("I11", `${id} is still being forgotten, ${when}`)
    }
  }

  /** `miscounted`: the streams whose stored number of live records is wrong. */
  checkCounts(miscounted: ReadonlyArray<string>): void {
    for (const what of miscounted) this.#reportOf("store")("I2", what)
  }

  /** `attempts`: ran without an end for longer than any attempt may take. */
  checkStuck(attempts: ReadonlySet<string>): void {
    for (const attempt of attempts) {
      this.#reportOf("log")("X10", `${attempt} is running in the store, but in no process`)
    }
  }

  /** `deliveries`: wait because of refused writes, although the API has accepted all writes for a while. */
  checkBlocked(deliveries: ReadonlyArray<number>): void {
    for (const id of deliveries) {
      this.#reportOf("deliveries")("C4", `delivery ${id} still waits, although the API accepts all writes`)
    }
  }

  /** Whether no run may store the record, because it is being forgotten, or was. */
  hides(record: { readonly integration: string; readonly model: string; readonly id: string }): boolean {
    return this.#forgettings.hides(record)
  }

  /** Records that may be allowed again. */
  get forgotten(): ReadonlyArray<ForgettableRecord> {
    return this.#forgettings.in("forgotten")
  }

  /** Nothing is left of the record, and it is published as deleted. */
  #checkForgotten(record: ForgettableRecord): void {
    const { id, integration, model } = record
    const report = this.#reportOf(`${integration}/${model}`)
    const published = model === candidateModel
      ? this.#candidates.get(integration)?.published.get(id)
      : this.#streams.get(`${integration}/${model}`)?.records.get(id)
    if ((published?.after ?? null) !== null) report("I11", `${id} is forgotten, but published as live`)
    for (const what of this.#remainsOf(record)) report("I11", `${id} is forgotten, but ${what}`)
  }

  committed(process: RunningProcess, written: CommittedTransaction): void {
    const { integration, model } = written.key
    const stream = this.#streams.get(`${integration}/${model === candidateModel ? "ats.application" : model}`)
    if (stream === undefined) return
    const report = this.#reportOf(nameOf(stream.table))
    if (!written.owned) {
      report("I10", `a fenced owner committed (epoch ${written.owner.epoch})`)
    }
    checkBlocked(stream, written.after, report)
    this.#checkHidden(stream, written, report)
    if (written.log.some(({ event }) => event.reason === "forgotten")) return this.#removed(stream, written, report)
    if (model === candidateModel) return
    for (const hold of written.holds) stream.holds.set(hold.id, hold)
    const released = written.holds.filter(({ state }) => state === "approving" || state === "approved")
    if (released.length > 0) this.#checkReleased(stream, written.events, released.map(({ id }) => id), report)
    else if (!isConcluded(written)) checkUnfinishedRun(written.events, report)

    this.#runs.noteBackfill(process, stream, written.before, written.after, this.#time.now)
    const changes = this.#checkLog(stream, written, report)
    if (stream.table.model === "ats.application") this.#checkCauses(stream, written, changes, report)
    stream.quarantined += written.quarantined
    for (const [id, row] of written.pending) {
      if (row === null) stream.pending.delete(id)
      else {
        checkAbsence(stream, row, report)
        stream.pending.set(id, row)
      }
    }
    for (const { kind } of released) stream.waves.approved(kind)
    if (released.length === 0 && isConcluded(written)) checkWaves(stream, changes, report)
    if (written.refreshed.length > 0) this.#runs.checkRefresh(process, stream, written.refreshed, report)
    for (const { id, state } of written.holds) {
      if (state === "approved" || state === "canceled") stream.holds.delete(id)
    }
    this.#runs.committed(process, stream, written, this.#time.now, report)
    this.#claims.committed(process, stream, written.before, written.after, report)
  }

  /** null: some stream has not polled yet, so a copy would contain almost nothing. */
  snapshot(): OracleSnapshot | null {
    return [...this.#streams.values()].some(({ polls }) => polls.length === 0) ? null : this.#takeSnapshot()
  }

  #takeSnapshot(): OracleSnapshot {
    return {
      log: this.#publishing.snapshot(),
      streams: new Map([...this.#streams].map(([name, stream]) => [name, copyOf(stream)])),
      candidates: new Map([...this.#candidates].map(([integration, own]) => [integration, own.copy()])),
      approved: new Set(this.#approved),
      forgettings: this.#forgettings.copy()
    }
  }

  /** Called when the store is replaced by an empty one. `taken`: the state of the sink. */
  lost(taken: Taken, foreign: boolean): void {
    this.restore(this.#emptyStore, taken, foreign)
  }

  /** Called when the store is replaced by the copy of `snapshot`. `taken`: the state of the sink; `foreign`: of another store. */
  restore(snapshot: OracleSnapshot, taken: Taken, foreign: boolean): void {
    this.#publishing.restore(snapshot.log, taken, foreign)
    for (const [name, stored] of snapshot.streams) Object.assign(this.#streams.get(name)!, copyOf(stored))
    this.#candidates = new Map([...snapshot.candidates].map(([integration, own]) => [integration, own.copy()]))
    this.#approved = new Set(snapshot.approved)
    this.#forgettings.restore(snapshot.forgettings)
    this.storeReplaced()
    this.#runs.forget()
    this.#claims.forget()
    this.#epochs.clear()
  }

  /** Called when an operator adopted the store: exactly the live records are published again, with the same content (X11). */
  adopted(log: ReadonlyArray<LogEntry>, newest: number, sink: ReadonlyArray<LogEntry>): void {
    const report = this.#reportOf("log")
    this.#publishing.adopted(log, newest, sink, report)
    const unmatched = new Map(log.map((entry) => [`${entry.integration}/${entry.model}/${entry.id}`, entry]))
    if (unmatched.size !== log.length) report("X11", "an adoption published a record twice")
    const checkAdopted = (key: string, expected: JsonObject | null, text: string | null) => {
      const entry = unmatched.get(key)
      unmatched.delete(key)
      if (
        expected === null
          ? entry === undefined
          : entry?.version === 1 && entry.origin === "backfill" && (entry.after === text ||
            (entry.after !== null && contentOf(JSON.parse(entry.after)) === contentOf(expected)))
      ) return
      report("X11", `${key} has other content or another version after the adoption than before`)
    }
    for (const [name, { records, table: { integration, model } }] of this.#streams) {
      for (const [id, known] of records) {
        // the removal of a forgotten record may be incomplete
        const isHidden = known.after === null || this.#forgettings.hides({ integration, model, id })
        const after = isHidden ? null : this.#forgettings.shown(integration, known.after!)
        const afterText = after === known.after ? known.afterText : JSON.stringify(after)
        checkAdopted(`${name}/${id}`, after, after === known.after ? known.afterText : null)
        records.set(id, { ...known, after, afterText, version: after === null ? 0 : 1 })
      }
    }
    for (const [integration, own] of this.#candidates) {
      own.adopted((id) => this.#forgettings.hides({ integration, model: candidateModel, id }))
      for (const [id, { after, afterText }] of own.published) {
        checkAdopted(`${integration}/${candidateModel}/${id}`, after, afterText)
      }
    }
    for (const key of unmatched.keys()) report("X11", `${key} was adopted but never published before`)
    this.#runs.forget()
    this.#claims.forget()
    this.#epochs.clear()
  }

  /**
   * After the quiet phase: checks the stored log, the sink and the world. `forgotten`: the records that the store lists. `history`: the
   * stored runs of a stream.
   */
  conclude(
    log: ReadonlyArray<LogEntry>,
    sink: { readonly entries: ReadonlyArray<LogEntry>; readonly latest: ReadonlyMap<string, LogEntry> },
    pending: ReadonlySet<string>,
    forgotten: ReadonlyArray<ForgottenRecord>,
    history: (key: StreamKey) => ReadonlyArray<EndedRun>,
    placed: Placed
  ): void {
    const isConcerned: Concerns = (integration, model, entry) => this.#forgettings.concerns(integration, model, entry)
    this.#publishing.conclude(log, sink.entries, sink.latest, isConcerned, (at) => this.#reportOf(at))
    const lost = new Set(sink.entries.slice(0, this.#publishing.replacedAt).map(({ eventId }) => eventId))
    checkPlaces(log, placed, lost, this.#reportOf("sink"))
    this.checkForgettingEnded("after the quiet phase")
    const known = this.#forgettings.in("erasing", "forgotten")
    for (const record of known) this.#checkForgotten(record)
    if (known.length !== forgotten.length) this.#reportOf("log")("I11", "the store lists other records as forgotten")
    for (const [name, stream] of this.#streams) {
      const report = this.#reportOf(name)
      this.#runs.checkPollWindows(stream, report)
      stream.history.conclude(history(stream.table), report)
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

  /** A transaction that sees a record as forgotten publishes only its delete, and stages no change of the record. */
  #checkHidden(
    stream: ObservedStream,
    { forgotten, log, pending }: CommittedTransaction,
    report: ReportViolation
  ): void {
    const { integration, model: own } = stream.table
    for (const { event, model } of log) {
      const { after, id, kind } = event
      // a change that waited when the command was given is still released; the removal comes later
      const waited = this.#forgettings.stateOf({ integration, model, id }) === "erasing" &&
        (model === candidateModel || stream.pending.has(id))
      if (isIn(forgotten, model, id) && kind !== "deleted" && !waited) {
        report("I11", `${kind} ${event.version} of ${id}, which is forgotten`)
      }
      if (event.reason === "forgotten" && (after !== null || event.changes !== "[]")) {
        report("I11", `the delete of ${id} has content, although it is forgotten`)
      }
    }
    for (const [id, row] of pending) {
      if (row !== null && row.content !== null && isIn(forgotten, own, id)) {
        report("I11", `${id} is ${row.status}, although it is forgotten`)
      }
    }
  }

  /** A forgotten record is deleted. A record that repeats it is deleted, and created again without it. */
  #removed(
    stream: ObservedStream,
    { forgotten, key, log, pending }: CommittedTransaction,
    report: ReportViolation
  ): void {
    const { records, table: { integration } } = stream
    const candidates = this.#candidatesOf(stream)
    /** The records that were deleted and must be created again, with their content. */
    const again = new Map<string, PublishedRecord>()
    const erased = new Set<string>()
    for (const { event, model } of log) {
      this.#publishing.appended(event, integration, model, report)
      const isOwn = isIn(forgotten, model, event.id)
      if (model === candidateModel) {
        candidates.checkEvent(stream, event, erased, report)
        continue
      }
      if (model === "ats.application") candidates.applicationPublished(event)
      const known = records.get(event.id) ?? unpublished
      const deleted = again.get(event.id)
      if (deleted === undefined) {
        if (event.reason !== "forgotten") report("I11", `${event.kind} of ${event.id} in the removal of another record`)
        checkEvent(stream, event, this.#time.now, report)
        if (!isOwn) again.set(event.id, known)
        else if (candidateIn(known.after) !== null) erased.add(candidateIn(known.after)!.id)
        continue
      }
      again.delete(event.id)
      checkSequence(event, known, report)
      const after = event.after === null ? null : JSON.parse(event.after)
      const expected = deleted.after === null ? null : withoutForgotten(forgotten, deleted.after)
      if (after === null || expected === null || contentOf(after) !== contentOf(expected)) {
        report("I8", `${event.id} was created again with other content than it had`)
      }
      if (event.origin !== "backfill" || !event.restored) report("I11", `${event.id} was created again as new`)
      records.set(event.id, { ...deleted, version: event.version, after, afterText: event.after })
    }
    for (const id of again.keys()) report("I1", `${id} is deleted as forgotten, but only repeats a forgotten record`)
    if (key.model === candidateModel) return
    for (const [id, row] of pending) {
      if (row === null) stream.pending.delete(id)
      else stream.pending.set(id, row)
    }
  }

  /** Checks committed events and updates the published state. */
  #checkLog(
    stream: ObservedStream,
    { log }: CommittedTransaction,
    report: ReportViolation
  ): ReadonlyArray<PublishedChange> {
    const changes: Array<PublishedChange> = []
    const erased = new Set<string>()
    for (const { event, model } of log) {
      this.#publishing.appended(event, stream.table.integration, model, report)
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
      changes.push({ event, before, isBack: (stream.records.get(event.id)?.state ?? -1) < (known?.state ?? -1) })
    }
    return changes
  }

  /** Checks the causes of events: L1, L3, E1, E2, L9. */
  #checkCauses(
    { table: { integration } }: ObservedStream,
    { after, before }: CommittedTransaction,
    changes: ReadonlyArray<PublishedChange>,
    report: ReportViolation
  ): void {
    for (const { event, isBack } of changes) {
      for (const what of this.#echoes.checkCause(integration, event, isBack)) {
        report("L1", `${event.kind} ${event.version} of ${event.id} ${what}`)
      }
    }
    if (after.lastSweep?.id !== before.lastSweep?.id) this.#echoes.swept(integration)
  }

  /** Only changes that an operator approved are released with a hold (D17). */
  #checkReleased(
    stream: ObservedStream,
    events: ReadonlyArray<NewEvent>,
    holds: ReadonlyArray<number>,
    report: ReportViolation
  ): void {
    for (const hold of holds) if (!this.#approved.has(hold)) report("D17", `hold ${hold} was released without approval`)
    for (const { id, kind } of events) {
      const hold = stream.pending.get(id)?.hold ?? null
      if (hold === null || !holds.includes(hold)) {
        report("D17", `${kind} of ${id} was published with a hold that does not contain it`)
      }
    }
  }

  #reportOf(stream: string): ReportViolation {
    return (invariant, what) => void this.violations.push({ invariant, at: this.#time.now, stream, what })
  }
}

const isConcluded = ({ after, before }: CommittedTransaction): boolean =>
  after.lastPoll?.id !== before.lastPoll?.id || after.lastSweep?.id !== before.lastSweep?.id

/** Deletes and restores wait for the end of their run, where the guard can judge them together (D4, D19, I7). */
const checkUnfinishedRun = (events: ReadonlyArray<NewEvent>, report: ReportViolation): void => {
  for (const { id, kind, reason, restored } of events) {
    // Both kinds at once are one fact about a record that was never published (D8).
    if (reason === "unseen") continue
    if (kind === "deleted" || restored) report("I7", `${kind} of ${id} before its run was complete`)
  }
}

/** Waves wait for an operator's approval (C2, C3, D6). */
const checkWaves = (stream: ObservedStream, changes: ReadonlyArray<PublishedChange>, report: ReportViolation): void => {
  const live = [...stream.records.values()].filter(({ after }) => after !== null).length
  const absent = [...stream.pending.values()].filter(({ confirmations, status }) =>
    status === "absent" && confirmations > 0
  )
  for (const what of stream.waves.findUnheld(changes, live, absent.length)) report("D6", what)
}

/**
 * An absence is an inference even before it is published: it must not concern a record that existed all the time (I7). An older copy
 * of the store can contain an absence that ended since; only a further confirmation counts against it.
 */
const checkAbsence = (stream: ObservedStream, pending: Pending, report: ReportViolation): void => {
  if (pending.status !== "absent" || pending.confirmations <= (stream.pending.get(pending.id)?.confirmations ?? 0)) {
    return
  }
  const row = stream.table.byId.get(pending.id)
  const seen = stream.newestLiveState.get(pending.id)
  if (row === undefined || seen === undefined) return
  if (row.history.slice(seen.state).every(({ live }) => live)) {
    report("I7", `${pending.id} counts as absent but existed all the time`)
  }
}

/** The fold of the log equals the world (I8). */
const checkFold = (stream: ObservedStream, pendingInStore: ReadonlySet<string>, report: ReportViolation): void => {
  const { forgettings, table } = stream
  const { integration, model } = table
  // In a list that is empty, or has only forgotten records, no record can serve as a control: absent and disputed ones stay pending.
  const isUnanswerable = table.rows.every(({ history, id }) =>
    !history.at(-1)!.live || forgettings.hides({ integration, model, id })
  )
  for (const row of stream.table.byId.values()) {
    const truth = row.history.at(-1)!
    const published = stream.records.get(row.id)
    const pending = stream.pending.get(row.id)
    if ((pending !== undefined) !== pendingInStore.has(`${nameOf(stream.table)}/${row.id}`)) {
      report("I2", `the stored pending row of ${row.id} differs from the committed one`)
    }
    const isShown = truth.live && !forgettings.hides({ integration, model, id: row.id })
    const current = isShown ? contentOf(forgettings.shown(integration, truth.record)) : null
    const shown = published?.after == null ? null : contentOf(published.after)
    if (isUnanswerable && current === null && (pending?.status === "absent" || pending?.status === "disputed")) continue
    if (current === shown) {
      if (pending !== undefined) {
        report("I1", `${row.id} is published with its current content but still ${pending.status}`)
      }
      continue
    }
    // A record that was empty when it was published first is published with that content.
    if (published?.createdEmpty === true && shown === contentOf(forgettings.shown(integration, truth.record))) continue
    report(
      "I8",
      `${row.id} is ${current ?? "gone"}, published as ${shown ?? "gone"}, ${pending?.status ?? "not pending"}`
    )
  }
  if (stream.quarantined > stream.rowsWithoutId) report("I1", "readable rows were quarantined")
}

/** The fault with which the API itself gives each reason of a blocked stream. */
const apiReasons: Readonly<Record<string, FaultKind>> = {
  key: "unauthorized",
  permission: "permission",
  unsupported: "unsupported",
  inactive: "inactive",
  not_ready: "notReady"
}

/** Only the API itself blocks a stream: nothing else knows whether the key, the permission and the model are right. */
const checkBlocked = (
  { faults }: ObservedStream,
  { blocked }: CommittedTransaction["after"],
  report: ReportViolation
): void => {
  const reason = blocked === null ? undefined : apiReasons[blocked.reason]
  if (reason !== undefined && !faults.has(reason)) {
    report("C1", `the stream is blocked (${blocked?.reason}), which the API itself never said`)
  }
}
