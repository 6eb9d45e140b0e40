/**
 * Observes everything that is committed and everything that reaches the sink, and reports violations of the invariants.
 * It uses no code of capture and delivery, only shared definitions (events, shards, `completeTo`): it knows the world, the rows in each response, and the invariants I1 to I8, I10 and I11.
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
import type { FaultKind, WorldSettings } from "../plan/Plan.ts"
import type { CommittedTransaction } from "../service/CommittedTransaction.ts"
import type { ForgettingState, RunningProcess } from "../service/ProcessObserver.ts"
import { leaseMillis } from "../service/SharedRequests.ts"
import { isSweptOnly } from "../world/DefinedModels.ts"
import type { ServedPage } from "../world/FaultyApi.ts"
import type { WriteEffect } from "../world/PluginWrites.ts"
import type { Table } from "../world/Table.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { World } from "../world/World.ts"
import { checkAdoption } from "./Adoption.ts"
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
import { FleetRules } from "./FleetRules.ts"
import { checkFold } from "./Fold.ts"
import { checkHidden, checkRemoval } from "./ForgettingRules.ts"
import { Forgettings } from "./Forgettings.ts"
import {
  copyOf,
  nameOf,
  newStream,
  type ObservedStream,
  recordServedRows,
  type ReportAt,
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

export class Oracle {
  readonly violations: Array<Violation> = []
  /** The callers inform these rules directly. */
  readonly fleet: FleetRules
  readonly ownership: Ownership
  readonly #time: VirtualTime
  readonly #setting: WorldSettings
  readonly #streams: ReadonlyMap<string, ObservedStream>
  /** By integration. */
  #candidates = new Map<string, Candidates>()
  /** Integrations whose candidates are a list now. */
  readonly #listed = new Set<string>()
  readonly #forgettings = new Forgettings()
  readonly #runs: Runs
  readonly #claims: CompletenessClaims
  readonly #publishing = new Publishing()
  readonly #echoes = new Echoes()
  readonly #refusedWrites: RefusedWrites
  /** Holds that an operator approved. */
  #approved = new Set<number>()
  /** The view of an empty store. */
  readonly #emptyStore: OracleSnapshot
  readonly #reportAt: ReportAt = (stream) => (invariant, what) =>
    void this.violations.push({ invariant, at: this.#time.now, stream, what })
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
    this.ownership = new Ownership(time, this.#reportAt)
    this.fleet = new FleetRules(time, this.#reportAt, setting.requestSlots, leaseMillis(setting))
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

  /** Called when a plugin's write takes effect. */
  writeTookEffect(effect: WriteEffect): void {
    for (const what of this.#echoes.writeTookEffect(effect)) {
      this.#reportAt(`${effect.integration}/ats.application`)("L5", what)
    }
  }

  settledAndClaimed(
    owners: ReadonlyArray<Owner>,
    outcomes: ReadonlyArray<AttemptOutcome>,
    result: ClaimResult
  ): void {
    const fenced = new Set(owners.flatMap((owner) => this.ownership.isLatestOwner(owner) ? [] : [owner.scope]))
    const stolen = result.claimed.find(({ integration }) => fenced.has(deliveryScopeOf(shardOf(integration))))
    if (stolen !== undefined) {
      this.#reportAt(`${stolen.integration}/deliveries`)("I10", "a fenced owner claimed deliveries")
    }
    this.fleet.settledAndClaimed(outcomes, result)
    this.#refusedWrites.settledAndClaimed(outcomes, result, this.#reportAt("deliveries"))
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
      this.#reportAt(`${integration}/${model}`)("I11", `${id} is still being forgotten, ${when}`)
    }
  }

  /** `miscounted`: the streams whose stored number of live records is wrong. */
  checkCounts(miscounted: ReadonlyArray<string>): void {
    for (const what of miscounted) this.#reportAt("store")("I2", what)
  }

  /** `attempts`: ran without an end for longer than any attempt may take. */
  checkStuck(attempts: ReadonlySet<string>): void {
    for (const attempt of attempts) {
      this.#reportAt("log")("X10", `${attempt} is running in the store, but in no process`)
    }
  }

  /** `deliveries`: wait because of refused writes, although the API has accepted all writes for a while. */
  checkBlocked(deliveries: ReadonlyArray<number>): void {
    for (const id of deliveries) {
      this.#reportAt("deliveries")("C4", `delivery ${id} still waits, although the API accepts all writes`)
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
    const report = this.#reportAt(`${integration}/${model}`)
    const published = model === candidateModel
      ? this.#candidates.get(integration)?.published.get(id)
      : this.#streams.get(`${integration}/${model}`)?.records.get(id)
    if ((published?.after ?? null) !== null) report("I11", `${id} is forgotten, but published as live`)
    for (const what of this.#remainsOf(record)) report("I11", `${id} is forgotten, but ${what}`)
  }

  committed(process: RunningProcess, written: CommittedTransaction): void {
    const { integration, model } = written.key
    const stream = this.#streams.get(`${integration}/${model}`) ??
      (model === candidateModel ? this.#streams.get(`${integration}/ats.application`) : undefined)
    if (stream === undefined) return
    if (model === candidateModel && process.listsCandidates) this.#listCandidates(stream)
    const report = this.#reportAt(nameOf(stream.table))
    if (!written.owned) {
      report("I10", `a fenced owner committed (epoch ${written.owner.epoch})`)
    }
    checkBlocked(stream, written.after, report)
    checkHidden(stream, written, report)
    if (written.log.some(({ event }) => event.reason === "forgotten")) {
      return checkRemoval(stream, this.#candidatesOf(stream), this.#publishing, written, this.#time.now, report)
    }
    if (model === candidateModel && !process.listsCandidates) return
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

  /** null: some stream has not polled yet, or not swept if it is never polled, so a copy would contain almost nothing. */
  snapshot(): OracleSnapshot | null {
    const hasRead = ({ polls, sweptAt, table }: ObservedStream) =>
      isSweptOnly(this.#setting, table.model) ? sweptAt !== null : polls.length > 0
    return [...this.#streams.values()].every(hasRead) ? this.#takeSnapshot() : null
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
    this.fleet.storeReplaced()
    this.#runs.forget()
    this.#claims.forget()
    this.ownership.forget()
  }

  /** Called when an operator adopted the store: exactly the live records are published again, with the same content (X11). */
  adopted(log: ReadonlyArray<LogEntry>, newest: number, sink: ReadonlyArray<LogEntry>): void {
    const report = this.#reportAt("log")
    this.#publishing.adopted(log, newest, sink, report)
    checkAdoption(log, this.#streams.values(), this.#candidates, this.#forgettings, report)
    this.#runs.forget()
    this.#claims.forget()
    this.ownership.forget()
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
    this.#publishing.conclude(log, sink.entries, sink.latest, isConcerned, this.#reportAt)
    const lost = new Set(sink.entries.slice(0, this.#publishing.replacedAt).map(({ eventId }) => eventId))
    checkPlaces(log, placed, lost, this.#reportAt("sink"))
    this.checkForgettingEnded("after the quiet phase")
    const known = this.#forgettings.in("erasing", "forgotten")
    for (const record of known) this.#checkForgotten(record)
    if (known.length !== forgotten.length) this.#reportAt("log")("I11", "the store lists other records as forgotten")
    for (const [name, stream] of this.#streams) {
      const report = this.#reportAt(name)
      this.#runs.checkPollWindows(stream, report)
      stream.history.conclude(history(stream.table), report)
      checkFold(stream, pending, report)
      const derives = this.#setting.candidates && this.#setting.candidateList === null &&
        stream.table.model === "ats.application"
      if (derives) this.#candidatesOf(stream).conclude(stream, report)
    }
  }

  /** The history of candidates that were derived goes on in their list. */
  #listCandidates({ records, table: { byId, integration } }: ObservedStream): void {
    if (this.#listed.has(integration)) return
    this.#listed.add(integration)
    for (const [id, published] of this.#candidates.get(integration)?.published ?? []) {
      const { after } = published
      const state = after === null
        ? -1
        : byId.get(id)?.history.findIndex(({ record }) => contentOf(record) === contentOf(after)) ?? -1
      records.set(id, { ...published, state, createdEmpty: false })
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
      if (model === candidateModel && model !== stream.table.model) {
        if (this.#listed.has(stream.table.integration)) report("N5", `candidate ${event.id} is derived beside its list`)
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
}
