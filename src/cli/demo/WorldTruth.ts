/** The records of the simulated world that the events of the demo must reproduce. Pure. */
import { isObject, type JsonObject } from "../../domain/Canonical.ts"
import { derivedRegistry, type StreamModel, streamModels, streamName } from "../../domain/Model.ts"
import type { Records } from "./ConsistencyCheck.ts"

/** The simulated world behind the API that is read. */
export interface DemoWorld {
  readonly integrations: ReadonlyArray<{ readonly id: string }>
  /** Content by id of the live records that the API returns now. */
  readonly truth: (integration: string, model: StreamModel) => ReadonlyMap<string, unknown>
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
const derivedStreams = (world: DemoWorld) =>
  world.integrations.flatMap(({ id: integration }) =>
    Object.values(derivedRegistry).map(({ from, model, property }) => ({
      stream: streamName({ integration, model }),
      source: streamName({ integration, model: from }),
      records: findDerivedRecords(world.truth(integration, from), property)
    }))
  )

/** The records that the events must reproduce: those that are read, and the derived ones. */
export const truthOf = (world: DemoWorld): Records => {
  const read = world.integrations.flatMap(({ id: integration }) =>
    streamModels.map((model) => [streamName({ integration, model }), world.truth(integration, model)] as const)
  )
  const derived = derivedStreams(world).map(({ records, stream }) => {
    const live = [...records].filter(([, { content }]) => typeof content["remote_deleted_at"] !== "string")
    return [stream, new Map(live.map(([id, { content }]) => [id, content]))] as const
  })
  return new Map<string, ReadonlyMap<string, unknown>>([...read, ...derived])
}

/**
 * Derived records that the check cannot judge: their source record has a pending change, or no source record
 * contains them now. A record that no source record contains stays published (N6).
 */
export const findUndecided = (world: DemoWorld, folded: Records, pending: ReadonlySet<string>): ReadonlySet<string> =>
  new Set(
    derivedStreams(world).flatMap(({ records, source, stream }) => {
      const waiting = [...records].flatMap(([id, { parents }]) =>
        parents.some((parent) => pending.has(`${source}/${parent}`)) ? [id] : []
      )
      const withoutSource = [...folded.get(stream)?.keys() ?? []].filter((id) => !records.has(id))
      return [...waiting, ...withoutSource].map((id) => `${stream}/${id}`)
    })
  )

export const sizeOf = (records: Records): number => [...records.values()].reduce((sum, stream) => sum + stream.size, 0)
