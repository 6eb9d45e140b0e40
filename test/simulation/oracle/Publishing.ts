/**
 * The log from its commits to the sink, over restores and adoptions of the store: what was committed is stored, in order,
 * and arrives once and in order (I2, I4, I5), no two histories are mixed, and who reads it ends with the truth (X14, X18).
 */
import type { LogEntry, NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { ReportViolation } from "./ObservedStream.ts"

/** Where the generation of this log begins: behind a position, and behind so many events of the sink. */
interface GenerationStart {
  readonly position: number
  readonly sink: number
}

type Entry = Pick<NewEvent, "eventId" | "after">

/** What the store held when a copy of it was made. */
export interface LogSnapshot {
  readonly beginning: GenerationStart
  readonly entries: ReadonlyArray<Entry>
}

const keyOf = ({ id, integration, model }: LogEntry): string => `${integration}/${model}/${id}`

export class Publishing {
  #beginning: GenerationStart = { position: 0, sink: 0 }
  #entries: Array<Entry> = []
  readonly #ids = new Set<string>()
  /** The sink holds this many events, of which the restored store knows fewer: nothing may follow them (X14, X18). */
  #diverged: number | null = null
  /** What the sink holds is of another store: nothing may follow it, not even the same. */
  #foreign = false

  appended(event: NewEvent, report: ReportViolation): void {
    if (this.#ids.has(event.eventId)) {
      report("I4", `the event id of ${event.kind} ${event.version} of ${event.id} was given before`)
    }
    this.#ids.add(event.eventId)
    this.#entries.push(event)
  }

  snapshot(): LogSnapshot {
    return { beginning: this.#beginning, entries: [...this.#entries] }
  }

  /** The store is the one remembered; the sink had taken so many events by then, of another store if it is `foreign`. */
  restore({ beginning, entries }: LogSnapshot, taken: number, foreign: boolean): void {
    const isShort = taken > beginning.sink + entries.length || beginning.sink !== this.#beginning.sink
    if (foreign) this.#diverged = taken
    else if (isShort) this.#diverged ??= taken
    this.#foreign = foreign
    this.#beginning = beginning
    this.#entries = [...entries]
    this.#ids.clear()
    for (const { eventId } of entries) this.#ids.add(eventId)
  }

  /** The store was adopted: this is its log now, up to the position `newest`, and what the sink had taken of earlier ones. */
  adopted(log: ReadonlyArray<LogEntry>, newest: number, sink: ReadonlyArray<LogEntry>, report: ReportViolation): void {
    const before = new Set(sink.map(({ eventId }) => eventId))
    const latest = Math.max(0, ...sink.map(({ generation }) => generation))
    for (const { eventId, id, generation } of log) {
      if (before.has(eventId)) report("X14", `${id} is adopted under an event id that the sink has seen`)
      if (generation <= latest) {
        report("X14", `${id} is adopted in generation ${generation}, the sink has seen ${latest}`)
      }
    }
    // where no record lives the log is empty, and goes on behind the position it had
    this.#beginning = { position: newest - log.length, sink: sink.length }
    this.#entries = [...log]
    this.#ids.clear()
    for (const { eventId } of log) this.#ids.add(eventId)
    this.#diverged = null
    this.#foreign = false
  }

  /** `kept`: the newest of each record, as the sink has it; null: deleted. */
  conclude(
    log: ReadonlyArray<LogEntry>,
    sink: ReadonlyArray<LogEntry>,
    kept: ReadonlyMap<string, LogEntry>,
    report: (at: "log" | "sink") => ReportViolation
  ): void {
    const last = new Map<string, string | null>()
    log.forEach((entry, index) => {
      const place = this.#beginning.position + index + 1
      if (entry.position !== place) report("log")("I5", `position ${entry.position} in place ${place}`)
      if (entry.eventId !== this.#entries[index]?.eventId) {
        report("log")("I2", `position ${entry.position} is not what was committed`)
      }
      if ((last.get(keyOf(entry)) ?? null) !== entry.before) {
        report("log")("I3", `\`before\` of ${keyOf(entry)} is not the previous \`after\``)
      }
      last.set(keyOf(entry), entry.after)
    })
    if (log.length !== this.#entries.length) {
      report("log")("I2", `${this.#entries.length} events were committed, ${log.length} are there`)
    }
    this.#arrived(log, sink, kept, last, report("sink"))
  }

  /** The sink takes a batch and its position in one step: what it has is the log, once and in order. */
  #arrived(
    log: ReadonlyArray<LogEntry>,
    sink: ReadonlyArray<LogEntry>,
    kept: ReadonlyMap<string, LogEntry>,
    last: ReadonlyMap<string, string | null>,
    report: ReportViolation
  ): void {
    const own = sink.slice(this.#beginning.sink)
    if (this.#diverged !== null) {
      // A consumer would mix two histories: nothing more is published until somebody adopts the store, or until the store
      // has found out the same again: event ids say that it is the same.
      const had = this.#diverged - this.#beginning.sink
      const again = new Set(log.slice(0, had).map(({ eventId }) => eventId))
      const isSame = own.slice(0, had).every(({ eventId }) => again.has(eventId))
      if (sink.length !== this.#diverged && this.#foreign) report("X14", "a store published after another one")
      else if (sink.length !== this.#diverged && !isSame) report("X14", "a restored store went on publishing")
      return
    }
    own.forEach((entry, index) => {
      if (entry.eventId !== log[index]?.eventId) report("I5", `another event in place ${index + 1}`)
    })
    if (own.length !== log.length) report("I1", `${own.length} of ${log.length} events arrived`)
    for (const [key, entry] of kept) {
      if (entry.after === (last.get(key) ?? null)) continue
      report("X14", `${key} is kept in generation ${entry.generation} as nobody says that it is`)
    }
  }
}
