/**
 * The records that an operator forgot: which of them may be published, with which content, and what may be left of them.
 *
 * Gotchas
 * - A store that was restored from an older copy knows the forgotten records of that copy, and no others.
 * - While a record is being forgotten, a change that waited before is still released with the record's content. It is removed later.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { ForgettableRecord, Forgotten } from "../../../src/domain/Forgotten.ts"
import type { ForgettingState } from "../service/ProcessObserver.ts"
import type { JsonObject } from "../world/Table.ts"
import { candidateIn, model as candidateModel } from "./Candidates.ts"

const nameOf = ({ id, integration, model }: ForgettableRecord): string => `${integration}/${model}/${id}`

const stripped = new WeakMap<object, JsonObject>()
const withoutCandidate = (record: JsonObject): JsonObject => {
  const known = stripped.get(record)
  if (known !== undefined) return known
  const fresh = { ...record, candidate: null }
  stripped.set(record, fresh)
  return fresh
}

export class Forgettings {
  #records = new Map<string, { readonly record: ForgettableRecord; readonly state: ForgettingState }>()

  copy(): Forgettings {
    const copy = new Forgettings()
    copy.restore(this)
    return copy
  }

  restore(other: Forgettings): void {
    this.#records = new Map(other.#records)
  }

  changed(record: ForgettableRecord, state: ForgettingState): void {
    this.#records.set(nameOf(record), { record, state })
  }

  /** Whether an operator ever wanted a record forgotten. */
  get isUsed(): boolean {
    return this.#records.size > 0
  }

  in(...states: ReadonlyArray<ForgettingState>): ReadonlyArray<ForgettableRecord> {
    return [...this.#records.values()].flatMap(({ record, state }) => states.includes(state) ? [record] : [])
  }

  stateOf(record: { readonly integration: string; readonly model: string; readonly id: string }):
    | ForgettingState
    | undefined
  {
    return this.#records.get(nameOf(record as ForgettableRecord))?.state
  }

  /** Whether no run may store the record. */
  hides(record: { readonly integration: string; readonly model: string; readonly id: string }): boolean {
    const state = this.stateOf(record)
    return state === "erasing" || state === "forgotten"
  }

  #stateOfCandidate(integration: string, record: JsonObject): ForgettingState | undefined {
    if (this.#records.size === 0) return undefined
    const candidate = candidateIn(record)
    return candidate === null ? undefined : this.stateOf({ integration, model: candidateModel, id: candidate.id })
  }

  /** The record as it is published in the end: without a forgotten candidate. */
  shown(integration: string, record: JsonObject): JsonObject {
    const state = this.#stateOfCandidate(integration, record)
    return state === "erasing" || state === "forgotten" ? withoutCandidate(record) : record
  }

  /** The forms in which a state of a record may be published or pending now. A change that waits may have the form of before. */
  forms(integration: string, record: JsonObject): ReadonlyArray<JsonObject> {
    switch (this.#stateOfCandidate(integration, record)) {
      case undefined:
        return [record]
      case "forgotten":
        return [withoutCandidate(record)]
      default:
        return [record, withoutCandidate(record)]
    }
  }

  /** Whether rows of the log with this content can be empty by now: those of a forgotten record, and of one that repeats it. */
  concerns(integration: string, model: string, { after, id }: Pick<NewEvent, "after" | "id">): boolean {
    if (this.#records.size === 0) return false
    if (this.stateOf({ integration, model, id }) !== undefined) return true
    return after !== null && this.#stateOfCandidate(integration, JSON.parse(after)) !== undefined
  }
}

/** Whether the transaction saw the record as forgotten. */
export const isIn = (forgotten: Forgotten, model: string, id: string): boolean => forgotten.get(model)?.has(id) === true

/** Without a copy of a candidate that the transaction saw as forgotten. */
export const withoutForgotten = (forgotten: Forgotten, record: JsonObject): JsonObject => {
  const candidate = candidateIn(record)
  return candidate !== null && isIn(forgotten, candidateModel, candidate.id) ? withoutCandidate(record) : record
}
