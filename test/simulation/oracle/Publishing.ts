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

type Entry = Pick<NewEvent, "eventId" | "after">

/** The events in the store when the store was copied. */
export interface LogSnapshot {
  readonly start: GenerationStart
  readonly entries: ReadonlyArray<Entry>
}

const keyOf = ({ id, integration, model }: LogEntry): string => `${integration}/${model}/${id}`

export class Publishing {
  #start: GenerationStart = { position: 0, sink: 0 }
  #entries: Array<Entry> = []
  readonly #ids = new Set<string>()
  /** The sink holds this many events, and the restored store lacks some of them: nothing may follow (X14, X18). */
  #diverged: number | null = null
  /** The events in the sink come from another store: nothing may follow them, not even the same events. */
  #foreign = false

  appended(event: NewEvent, report: ReportViolation): void {
    if (this.#ids.has(event.eventId)) {
      report("I4", `the event id of ${event.kind} ${event.version} of ${event.id} was used before`)
    }
    this.#ids.add(event.eventId)
    this.#entries.push(event)
  }

  snapshot(): LogSnapshot {
    return { start: this.#start, entries: [...this.#entries] }
  }

  /** Called when the store is replaced by a copy. `taken`: events that the sink holds; `foreign`: of another store. */
  restore({ start, entries }: LogSnapshot, taken: number, foreign: boolean): void {
    const isShort = taken > start.sink + entries.length || start.sink !== this.#start.sink
    if (foreign) this.#diverged = taken
    else if (isShort) this.#diverged ??= taken
    this.#foreign = foreign
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
    report: (at: "log" | "sink") => ReportViolation
  ): void {
    const last = new Map<string, string | null>()
    log.forEach((entry, index) => {
      const expected = this.#start.position + index + 1
      if (entry.position !== expected) report("log")("I5", `position ${entry.position} where ${expected} is expected`)
      if (entry.eventId !== this.#entries[index]?.eventId) {
        report("log")("I2", `position ${entry.position} differs from the committed event`)
      }
      if ((last.get(keyOf(entry)) ?? null) !== entry.before) {
        report("log")("I3", `\`before\` of ${keyOf(entry)} is not the previous \`after\``)
      }
      last.set(keyOf(entry), entry.after)
    })
    if (log.length !== this.#entries.length) {
      report("log")("I2", `${this.#entries.length} events were committed, but ${log.length} are stored`)
    }
    this.#checkSink(log, sink, kept, last, report("sink"))
  }

  /** The sink stores a batch and its position in one step, so its entries are the log, once and in order. */
  #checkSink(
    log: ReadonlyArray<LogEntry>,
    sink: ReadonlyArray<LogEntry>,
    kept: ReadonlyMap<string, LogEntry>,
    last: ReadonlyMap<string, string | null>,
    report: ReportViolation
  ): void {
    const own = sink.slice(this.#start.sink)
    if (this.#diverged !== null) {
      // A consumer would mix two histories: nothing more is published until an operator adopts the store, or until the store
      // has found the same changes again, with the same event ids.
      const publishedCount = this.#diverged - this.#start.sink
      const again = new Set(log.slice(0, publishedCount).map(({ eventId }) => eventId))
      const isSame = own.slice(0, publishedCount).every(({ eventId }) => again.has(eventId))
      if (sink.length !== this.#diverged && this.#foreign) report("X14", "a store published after another one")
      else if (sink.length !== this.#diverged && !isSame) report("X14", "a restored store went on publishing")
      return
    }
    own.forEach((entry, index) => {
      if (entry.eventId !== log[index]?.eventId) report("I5", `entry ${index + 1} of the sink is another event`)
    })
    if (own.length !== log.length) report("I1", `${own.length} of ${log.length} events arrived`)
    for (const [key, entry] of kept) {
      if (entry.after === (last.get(key) ?? null)) continue
      report("X14", `${key} is kept in generation ${entry.generation} with content that differs from the log`)
    }
  }
}
