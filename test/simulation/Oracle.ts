/**
 * Watches everything that is committed and everything that reaches the sink, and says what must not have happened.
 * Shares no code with the capture: it knows the world, what was handed out, and the design's invariants I1 to I8 and I10.
 *
 * Gotchas
 * - Every allowance in here stands beside its reason. One that hides a defect is worse than no oracle.
 */
import type { LogEntry, NewEvent } from "../../src/domain/ChangeEvent.ts"
import type { Balance, Owner, Pending, StreamState } from "../../src/store/Store.ts"
import { contentOf } from "./Content.ts"
import { Echoes } from "./Echoes.ts"
import type { Delivery, Effected } from "./FaultyApi.ts"
import type { Setting } from "./Plan.ts"
import type { Process, Witness, Written } from "./Process.ts"
import { expectedTransitions } from "./Transitions.ts"
import type { VirtualTime } from "./VirtualTime.ts"
import { type Told, Waves } from "./Waves.ts"
import type { Row, Shape, Table, World } from "./World.ts"

export interface Violation {
  readonly invariant: string
  /** Server ms. */
  readonly at: number
  readonly stream: string
  readonly what: string
}

/** What is published of one record, and which of its states that was. */
interface Published {
  version: number
  after: Shape | null
  afterText: string | null
  /** Newest state that the published sequence has reached. */
  state: number
  /** Its life began with nothing in it. */
  bornEmpty: boolean
}

/** Rows handed out to one reading, page by page: a page asked for again replaces what it gave before. */
interface Open {
  readonly startedAt: number
  readonly from: number | null
  readonly pages: Map<string, Delivery["copies"]>
  /** The page handed out last was the list's last. */
  ended: boolean
}

interface CommittedPoll {
  readonly startedAt: number
  readonly from: number
}

interface Stream {
  readonly table: Table
  readonly records: Map<string, Published>
  readonly pending: Map<string, Pending>
  readonly polls: Array<CommittedPoll>
  /** First request of the backfill, of which the first answer was committed: it set the watermark. */
  since: number | null
  quarantined: number
  /** States handed out as deleted; live ones; older copies. */
  readonly deadShown: Map<string, number>
  readonly liveShown: Map<string, { readonly state: number; readonly at: number }>
  readonly olderShown: Map<string, Set<number>>
  namelessShown: number
  /** Properties that a scope hold ever masked. */
  readonly masked: Set<string>
  readonly waves: Waves
}

/** What the oracle knew of the store when a copy of it was made. */
export interface Memory {
  readonly events: ReadonlyArray<NewEvent>
  readonly streams: ReadonlyMap<string, Pick<Stream, "records" | "pending" | "polls">>
}

const day = 86_400_000
/**
 * Changes that became visible later than this after their timestamp are for the sweep (W3). The margin less a minute: a
 * `Date` that is wrong by less than 30 s cannot be told from a right one, and what a minute-old answer says is old.
 */
const slack = 60_000

export class Oracle implements Witness {
  readonly violations: Array<Violation> = []
  readonly events: Array<NewEvent> = []
  readonly #time: VirtualTime
  readonly #setting: Setting
  readonly #streams = new Map<string, Stream>()
  readonly #open = new Map<string, Open>()
  readonly #epochs = new Map<string, number>()
  /** By process and stream: what was asked for by id last. */
  readonly #asked = new Map<string, Delivery>()
  /** The sink holds this many events, of which the restored store knows fewer: nothing may follow them (X14, X18). */
  #diverged: number | null = null
  readonly #ids = new Map<string, string>()
  readonly #echoes = new Echoes()

