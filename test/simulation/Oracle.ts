/**
 * Watches everything that is committed and everything that reaches the sink, and says what must not have happened.
 * Shares no code with the capture: it knows the world, what was handed out, and the design's invariants I1 to I8 and I10.
 *
 * Gotchas
 * - Whatever it excuses stands in docs/simulation.md, and in the code beside its reason. An allowance that hides a defect is
 *   worse than no oracle.
 */
import type { LogEntry, NewEvent } from "../../src/domain/ChangeEvent.ts"
import type { Pending } from "../../src/store/State.ts"
import type { Owner } from "../../src/store/Store.ts"
import { candidateIn, Candidates, model as candidateModel } from "./Candidates.ts"
import { Claims } from "./Claims.ts"
import { contentOf } from "./Content.ts"
import { Echoes } from "./Echoes.ts"
import type { Delivery, Effected } from "./FaultyApi.ts"
import { copyOf, handedOut, nameOf, type Report, type Stored, type Stream, streamOf } from "./Known.ts"
import type { Setting } from "./Plan.ts"
import type { Process, Witness, Written } from "./Process.ts"
import { type Logbook, Publishing } from "./Publishing.ts"
import { Readings } from "./Readings.ts"
import { tell } from "./Telling.ts"
import type { VirtualTime } from "./VirtualTime.ts"
import type { Told } from "./Waves.ts"
import type { World } from "./World.ts"

export interface Violation {
  readonly invariant: string
  /** Server ms. */
  readonly at: number
  readonly stream: string
  readonly what: string
}

/** What the oracle knew of the store when a copy of it was made. */
export interface Memory {
  readonly log: Logbook
  readonly streams: ReadonlyMap<string, Stored>
  readonly candidates: ReadonlyMap<string, Candidates>
  readonly approved: ReadonlySet<number>
}

/** Between the check of a write and its leaving, ms: what docs/delivery.md says remains. */
const mostBetween = 10_000

export class Oracle implements Witness {
  readonly violations: Array<Violation> = []
  readonly #time: VirtualTime
  readonly #setting: Setting
  readonly #streams: ReadonlyMap<string, Stream>
  /** By integration. */
  #candidates = new Map<string, Candidates>()
  readonly #readings: Readings
  readonly #claims: Claims
  readonly #publishing = new Publishing()
  readonly #echoes = new Echoes()
  readonly #epochs = new Map<string, number>()
  /** The latest claim of each scope, and when it was made. */
  readonly #takeovers = new Map<string, { readonly epoch: number; readonly at: number }>()
  #stoppedAt: number | null = null
  /** Holds that a person let pass. */
  #approved = new Set<number>()
  /** Of a store in which there is nothing yet. */
  readonly #blank: Memory

  constructor(world: World, time: VirtualTime, setting: Setting) {
    this.#time = time
    this.#setting = setting
    this.#readings = new Readings(setting)
    this.#claims = new Claims(setting)
    this.#streams = new Map(world.tables.map((table) => [nameOf(table), streamOf(table)]))
    this.#blank = this.#memory()
  }

