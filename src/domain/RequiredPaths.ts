/**
 * The paths that no redaction rule may name, because the service itself reads stored content there.
 *
 * Details
 * - Ids of repeated records: by these, references are found, candidates are derived, and a forgotten record is found in other records.
 * - Ids that tell which record a plugin's write changed, or whose copy has no id of its own.
 * - What decides which copy of a candidate is the newest, and whether the candidate is deleted.
 */
import { derivedRegistry, entryOf, type Model } from "./Model.ts"

const recognized = "Rollcall recognizes records by it"

const idsOf: Partial<Record<Model, ReadonlyArray<string>>> = {
  "ats.application": ["/candidate_id", "/job_id"],
  "ats.offer": ["/application_id"]
}

/** By JSON Pointer: why it is required. */
const requiredPathsOf = (model: Model): ReadonlyMap<string, string> =>
  new Map([
    ["/id", "it is the id of the record"],
    ...entryOf(model).nested.map(({ path }) => [`/${path.join("/")}/id`, recognized] as const),
    ...(idsOf[model] ?? []).map((pointer) => [pointer, recognized] as const),
    ...Object.values(derivedRegistry).flatMap(({ from, model: derived, property }) =>
      from === model
        ? ["changed_at", "remote_deleted_at"].map((name) =>
          [`/${property}/${name}`, `${derived} is derived from it`] as const
        )
        : []
    )
  ])

/** Why nothing at or below this JSON Pointer may be redacted in records of the model; undefined: it may be. */
export const whyRequired = (model: Model, pointer: string): string | undefined => {
  for (const [path, why] of requiredPathsOf(model)) {
    if (pointer === path || pointer.startsWith(`${path}/`)) return why
  }
  return undefined
}