  constructor(world: World, time: VirtualTime, setting: Setting) {
    this.#time = time
    this.#setting = setting
    for (const table of world.tables) {
      this.#streams.set(nameOf(table), {
        table,
        records: new Map(),
        pending: new Map(),
        polls: [],
        since: null,
        quarantined: 0,
        deadShown: new Map(),
        liveShown: new Map(),
        olderShown: new Map(),
        namelessShown: 0,
        masked: new Set(),
        waves: new Waves()
      })
    }
  }

  delivered(process: Process, delivery: Delivery): void {
    const { copies, last, request, requestedAt, table } = delivery
    const stream = this.#stream(table)
    if (request.ids !== null) this.#asked.set(`${process.number} ${nameOf(table)}`, delivery)
    if (request.ids === null) {
      const kind = request.updatedAfter === null ? "sweep" : "poll"
      const name = `${process.number} ${kind} ${nameOf(table)}`
      let open = this.#open.get(name)
      if (open === undefined || request.cursor === null) {
        this.#open.set(
          name,
          open = { startedAt: requestedAt, from: request.updatedAfter, pages: new Map(), ended: false }
        )
      }
      open.pages.set(request.cursor ?? "", copies)
      open.ended = last
    }
    for (const { named, row, state } of copies) {
      if (!named) {
        stream.namelessShown++
        continue
      }
      const shown = row.shown[state]!
      if (shown.live) stream.liveShown.set(row.id, { state, at: this.#time.now })
      else stream.deadShown.set(row.id, Math.max(state, stream.deadShown.get(row.id) ?? -1))
      if (state < row.shown.length - 1) {
        const older = stream.olderShown.get(row.id) ?? new Set()
        stream.olderShown.set(row.id, older.add(state))
      }
    }
  }

  claimed(owner: Owner): void {
    this.#epochs.set(owner.scope, owner.epoch)
  }

  /** A write of a plugin took effect. */
  effected(effect: Effected): void {
    for (const what of this.#echoes.effected(effect)) {
      this.#reportAt("L5", `${effect.integration}/ats.application`, what)
    }
  }

  committed(process: Process, written: Written): void {
    const stream = this.#streams.get(`${written.key.integration}/${written.key.model}`)
    if (stream === undefined) return
    if (this.#epochs.get(written.owner.scope) !== written.owner.epoch) {
      this.#report("I10", stream, `a fenced owner committed (epoch ${written.owner.epoch})`)
    }
    if (written.before.watermark === null && written.after.watermark !== null) {
      stream.since = this.#open.get(`${process.number} sweep ${nameOf(stream.table)}`)?.startedAt ?? null
    }
    for (const path of written.masked) stream.masked.add(path.split("/")[1] ?? "")
    if (!concluded(written) && !written.approved) this.#unfinished(stream, written.events)
    const told = written.events.map((event) => ({ event, before: stream.records.get(event.id)?.after ?? null }))
    for (const event of written.events) this.#event(stream, event)
    if (stream.table.model === "ats.application") this.#echoed(stream, written)
    stream.quarantined += written.quarantined
    for (const [id, row] of written.pending) {
      if (row === null) stream.pending.delete(id)
      else {
        stream.pending.set(id, row)
        this.#inferred(stream, row)
      }
    }
    if (written.approved) stream.waves.approved()
    else if (concluded(written)) this.#waves(stream, told)
    if (written.settled.length > 0) this.#settled(process, stream, written.settled)
    this.#progress(process, stream, written.before, written.after)
  }

  /** null: some stream has not polled yet, a copy would be of next to nothing. */
  remember(): Memory | null {
    if ([...this.#streams.values()].some(({ polls }) => polls.length === 0)) return null
    return {
      events: [...this.events],
      streams: new Map([...this.#streams].map(([name, { pending, polls, records }]) => [name, {
        polls: [...polls],
        pending: new Map(pending),
        records: new Map(records)
      }]))
    }
  }

  /** The store is the one remembered; the sink had taken so many events by then. */
  restore(memory: Memory, taken: number): void {
    if (taken > memory.events.length) this.#diverged ??= taken
    this.events.splice(0, this.events.length, ...memory.events)
    this.#ids.clear()
    for (const { after, eventId } of memory.events) this.#ids.set(eventId, after ?? "")
    for (const [name, { pending, polls, records }] of memory.streams) {
      const stream = this.#streams.get(name)!
      this.#streams.set(name, {
        ...stream,
        pending: new Map(pending),
        records: new Map(records),
        polls: [...polls],
        waves: new Waves()
      })
    }
    this.#open.clear()
    this.#epochs.clear()
  }

  // ---- events

  /** L1, L3, E1, E2, L9. */
  #echoed(stream: Stream, { after, before, events }: Written): void {
    const { integration } = stream.table
    for (const event of events) {
      for (const what of this.#echoes.told(integration, event)) {
        this.#report("L1", stream, `${event.kind} ${event.version} of ${event.id} ${what}`)
      }
    }
    if (after.lastSweep?.id !== before.lastSweep?.id) this.#echoes.swept(integration)
  }

  /** Deletes and restores wait for the end of their reading, where they can be judged together (D4, D19, I7). */
  #unfinished(stream: Stream, events: ReadonlyArray<NewEvent>): void {
    for (const { id, kind, reason, restored } of events) {
      // Both at once are one fact about one record that nobody had ever heard of (D8).
      if (reason === "unseen") continue
      if (kind === "deleted" || restored) this.#report("I7", stream, `${kind} of ${id} before its reading was complete`)
    }
  }

  #event(stream: Stream, event: NewEvent): void {
    this.events.push(event)
    const report = (invariant: string, what: string) =>
      this.#report(invariant, stream, `${event.kind} ${event.version} of ${event.id}: ${what}`)
    const row = stream.table.byId.get(event.id)
    if (row === undefined) return report("I7", "the world never had it")
    const known = stream.records.get(event.id) ??
      { version: 0, after: null, afterText: null, state: -1, bornEmpty: false }
    if (event.version !== known.version + 1) report("I4", `follows version ${known.version}`)
    if ((event.kind === "created") !== (known.after === null)) report("I3", "out of turn")
    if ((event.kind === "deleted") !== (event.after === null)) report("I3", "wrong `after`")
    const said = this.#ids.get(event.eventId)
    if (said !== undefined) report("I4", "its event id was given before")
    this.#ids.set(event.eventId, event.after ?? "")

    const after: Shape | null = event.after === null ? null : JSON.parse(event.after)
    const state = after === null
      ? this.#deadState(stream, row, known, event)
      : liveState(stream, row, known, after, report)
    const isGone = state !== undefined && !row.shown[state]!.live
    if (event.kind === "updated" && isGone) report("I3", "an update to nothing")
    if (
      event.kind === "updated" && known.after !== null && after !== null && contentOf(known.after) === contentOf(after)
    ) {
      report("I3", "nothing changed")
    }
    this.#meaning(stream, event, known, after, report)
    stream.records.set(event.id, {
      version: event.version,
      after,
      afterText: event.after,
      state: state ?? known.state,
      bornEmpty: event.kind === "created" ? isGone : known.bornEmpty
    })
  }

  #deadState(stream: Stream, row: Row, known: Published, event: NewEvent): number | undefined {
    const report = (what: string) =>
      this.#report("I7", stream, `deleted ${event.version} (${event.reason}) of ${event.id}: ${what}`)
    // `unseen`: created and deleted before anybody looked; both are told at once
    if (event.reason === "flagged" || event.reason === "unseen" || event.reason === "erased") {
      const shown = stream.deadShown.get(event.id) ?? -1
      if (shown < known.state && !row.shown.slice(known.state).some(({ live }) => !live)) {
        report("never shown as deleted")
      }
      return Math.max(shown, known.state)
    }
    const seen = stream.liveShown.get(event.id)
    const since = row.shown.findIndex(({ at, live }, index) =>
      index > (seen?.state ?? -1) && !live && at <= this.#time.now
    )
    if (since < 0) return void report("alive ever since it was last seen")
    return Math.max(since, known.state)
  }

  /** Age, origin and transitions (B1–B4, T1, T2). */
  #meaning(
    stream: Stream,
    event: NewEvent,
    known: Published,
    after: Shape | null,
    report: (invariant: string, what: string) => void
  ): void {
    const transitions = JSON.parse(event.transitions).map(({ name }: { name: string }) => name)
    if (event.kind === "created" && !event.restored && after !== null) {
      const started = stream.since ?? 0
      const shownBirth = typeof after["remote_created_at"] === "string" ? Date.parse(after["remote_created_at"]) : null
      if (shownBirth !== null && shownBirth < started - day && event.origin !== "backfill") {
        report("B1", "old, told as new")
      }
      // Two clocks and one `Date` decide when the backfill began: half a minute either way is not judged.
      if (shownBirth !== null && shownBirth > started + 2 * slack && event.origin === "backfill") {
        report("B2", "new, told as old")
      }
      if (event.origin === "backfill" && transitions.length > 0) report("B1", `old, and ${transitions.join()}`)
      if (event.origin === "backfill" || event.reason === "unseen") return
    }
    if (after === null || event.restored) return
    const expected = expectedTransitions(stream.table.model, known.after, after)
    if (expected.join() !== transitions.join()) {
      report("T1", `transitions ${transitions.join()} instead of ${expected.join()}`)
    }
  }

  /** Waves wait for a person (C2, C3, D6). */
  #waves(stream: Stream, told: ReadonlyArray<Told>): void {
    const live = [...stream.records.values()].filter(({ after }) => after !== null).length
    const absent = [...stream.pending.values()].filter(({ confirms, status }) => status === "absent" && confirms > 0)
    for (const what of stream.waves.passed(told, live, absent.length)) this.#report("D6", stream, what)
  }

  /** N1: who was owed a re-read is owed it until an answer that has every control in it. */
  #settled(process: Process, stream: Stream, settled: ReadonlyArray<string>): void {
    const asked = this.#asked.get(`${process.number} ${nameOf(stream.table)}`)
    const answered = new Set(asked?.copies.map(({ row }) => row.id))
    const controls = asked?.request.ids?.filter((id) => !settled.includes(id)) ?? []
    const isSure = controls.every((id) => answered.has(id)) &&
      (controls.length > 0 || settled.every((id) => answered.has(id)))
    if (!isSure) this.#report("N1", stream, `a refresh of ${settled.join()} counts without its controls`)
  }

  // ---- pending rows

  /** An absence is an inference too, before it is published: never of a record that was there all the time (I7). */
  #inferred(stream: Stream, pending: Pending): void {
    if (pending.status !== "absent" || pending.confirms === 0) return
    const row = stream.table.byId.get(pending.id)
    const seen = stream.liveShown.get(pending.id)
    if (row === undefined || seen === undefined) return
    if (row.shown.slice(seen.state).every(({ live }) => live)) {
      this.#report("I7", stream, `${pending.id} counts as absent and was there all the time`)
    }
  }

  // ---- readings

  #progress(process: Process, stream: Stream, before: StreamState, after: StreamState): void {
    if (after.watermark !== before.watermark) this.#watermark(stream, before, after)
    if (after.lastPoll !== null && after.lastPoll.id !== before.lastPoll?.id) {
      this.#balanced(stream, after.lastPoll.balance)
      const open = this.#open.get(`${process.number} poll ${nameOf(stream.table)}`)
      if (open !== undefined && after.lastPoll.from !== null) {
        stream.polls.push({ startedAt: open.startedAt, from: after.lastPoll.from })
        this.#taken(stream, open, "poll")
      }
    }
    if (after.lastSweep !== null && after.lastSweep.id !== before.lastSweep?.id) {
      this.#balanced(stream, after.lastSweep.balance)
      const name = `${process.number} sweep ${nameOf(stream.table)}`
      const open = this.#open.get(name)
      if (open !== undefined) this.#taken(stream, open, "sweep")
      this.#open.delete(name)
    }
  }

  #watermark(stream: Stream, before: StreamState, after: StreamState): void {
    if (before.watermark === null) return
    if (after.watermark === null || after.watermark < before.watermark) {
      this.#report("I6", stream, "the watermark went back")
    }
    if (after.lastPoll?.id === before.lastPoll?.id) this.#report("I6", stream, "the watermark moved without a poll")
  }

  #balanced(stream: Stream, { read, ...rows }: Balance): void {
    const sum = Object.values(rows).reduce((sum, amount) => sum + amount, 0)
    if (sum !== read) this.#report("I1", stream, `${read} rows read, ${sum} accounted for`)
  }

  /** I1: whatever a complete reading was given is published, or newer than what is pending or set aside. */
  #taken(stream: Stream, open: Open, kind: string): void {
    if (!open.ended) this.#report("I1", stream, `a ${kind} counts as complete and its list went on`)
    for (const { named, row, state } of [...open.pages.values()].flat()) {
      if (!named || stream.pending.has(row.id)) continue
      const shown = row.shown[state]!
      const published = stream.records.get(row.id)
      if (!shown.live && (published === undefined || published.after === null)) continue
      if (published !== undefined && published.state >= state) continue
      if (published?.after != null && contentOf(published.after) === contentOf(shown.record)) continue
      // An old live copy, and the re-read it caused says that the record is gone.
      if ((stream.deadShown.get(row.id) ?? -1) > state && (published?.after ?? null) === null) continue
      // A poll between the pages of the sweep has met it since, as it is published.
      const since = stream.liveShown.get(row.id)
      if (since !== undefined && since.state > state && published?.after != null) {
        if (contentOf(row.shown[since.state]!.record) === contentOf(published.after)) continue
      }
      this.#report("I1", stream, `a complete ${kind} was given ${row.id} in state ${state} and tells nothing of it`)
    }
  }

  // ---- the end

  /** Every announced change lies inside the first two complete polls after it became visible (W1, W3, W6, P1, I6). */
  windows(): void {
    for (const stream of this.#streams.values()) {
      for (const change of stream.table.announced) {
        const { stamp, visible } = change
        if (stream.since === null || visible <= stream.since) continue
        if (visible - stamp > this.#setting.overlapMin - slack) continue
        const after = stream.polls.filter((poll) => poll.startedAt >= visible).slice(0, 2)
        const missed = after.find((poll) => poll.from > stamp)
        if (missed === undefined) continue
        this.#report(
          "I6",
          stream,
          `a change of ${change.id}, ${visible - stamp} ms late, lies ${
            missed.from - stamp
          } ms before what a poll asked for`
        )
        break
      }
    }
  }

  /** The log as it is stored, the sink, and the world. */
  conclude(log: ReadonlyArray<LogEntry>, sink: ReadonlyArray<LogEntry>, pending: ReadonlySet<string>): void {
    const last = new Map<string, string | null>()
    log.forEach((entry, index) => {
      const key = `${entry.integration}/${entry.model}/${entry.id}`
      const name = `${entry.integration}/${entry.model}`
      const report = (invariant: string, what: string) => this.#reportAt(invariant, name, what)
      if (entry.position !== index + 1) report("I5", `position ${entry.position} in place ${index + 1}`)
      if (entry.eventId !== this.events[index]?.eventId) {
        report("I2", `position ${entry.position} is not what was committed`)
      }
      if ((last.get(key) ?? null) !== entry.before) {
        report("I3", `\`before\` of ${entry.id} is not the previous \`after\``)
      }
      last.set(key, entry.after)
    })
    if (log.length !== this.events.length) {
      this.#reportAt("I2", "log", `${this.events.length} events were committed, ${log.length} are there`)
    }
    this.#arrived(log, sink)
    for (const stream of this.#streams.values()) this.#folded(stream, pending)
  }

  /** The sink takes a batch and its position in one step: what it has is the log, once and in order. */
  #arrived(log: ReadonlyArray<LogEntry>, sink: ReadonlyArray<LogEntry>): void {
    if (this.#diverged !== null) {
      // A consumer would mix two histories: nothing more is published until somebody adopts the store, or until the store
      // has found out the same again: event ids say that it is the same.
      const again = new Set(log.slice(0, this.#diverged).map(({ eventId }) => eventId))
      const same = sink.slice(0, this.#diverged).every(({ eventId }) => again.has(eventId))
      if (sink.length !== this.#diverged && !same) this.#reportAt("X14", "sink", "a restored store went on publishing")
      return
    }
    sink.forEach((entry, index) => {
      if (entry.eventId !== log[index]?.eventId) this.#reportAt("I5", "sink", `another event in place ${index + 1}`)
    })
    if (sink.length !== log.length) this.#reportAt("I1", "sink", `${sink.length} of ${log.length} events arrived`)
  }

  /** I8. */
  #folded(stream: Stream, pendingInStore: ReadonlySet<string>): void {
    const name = nameOf(stream.table)
    for (const row of stream.table.byId.values()) {
      const truth = row.shown.at(-1)!
      const published = stream.records.get(row.id)
      const pending = stream.pending.get(row.id)
      if ((pending !== undefined) !== pendingInStore.has(`${name}/${row.id}`)) {
        this.#report("I2", stream, `the pending row of ${row.id} is not what was committed`)
      }
      const [is, says] = [
        truth.live ? contentOf(truth.record) : null,
        published?.after == null ? null : contentOf(published.after)
      ]
      // A list that ran empty has nobody left to vouch for an answer: what was to be confirmed or asked again stays visible.
      const unanswerable = stream.table.rows.every((row) => !row.shown.at(-1)!.live)
      if (unanswerable && is === null && (pending?.status === "absent" || pending?.status === "reread")) continue
      if (is === says) {
        if (pending !== undefined) this.#report("I1", stream, `${row.id} is as published and ${pending.status}`)
        continue
      }
      // Met for the first time with nothing left in it, a record is what it shows.
      if (published?.bornEmpty === true && says === contentOf(truth.record)) continue
      this.#report(
        "I8",
        stream,
        `${row.id} is ${is ?? "gone"}, told as ${says ?? "gone"}, ${pending?.status ?? "not pending"}`
      )
    }
    if (stream.quarantined > stream.namelessShown) this.#report("I1", stream, "readable rows were set aside")
  }

  #stream(table: Table): Stream {
    return this.#streams.get(nameOf(table))!
  }

  #report(invariant: string, stream: Stream, what: string): void {
    this.#reportAt(invariant, nameOf(stream.table), what)
  }

  #reportAt(invariant: string, stream: string, what: string): void {
    this.violations.push({ invariant, at: this.#time.now, stream, what })
  }
}

