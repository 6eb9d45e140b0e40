/**
 * The paths that no redaction rule may name, because the service itself reads stored content there.
 *
 * Details
 * - Ids of embedded records: references are found by them, candidates are derived by them, and copies of a forgotten record are found by
 *   them.
 * - Ids that identify the record that a plugin's write changed, or an embedded copy that has no id.
 * - The fields that decide which copy of a candidate is the newest, and whether the candidate is deleted.
 */
import type { Model, Models } from "./Model.ts"

const recognized = "Rollcall recognizes records by it"

const idsOf: Partial<Record<Model, ReadonlyArray<string>>> = {
  "ats.application": ["/candidate_id", "/job_id"],
  "ats.offer": ["/application_id"]
}

/** Why each path is required, by JSON Pointer. */
const requiredPathsOf = (models: Models, model: Model): ReadonlyMap<string, string> =>
  new Map([
    ["/id", "it is the id of the record"],
    ...(models.entryOf(model)?.nested ?? []).map(({ path }) => [`/${path.join("/")}/id`, recognized] as const),
    ...(idsOf[model] ?? []).map((pointer) => [pointer, recognized] as const),
    ...models.derived.flatMap(({ from, model: derived, property }) =>
      from === model
        ? ["changed_at", "remote_deleted_at"].map((name) =>
          [`/${property}/${name}`, `${derived} is derived from it`] as const
        )
        : []
    )
  ])

/** The reason why values at or below this JSON Pointer must not be redacted in records of the model; undefined if they may be redacted. */
export const whyRequired = (models: Models, model: Model, pointer: string): string | undefined => {
  for (const [path, why] of requiredPathsOf(models, model)) {
    if (pointer === path || pointer.startsWith(`${path}/`)) return why
  }
  return undefined
}