  delivered(process: Process, delivery: Delivery): void {
    this.#readings.delivered(process, delivery, this.#time.now)
    this.#claims.delivered(process, delivery, this.#time.now)
    handedOut(this.#streams.get(nameOf(delivery.table))!, delivery.copies, this.#time.now)
  }

  claimed(owner: Owner): void {
    this.#epochs.set(owner.scope, owner.epoch)
    this.#takeovers.set(owner.scope, { epoch: owner.epoch, at: this.#time.now })
  }

  /** A write of a plugin took effect. */
  effected(effect: Effected): void {
    for (const what of this.#echoes.effected(effect)) {
      this.#reportOf(`${effect.integration}/ats.application`)("L5", what)
    }
  }

  begun({ epoch, scope }: Owner): void {
    if (this.#epochs.get(scope) !== epoch) {
      this.#reportOf(scope)("X16", `a write leaves for a fenced owner (epoch ${epoch})`)
    }
  }

  /** All writes are stopped, or resumed. */
  switched(on: boolean): void {
    this.#stoppedAt = on ? null : this.#time.now
  }

  /** A write leaves: what it was checked for held a moment ago (X16). */
  left({ epoch, scope }: Owner): void {
    const report = this.#reportOf(scope)
    const latest = this.#takeovers.get(scope)
    const isPast = (at: number) => this.#time.now - at > mostBetween
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

  committed(process: Process, written: Written): void {
    const stream = this.#streams.get(`${written.key.integration}/${written.key.model}`)
    if (stream === undefined) return
    const report = this.#reportOf(nameOf(stream.table))
    if (this.#epochs.get(written.owner.scope) !== written.owner.epoch) {
      report("I10", `a fenced owner committed (epoch ${written.owner.epoch})`)
    }
    for (const hold of written.holds) stream.holds.set(hold.id, hold)
    const released = written.holds.filter(({ state }) => state === "approving" || state === "approved")
    if (released.length > 0) this.#released(stream, written.events, released.map(({ id }) => id), report)
    else if (!concluded(written)) unfinished(written.events, report)

    this.#readings.begun(process, stream, written.before, written.after, this.#time.now)
    const told = this.#log(stream, written, report)
    if (stream.table.model === "ats.application") this.#echoed(stream, written, told, report)
    stream.quarantined += written.quarantined
    for (const [id, row] of written.pending) {
      if (row === null) stream.pending.delete(id)
      else {
        stream.pending.set(id, row)
        inferred(stream, row, report)
      }
    }
    for (const { kind } of released) stream.waves.approved(kind)
    if (released.length === 0 && concluded(written)) waves(stream, told, report)
    if (written.settled.length > 0) this.#readings.settled(process, stream, written.settled, report)
    for (const { id, state } of written.holds) {
      if (state === "approved" || state === "cancelled") stream.holds.delete(id)
    }
    this.#readings.committed(process, stream, written.before, written.after, report)
    this.#claims.committed(process, stream, written.before, written.after, report)
  }

  /** null: some stream has not polled yet, a copy would be of next to nothing. */
  remember(): Memory | null {
    return [...this.#streams.values()].some(({ polls }) => polls.length === 0) ? null : this.#memory()
  }

  #memory(): Memory {
    return {
      log: this.#publishing.remember(),
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
  restore(memory: Memory, taken: number, foreign: boolean): void {
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
      for (const [id, { afterText }] of own.told) isAnew(`${integration}/${candidateModel}/${id}`, afterText)
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
    sink: { readonly entries: ReadonlyArray<LogEntry>; readonly kept: ReadonlyMap<string, LogEntry> },
    pending: ReadonlySet<string>
  ): void {
    this.#publishing.conclude(log, sink.entries, sink.kept, (at) => this.#reportOf(at))
    for (const [name, stream] of this.#streams) {
      const report = this.#reportOf(name)
      this.#readings.windows(stream, report)
      folded(stream, pending, report)
      const derives = this.#setting.candidates && stream.table.model === "ats.application"
      if (derives) this.#candidatesOf(stream).conclude(stream, report)
    }
  }

  #candidatesOf({ table: { integration } }: Stream): Candidates {
    const known = this.#candidates.get(integration) ?? new Candidates()
    this.#candidates.set(integration, known)
    return known
  }

  /** Takes what was committed for what is told by now. */
  #log(stream: Stream, { log }: Written, report: Report): ReadonlyArray<Told> {
    const told: Array<Told> = []
    const erased = new Set<string>()
    for (const { event, model } of log) {
      this.#publishing.appended(event, report)
      if (model === candidateModel) {
        this.#candidatesOf(stream).tell(stream, event, erased, report)
        continue
      }
      const known = stream.records.get(event.id)
      const before = known?.after ?? null
      const candidate = event.reason === "erased" ? candidateIn(before) : null
      if (candidate !== null) erased.add(candidate.id)
      if (model === "ats.application") this.#candidatesOf(stream).show(event)
      tell(stream, event, this.#time.now, report)
      told.push({ event, before, isBack: (stream.records.get(event.id)?.state ?? -1) < (known?.state ?? -1) })
    }
    return told
  }

  /** L1, L3, E1, E2, L9. */
  #echoed(
    { table: { integration } }: Stream,
    { after, before }: Written,
    told: ReadonlyArray<Told>,
    report: Report
  ): void {
    for (const { event, isBack } of told) {
      for (const what of this.#echoes.told(integration, event, isBack)) {
        report("L1", `${event.kind} ${event.version} of ${event.id} ${what}`)
      }
    }
    if (after.lastSweep?.id !== before.lastSweep?.id) this.#echoes.swept(integration)
  }

  /** What a person let pass, and nothing else, is released with it (D17). */
  #released(stream: Stream, events: ReadonlyArray<NewEvent>, holds: ReadonlyArray<number>, report: Report): void {
    for (const hold of holds) if (!this.#approved.has(hold)) report("D17", `nobody approved hold ${hold}`)
    for (const { id, kind } of events) {
      const hold = stream.pending.get(id)?.hold ?? null
      if (hold === null || !holds.includes(hold)) {
        report("D17", `${kind} of ${id} passed with a hold that it was not part of`)
      }
    }
  }

  #reportOf(stream: string): Report {
    return (invariant, what) => void this.violations.push({ invariant, at: this.#time.now, stream, what })
  }
}

const concluded = ({ after, before }: Written): boolean =>
  after.lastPoll?.id !== before.lastPoll?.id || after.lastSweep?.id !== before.lastSweep?.id

/** Deletes and restores wait for the end of their reading, where they can be judged together (D4, D19, I7). */
const unfinished = (events: ReadonlyArray<NewEvent>, report: Report): void => {
  for (const { id, kind, reason, restored } of events) {
    // Both at once are one fact about one record that nobody had ever heard of (D8).
    if (reason === "unseen") continue
    if (kind === "deleted" || restored) report("I7", `${kind} of ${id} before its reading was complete`)
  }
}

/** Waves wait for a person (C2, C3, D6). */
const waves = (stream: Stream, told: ReadonlyArray<Told>, report: Report): void => {
  const live = [...stream.records.values()].filter(({ after }) => after !== null).length
  const absent = [...stream.pending.values()].filter(({ confirms, status }) => status === "absent" && confirms > 0)
  for (const what of stream.waves.passed(told, live, absent.length)) report("D6", what)
}

/** An absence is an inference too, before it is published: never of a record that was there all the time (I7). */
const inferred = (stream: Stream, pending: Pending, report: Report): void => {
  if (pending.status !== "absent" || pending.confirms === 0) return
  const row = stream.table.byId.get(pending.id)
  const seen = stream.liveShown.get(pending.id)
  if (row === undefined || seen === undefined) return
  if (row.shown.slice(seen.state).every(({ live }) => live)) {
    report("I7", `${pending.id} counts as absent and was there all the time`)
  }
}

/** I8. */
const folded = (stream: Stream, pendingInStore: ReadonlySet<string>, report: Report): void => {
  // A list that ran empty has nobody left to vouch for an answer: what was to be confirmed or asked again stays visible.
  const isUnanswerable = stream.table.rows.every((row) => !row.shown.at(-1)!.live)
  for (const row of stream.table.byId.values()) {
    const truth = row.shown.at(-1)!
    const published = stream.records.get(row.id)
    const pending = stream.pending.get(row.id)
    if ((pending !== undefined) !== pendingInStore.has(`${nameOf(stream.table)}/${row.id}`)) {
      report("I2", `the pending row of ${row.id} is not what was committed`)
    }
    const is = truth.live ? contentOf(truth.record) : null
    const says = published?.after == null ? null : contentOf(published.after)
    if (isUnanswerable && is === null && (pending?.status === "absent" || pending?.status === "reread")) continue
    if (is === says) {
      if (pending !== undefined) report("I1", `${row.id} is as published and ${pending.status}`)
      continue
    }
    // Met for the first time with nothing left in it, a record is what it shows.
    if (published?.bornEmpty === true && says === contentOf(truth.record)) continue
    report("I8", `${row.id} is ${is ?? "gone"}, told as ${says ?? "gone"}, ${pending?.status ?? "not pending"}`)
  }
  if (stream.quarantined > stream.namelessShown) report("I1", "readable rows were set aside")
}
