/**
 * The final check of the demo: folding all events must give the records of the simulated world. The check shares no code with capture, so
 * it cannot have the same bug.
 *
 * Gotchas
 * - The comparison covers only the promises of events: `changed_at` and `remote_updated_at` alone are not a change,
 *   `remote_data` is set to null, and the order of arrays is ignored except in `ordered_options`.
 */
import { isObject, type JsonObject } from "../../domain/Canonical.ts"
import { type Model, type Models, streamName } from "../../domain/Model.ts"
import type { FeedEvent } from "../client/ApiClient.ts"

/** Content by stream name (`<integration>/<model>`) and record id. */
export type Records = ReadonlyMap<string, ReadonlyMap<string, unknown>>

export interface Difference {
  readonly stream: string
  readonly id: string
  readonly why: string
}

/** Applies events in the order of the log and keeps the resulting records. */
export class Fold {
  readonly records = new Map<string, Map<string, unknown>>()
  /** Events that contradict earlier events; each violates I3 or I4. */
  readonly violations: Array<Difference> = []
  readonly #versions = new Map<string, number>()

  add({ data }: FeedEvent): void {
    const stream = `${data.integration}/${data.model}`
    const key = `${stream}/${data.id}`
    const records = this.records.get(stream) ?? new Map<string, unknown>()
    this.records.set(stream, records)
    const version = (this.#versions.get(key) ?? 0) + 1
    if (data.version !== version) {
      this.#addViolation(stream, data.id, `expected version ${version}, got version ${data.version}`)
    }
    if ((data.kind === "created") === records.has(data.id)) {
      this.#addViolation(
        stream,
        data.id,
        `got "${data.kind}" for a record that ${records.has(data.id) ? "already exists" : "does not exist"}`
      )
    }
    this.#versions.set(key, data.version)
    if (data.after === null) records.delete(data.id)
    else records.set(data.id, data.after)
  }

  #addViolation(stream: string, id: string, why: string): void {
    this.violations.push({ stream, id, why })
  }
}

const ignored = new Set(["changed_at", "remote_updated_at"])

/** Returns the same text for contents that are equal under the rules above. */
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

/** The differences between the folded records and the truth. Records for which `isPending` returns true are left out. */
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
      if (!theirs.has(id)) found.push({ stream, id, why: "exists according to the events, but not in the world" })
      else if (!ours.has(id)) found.push({ stream, id, why: "exists in the world, but no event reports it" })
      else if (normalize(ours.get(id)) !== normalize(theirs.get(id))) {
        found.push({ stream, id, why: `differs in ${differingProperties(ours.get(id), theirs.get(id)).join(", ")}` })
      }
    }
  }
  return found
}

/** Names of the top-level properties that differ. Values are not returned, because they are personal data. */
const differingProperties = (a: unknown, b: unknown): ReadonlyArray<string> => {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return ["everything"]
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].filter((name) =>
    !ignored.has(name) && normalize(Reflect.get(a, name), name) !== normalize(Reflect.get(b, name), name)
  )
}

// ---- the world ----------------------------------------------------------------------------------------------------

/** The simulated world behind the API that is read. */
export interface DemoWorld {
  readonly integrations: ReadonlyArray<{ readonly id: string }>
  /** Content by id of the live records that the API returns now. */
  truth(integration: string, model: Model): ReadonlyMap<string, unknown>
  /** Number of mutations of each kind that happened. */
  readonly mutations: Readonly<Record<string, number>>
}

interface DerivedRecord {
  readonly content: JsonObject
  /** Ids of the records that contain the derived record. */
  readonly parents: Array<string>
}

/** The derived records that the records of one model contain in `property`, by id. */
const findDerivedRecords = (
  records: ReadonlyMap<string, unknown>,
  property: string
): ReadonlyMap<string, DerivedRecord> => {
  const derived = new Map<string, DerivedRecord>()
  for (const [parent, record] of records) {
    const content: unknown = isObject(record) ? record[property] : null
    if (!isObject(content) || typeof content["id"] !== "string") continue
    const known = derived.get(content["id"])
    if (known === undefined) derived.set(content["id"], { content, parents: [parent] })
    else known.parents.push(parent)
  }
  return derived
}

/** Each derived stream with its source stream and its current records. */
const derivedStreams = (world: DemoWorld, models: Models) =>
  world.integrations.flatMap(({ id: integration }) =>
    models.derived.map(({ from, model, property }) => ({
      stream: streamName({ integration, model }),
      source: streamName({ integration, model: from }),
      records: findDerivedRecords(world.truth(integration, from), property)
    }))
  )

/** The records that the events must reproduce: those that are read, and the derived ones. */
export const truthOf = (world: DemoWorld, models: Models): Records => {
  const read = world.integrations.flatMap(({ id: integration }) =>
    models.read.map((model) => [streamName({ integration, model }), world.truth(integration, model)] as const)
  )
  const derived = derivedStreams(world, models).map(({ records, stream }) => {
    const live = [...records].filter(([, { content }]) => typeof content["remote_deleted_at"] !== "string")
    return [stream, new Map(live.map(([id, { content }]) => [id, content]))] as const
  })
  return new Map<string, ReadonlyMap<string, unknown>>([...read, ...derived])
}

/**
 * Derived records that the check cannot judge: their source record has a pending change, or no source record
 * contains them now. A record that no source record contains stays published (N6).
 */
export const findUndecided = (
  world: DemoWorld,
  models: Models,
  folded: Records,
  pending: ReadonlySet<string>
): ReadonlySet<string> =>
  new Set(
    derivedStreams(world, models).flatMap(({ records, source, stream }) => {
      const waiting = [...records].flatMap(([id, { parents }]) =>
        parents.some((parent) => pending.has(`${source}/${parent}`)) ? [id] : []
      )
      const withoutSource = [...folded.get(stream)?.keys() ?? []].filter((id) => !records.has(id))
      return [...waiting, ...withoutSource].map((id) => `${stream}/${id}`)
    })
  )

export const sizeOf = (records: Records): number => [...records.values()].reduce((sum, stream) => sum + stream.size, 0)
