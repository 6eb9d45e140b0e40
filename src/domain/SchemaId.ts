/**
 * Names, versions and ids of the published schemas.
 *
 * Invariants
 * 1. The schema behind an id never changes: a changed schema gets a new version. A test pins the content of each version
 */
import type { Model } from "./Model.ts"

/** `<model>`: its records. `<model>.event`: the `data` of its events. `progress`: values of the progress topic. */
export type SchemaName = Model | `${Model}.event` | "progress"

/** Schemas that have changed since their first version. */
const versions: Partial<Record<SchemaName, number>> = {}

export const schemaVersionOf = (name: SchemaName): number => versions[name] ?? 1

/** The `$id` of the schema; `/schemas/<name>/<version>` of the operating API returns it. */
export const schemaIdOf = (name: SchemaName): string => `urn:rollcall:schema:${name}:${schemaVersionOf(name)}`
