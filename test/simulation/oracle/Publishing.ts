/**
 * The log from its commits to the sink, over restores and adoptions of the store: every committed event is stored, in order,
 * and arrives once and in order (I2, I4, I5); two histories are never mixed, and a reader ends with the correct state (X14, X18).
 */
import type { LogEntry, NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { ReportViolation } from "./ObservedStream.ts"

/** Where the generation of this log starts: after a position, and after this many events of the sink. */
interface GenerationStart {
  readonly position: number
  readonly sink: number
}

interface Entry extends Pick<NewEvent, "eventId" | "after" | "id" | "kind"> {
  readonly integration: string
  readonly model: string
}

/** The events in the store when the store was copied. */
export interface LogSnapshot {
  readonly start: GenerationStart
  readonly entries: ReadonlyArray<Entry>
}

/** The sink holds this many events, and knows this position as published. */
export interface Taken {
  readonly count: number
  readonly position: number
}

/** Whether rows of the log with this content may be empty, because a record was forgotten. */
export type Concerns = (integration: string, model: string, entry: Pick<NewEvent, "after" | "id">) => boolean

const keyOf = ({ id, integration, model }: Pick<Entry, "id" | "integration" | "model">): string =>
  `${integration}/${model}/${id}`

export class Publishing {
  #start: GenerationStart = { position: 0, sink: 0 }
  #entries: Array<Entry> = []
  readonly #ids = new Set<string>()
  /** The content of each event that was ever committed, also in a copy of the store that was replaced. */
  readonly #contents = new Map<string, string | null>()
  /** The sink holds this, and the restored store lacks some of it: nothing may follow (X14, X18). */
  #diverged: Taken | null = null
  /** The events in the sink come from another store: nothing may follow them, not even the same events. */
  #foreign = false
  /** How many events the sink had when the store was replaced the last time: the copy may lack their places. */
  #replacedAt = 0

  get replacedAt(): number {
    return this.#replacedAt
  }

  appended(event: NewEvent, integration: string, model: string, report: ReportViolation): void {
    if (this.#ids.has(event.eventId)) {
      report("I4", `the event id of ${event.kind} ${event.version} of ${event.id} was used before`)
    }
    this.#ids.add(event.eventId)
    const { after, eventId, id, kind } = event
    if ((this.#contents.get(eventId) ?? after) !== after) report("I4", `an event id of ${id} has two contents`)
    this.#contents.set(eventId, after)
    this.#entries.push({ eventId, after, id, kind, integration, model })
  }

  snapshot(): LogSnapshot {
    return { start: this.#start, entries: [...this.#entries] }
  }

  /** Called when the store is replaced by a copy. `foreign`: the sink's events are of another store. */
  restore({ start, entries }: LogSnapshot, taken: Taken, foreign: boolean): void {
    const isShort = start.sink !== this.#start.sink ||
      (taken.count > start.sink && taken.position > start.position + entries.length)
    if (foreign) this.#diverged = taken
    else if (isShort) this.#diverged ??= taken
    this.#foreign = foreign
    this.#replacedAt = taken.count
    this.#start = start
    this.#entries = [...entries]
    this.#ids.clear()
    for (const { eventId } of entries) this.#ids.add(eventId)
  }

  /** Called when the store was adopted. `log`: its log now, up to the position `newest`; `sink`: the events published before. */
  adopted(log: ReadonlyArray<LogEntry>, newest: number, sink: ReadonlyArray<LogEntry>, report: ReportViolation): void {
    const before = new Set(sink.map(({ eventId }) => eventId))
    const latest = Math.max(0, ...sink.map(({ generation }) => generation))
    for (const { eventId, id, generation } of log) {
      if (before.has(eventId)) report("X14", `${id} was adopted with an event id that the sink already has`)
      if (generation <= latest) {
        report("X14", `${id} was adopted in generation ${generation}, but the sink already has generation ${latest}`)
      }
    }
    // if no record is live the log is empty, and continues after its previous position
    this.#start = { position: newest - log.length, sink: sink.length }
    this.#entries = [...log]
    this.#ids.clear()
    for (const { eventId } of log) this.#ids.add(eventId)
    this.#diverged = null
    this.#foreign = false
  }

  /** `kept`: the newest entry of each record in the sink. */
  conclude(
    log: ReadonlyArray<LogEntry>,
    sink: ReadonlyArray<LogEntry>,
    kept: ReadonlyMap<string, LogEntry>,
    concerns: Concerns,
    report: (at: "log" | "sink") => ReportViolation
  ): void {
    const last = new Map<string, string | null>()
    const emptied = this.#mayBeEmpty(concerns)
    /** Records whose previous row is empty. */
    const cut = new Set<string>()
    let index = 0
    /** Rows that readers no longer get: the next row of the record has no content before it. */
    const skipTo = (eventId: string | null) => {
      for (; index < this.#entries.length && this.#entries[index]!.eventId !== eventId; index++) {
        const entry = this.#entries[index]!
        if (emptied.has(entry.eventId)) cut.add(keyOf(entry))
        else report("log")("I2", `the log lacks ${entry.kind} of ${keyOf(entry)}, which was committed`)
      }
    }
    for (const entry of log) {
      skipTo(entry.eventId)
      const expected = this.#start.position + index + 1
      if (entry.position !== expected) report("log")("I5", `position ${entry.position} where ${expected} is expected`)
      const key = keyOf(entry)
      const before = entry.reason === "forgotten" || cut.has(key) ? null : last.get(key) ?? null
      if (before !== entry.before) report("log")("I3", `\`before\` of ${key} is not the previous \`after\``)
      last.set(key, entry.after)
      cut.delete(key)
      index++
    }
    skipTo(null)
    this.#checkSink(sink, kept, last, emptied, report("sink"))
  }

  /** The ids of events whose rows may be empty: those before the last delete of a record that was forgotten, or repeats one that was. */
  #mayBeEmpty(concerns: Concerns): ReadonlySet<string> {
    const ids = new Set<string>()
    for (const own of Map.groupBy(this.#entries, keyOf).values()) {
      const lastDelete = own.findLastIndex(({ kind }) => kind === "deleted")
      if (lastDelete < 1 || !own.some((entry) => concerns(entry.integration, entry.model, entry))) continue
      for (const { eventId } of own.slice(0, lastDelete)) ids.add(eventId)
    }
    return ids
  }

  /** The sink stores a batch and its position in one step, so its entries are the log, once and in order. */
  #checkSink(
    sink: ReadonlyArray<LogEntry>,
    kept: ReadonlyMap<string, LogEntry>,
    last: ReadonlyMap<string, string | null>,
    emptied: ReadonlySet<string>,
    report: ReportViolation
  ): void {
    const own = sink.slice(this.#start.sink)
    if (this.#diverged !== null) {
      // A consumer would mix two histories: nothing more is published until an operator adopts the store, or until the store
      // has found the same changes again, with the same event ids.
      const { count, position } = this.#diverged
      const again = new Set(this.#entries.slice(0, position - this.#start.position).map(({ eventId }) => eventId))
      const isSame = own.slice(0, count - this.#start.sink).every(({ eventId }) => again.has(eventId))
      if (sink.length !== count && this.#foreign) report("X14", "a store published after another one")
      else if (sink.length !== count && !isSame) report("X14", "a restored store went on publishing")
      return
    }
    const places = new Map(this.#entries.map(({ eventId }, index) => [eventId, index]))
    let next = 0
    const expectUpTo = (end: number) => {
      for (; next < end; next++) {
        const entry = this.#entries[next]!
        // a row that was emptied before the relay read it is not sent
        if (!emptied.has(entry.eventId)) report("I1", `${entry.kind} of ${keyOf(entry)} did not arrive`)
      }
    }
    for (const entry of own) {
      const place = places.get(entry.eventId)
      if (place === undefined || place < next) {
        report("I5", `${entry.kind} of ${keyOf(entry)} reached the sink twice, too late, or without a commit`)
        continue
      }
      expectUpTo(place)
      next++
    }
    expectUpTo(this.#entries.length)
    for (const [key, entry] of kept) {
      if (entry.after === (last.get(key) ?? null)) continue
      report("X14", `${key} is kept in generation ${entry.generation} with content that differs from the log`)
    }
  }
}
