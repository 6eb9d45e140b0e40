/**
 * The closing check of the demo: do all events, folded, give the world as it is? Shares no code with the capture, so that
 * a mistake there cannot hide itself here.
 *
 * Gotchas
 * - Compared is what events promise: `changed_at` and `remote_updated_at` make no change alone, `remote_data` is dropped
 *   to null, and the order of arrays means nothing but in `ordered_options`.
 */
import type { FeedEvent } from "../ApiClient.ts"

/** Stream name (`<integration>/<model>`) → record id → content. */
export type Records = ReadonlyMap<string, ReadonlyMap<string, unknown>>

export interface Difference {
  readonly stream: string
  readonly id: string
  readonly why: string
}

/** Takes events in the order of the log and keeps what they leave behind. */
export class Fold {
  readonly records = new Map<string, Map<string, unknown>>()
  /** Events that do not fit what came before; each breaks I3 or I4. */
  readonly violations: Array<Difference> = []
  readonly #versions = new Map<string, number>()

  add({ data }: FeedEvent): void {
    const stream = `${data.integration}/${data.model}`
    const key = `${stream}/${data.id}`
    const records = this.records.get(stream) ?? new Map<string, unknown>()
    this.records.set(stream, records)
    const version = (this.#versions.get(key) ?? 0) + 1
    if (data.version !== version) this.#broken(stream, data.id, `version ${data.version} came where ${version} was due`)
    if ((data.kind === "created") === records.has(data.id)) {
      this.#broken(
        stream,
        data.id,
        `"${data.kind}" came for a record that ${records.has(data.id) ? "is" : "is not"} there`
      )
    }
    this.#versions.set(key, data.version)
    if (data.after === null) records.delete(data.id)
    else records.set(data.id, data.after)
  }

  #broken(stream: string, id: string, why: string): void {
    this.violations.push({ stream, id, why })
  }
}

const ignored = new Set(["changed_at", "remote_updated_at"])

/** A text that is the same for contents that count as the same. */
const normalize = (value: unknown, name = ""): string => {
  if (name === "remote_data") return "null"
  if (Array.isArray(value)) {
    const items = value.map((item) => normalize(item))
    return `[${(name === "ordered_options" ? items : items.sort()).join(",")}]`
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const properties = Object.entries(value).filter(([key]) => !ignored.has(key))
  return `{${properties.map(([key, inner]) => `${JSON.stringify(key)}:${normalize(inner, key)}`).sort().join(",")}}`
}

/** What the fold has otherwise than the truth, pending records left out. `isPending` is asked with stream and id. */
export const findDifferences = (
  folded: Records,
  truth: Records,
  isPending: (stream: string, id: string) => boolean
): ReadonlyArray<Difference> => {
  const found: Array<Difference> = []
  for (const stream of new Set([...folded.keys(), ...truth.keys()])) {
    const ours = folded.get(stream) ?? new Map<string, unknown>()
    const theirs = truth.get(stream) ?? new Map<string, unknown>()
    for (const id of new Set([...ours.keys(), ...theirs.keys()])) {
      if (isPending(stream, id)) continue
      if (!theirs.has(id)) found.push({ stream, id, why: "the events say it exists, the world has it not" })
      else if (!ours.has(id)) found.push({ stream, id, why: "the world has it, no event told of it" })
      else if (normalize(ours.get(id)) !== normalize(theirs.get(id))) {
        found.push({ stream, id, why: `differs in ${differingProperties(ours.get(id), theirs.get(id)).join(", ")}` })
      }
    }
  }
  return found
}

/** Names of top-level properties that differ: names are no personal data, values are. */
const differingProperties = (a: unknown, b: unknown): ReadonlyArray<string> => {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return ["everything"]
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].filter((name) =>
    !ignored.has(name) && normalize(Reflect.get(a, name), name) !== normalize(Reflect.get(b, name), name)
  )
}
