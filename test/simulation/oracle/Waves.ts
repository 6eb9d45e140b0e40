/**
 * Detects a wave that was published although the guard must hold it (C2, C3, D6, D7), from the committed events
 * of one stream.
 *
 * Gotchas
 * - Worlds are shorter than the guard's window and smaller than its larger thresholds, so neither is checked here.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { Hold } from "../../../src/store/Records.ts"
import type { Json, JsonObject } from "../world/Table.ts"

/** An event, and the previously published content of its record. */
export interface PublishedChange {
  /** The event publishes an older state: a copy that looks like the record having gone back (P3). */
  readonly isBack: boolean
  readonly event: NewEvent
  readonly before: JsonObject | null
}

const isWave = (amount: number, records: number): boolean =>
  (amount >= 2 && amount >= records) || (amount >= 5 && amount >= records / 2)

export class Waves {
  #deletes = 0
  #restores = 0

  copy(): Waves {
    const copy = new Waves()
    copy.#deletes = this.#deletes
    copy.#restores = this.#restores
    return copy
  }

  /** Approved changes do not count towards later waves. */
  approved(kind: Hold["kind"]): void {
    if (kind === "deletes") this.#deletes = 0
    if (kind === "restores") this.#restores = 0
  }

  /** Waves at the end of one run that should have been held; `live`: records now, `absent`: absences confirmed so far. */
  findUnheld(changes: ReadonlyArray<PublishedChange>, live: number, absent: number): ReadonlyArray<string> {
    // a record that was created and deleted between two runs is not a loss (D8)
    const deletes = changes.filter(({ event }) => event.kind === "deleted" && event.reason !== "unseen").length
    const restores = changes.filter(({ event }) => event.restored).length
    this.#deletes += deletes
    this.#restores += restores
    const found: Array<string> = []
    if (deletes > 0 && isWave(this.#deletes + absent, live + this.#deletes)) {
      found.push(
        `${deletes} deletes were published, ${this.#deletes} so far, ${absent} are pending, ${live} records are left`
      )
    }
    if (restores > 0 && isWave(this.#restores, live)) {
      found.push(`${restores} restores were published, ${this.#restores} so far, of ${live} records`)
    }
    for (const [path, amount] of nullTransitions(changes)) {
      if (amount >= 5 && amount > 0.3 * (live + deletes)) found.push(`${path} null in ${amount} of ${live} records`)
    }
    return found
  }
}

/** Null or absent. Transitions to or from an array are not counted, because a first entry is an ordinary change of some records. */
const isNull = (value: Json | undefined): boolean => (value ?? null) === null

const nullTransitions = (changes: ReadonlyArray<PublishedChange>): ReadonlyMap<string, number> => {
  const amounts = new Map<string, number>()
  const count = (path: string) => amounts.set(path, (amounts.get(path) ?? 0) + 1)
  for (const { before, event } of changes) {
    if (event.kind !== "updated" || before === null || event.after === null) continue
    const after: JsonObject = JSON.parse(event.after)
    for (const name of Object.keys({ ...before, ...after })) {
      if (Array.isArray(before[name]) || Array.isArray(after[name])) continue
      if (!isNull(before[name]) && isNull(after[name])) count(`${name} went to`)
      if (isNull(before[name]) && !isNull(after[name])) count(`${name} came from`)
    }
  }
  return amounts
}
