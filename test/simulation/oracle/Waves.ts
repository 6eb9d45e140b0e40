/**
 * Tells when a wave was published without a person asked: what the guard promises (C2, C3, D6, D7), counted from what was
 * committed of one stream.
 *
 * Gotchas
 * - Worlds are shorter than the guard's window and smaller than its larger thresholds: neither is counted here.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { Hold } from "../../../src/store/State.ts"
import type { Json, JsonObject } from "../world/World.ts"

/** An event, and what was published of its record before. */
export interface PublishedChange {
  /** An older state than was told before: a copy that nothing tells from the record having gone back (P3). */
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

  /** What a person let pass is not counted against what comes after it. */
  approved(kind: Hold["kind"]): void {
    if (kind === "deletes") this.#deletes = 0
    if (kind === "restores") this.#restores = 0
  }

  /** What of one reading's end should have been held; `live` records now, `absent` once asked for in vain. */
  findUnheld(told: ReadonlyArray<PublishedChange>, live: number, absent: number): ReadonlyArray<string> {
    // created and deleted before anybody looked is no loss of a record (D8)
    const deletes = told.filter(({ event }) => event.kind === "deleted" && event.reason !== "unseen").length
    const restores = told.filter(({ event }) => event.restored).length
    this.#deletes += deletes
    this.#restores += restores
    const found: Array<string> = []
    if (deletes > 0 && isWave(this.#deletes + absent, live + this.#deletes)) {
      found.push(`${deletes} deletes passed, ${this.#deletes} by now, ${absent} to come, ${live} records are left`)
    }
    if (restores > 0 && isWave(this.#restores, live)) {
      found.push(`${restores} restores passed, ${this.#restores} by now, of ${live} records`)
    }
    for (const [path, amount] of nullTransitions(told)) {
      if (amount >= 5 && amount > 0.3 * (live + deletes)) found.push(`${path} null on ${amount} of ${live} records`)
    }
    return found
  }
}

/** First members of a list are ordinary work on a part of the records: what goes to or from an array is not counted. */
const isNull = (value: Json | undefined): boolean => (value ?? null) === null

const nullTransitions = (told: ReadonlyArray<PublishedChange>): ReadonlyMap<string, number> => {
  const amounts = new Map<string, number>()
  const count = (path: string) => amounts.set(path, (amounts.get(path) ?? 0) + 1)
  for (const { before, event } of told) {
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
