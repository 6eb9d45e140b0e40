/**
 * Observes everything that is committed and everything that reaches the sink, and reports violations of the invariants.
 * It shares no code with the capture: it knows the world, the rows in each response, and the invariants I1 to I8, I10 and I11.
 *
 * Gotchas
 * - Every exception is listed in docs/simulation.md, and explained in the code. An exception that hides a defect is
 *   worse than no oracle.
 */
import type { LogEntry } from "../../../src/domain/ChangeEvent.ts"
import type { ForgettableRecord } from "../../../src/domain/Forgotten.ts"
import type { StreamKey } from "../../../src/domain/Model.ts"
import { deliveryScopeOf, shardOf } from "../../../src/domain/Shard.ts"
import type { AttemptOutcome, ClaimResult } from "../../../src/store/DeliveryClaims.ts"
import type { ForgottenRecord } from "../../../src/store/Operators.ts"
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
import {
  checkAbsence,
  checkBlocked,
  checkReleased,
  checkUnfinishedRun,
  checkWaves,
  isConcluded
} from "./CommitRules.ts"
import { CompletenessClaims } from "./CompletenessClaims.ts"
import { contentOf } from "./Content.ts"
import { Echoes } from "./Echoes.ts"
import { checkEvent } from "./EventRules.ts"
import { FleetRules, type KeyIds } from "./FleetRules.ts"
import { checkFold } from "./Fold.ts"
import { checkHidden, checkRemoval } from "./ForgettingRules.ts"
import { Forgettings } from "./Forgettings.ts"
import {
  copyOf,
  nameOf,
  newStream,
  type ObservedStream,
  recordServedRows,
  type ReportViolation,
  type StoredState
} from "./ObservedStream.ts"
import { Ownership } from "./Ownership.ts"
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
  readonly #ownership = new Ownership()
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
    this.#ownership.claimed(owner, this.#time.now)
  }

  isLatestOwner(owner: Owner): boolean {
    return this.#ownership.isLatest(owner)
  }

  /** Called when a plugin's write takes effect. */
  writeTookEffect(effect: WriteEffect): void {
    for (const what of this.#echoes.writeTookEffect(effect)) {
      this.#reportOf(`${effect.integration}/ats.application`)("L5", what)
    }
  }

  writeAllowed(owner: Owner): void {
    this.#ownership.writeAllowed(owner, this.#reportOf(owner.scope))
  }

  /** Called when all writes are stopped or resumed. */
  writesSwitched(on: boolean): void {
    this.#ownership.writesSwitched(on, this.#time.now)
  }

  writeSent(owner: Owner): void {
    this.#ownership.writeSent(owner, this.#time.now, this.#reportOf(owner.scope))
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
    checkHidden(stream, written, report)
    if (written.log.some(({ event }) => event.reason === "forgotten")) {
      return checkRemoval(stream, this.#candidatesOf(stream), this.#publishing, written, this.#time.now, report)
    }
    if (model === candidateModel) return
    for (const hold of written.holds) stream.holds.set(hold.id, hold)
    const released = written.holds.filter(({ state }) => state === "approving" || state === "approved")
    if (released.length > 0) {
      checkReleased(stream, written.events, released.map(({ id }) => id), this.#approved, report)
    } else if (!isConcluded(written)) checkUnfinishedRun(written.events, report)

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
    this.#ownership.forget()
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
    this.#ownership.forget()
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

  #reportOf(stream: string): ReportViolation {
    return (invariant, what) => void this.violations.push({ invariant, at: this.#time.now, stream, what })
  }
}