const concluded = ({ after, before }: Written): boolean =>
  after.lastPoll?.id !== before.lastPoll?.id || after.lastSweep?.id !== before.lastSweep?.id

const nameOf = (table: Table): string => `${table.integration}/${table.model}`

const without = (record: Shape, names: ReadonlySet<string>): Shape =>
  names.size === 0 ? record : Object.fromEntries(Object.entries(record).filter(([name]) => !names.has(name)))

/** The state that a published content was: none the record never had, and none out of order. */
const liveState = (
  stream: Stream,
  row: Row,
  known: Published,
  after: Shape,
  report: (invariant: string, what: string) => void
): number | undefined => {
  const exact = contentOf(after)
  const statesWithout = (names: ReadonlySet<string>, content: string) =>
    row.shown.flatMap((shown, index) => contentOf(without(shown.record, names)) === content ? [index] : [])
  const whole = statesWithout(new Set(), exact)
  // While a scope hold masks some paths, records go on with what was published there (C7).
  const states = whole.some((state) => state >= known.state) || stream.masked.size === 0
    ? whole
    : statesWithout(stream.masked, contentOf(without(after, stream.masked)))
  const next = states.find((state) => state >= known.state)
  if (next !== undefined) return next
  const back = states.at(-1)
  if (back === undefined) return void report("I8", `was never so: ${exact}`)
  // An older copy of which `changed_at` is no older (a change on a path that does not move it, or none readable) cannot
  // be told from the record having gone back (P3).
  const [then, now] = [row.shown[back]!.changedAt, row.shown[Math.max(0, known.state)]!.changedAt]
  const told = then !== null && now !== null && then < now
  if (told || stream.olderShown.get(row.id)?.has(back) !== true) report("I5", "an older state after a newer one")
  return back
}
