/** The properties that records of several models have. */
import { type Fields, isLive, iso, type Json, type Row } from "../Records.ts"
import * as SampleData from "../SampleData.ts"
import { SeededRandom } from "../SeededRandom.ts"

export type Rendered = { readonly [key: string]: Json }

export const isoOrNull = (at: number | null): string | null => at === null ? null : iso(at)
export const text = (value: Json | undefined): string => typeof value === "string" ? value : ""

export const idFields = (row: Row) => ({ id: row.id, remote_id: row.remoteId })
/** Stored properties; null if the record does not have them. */
export const stored = (row: Row, ...names: ReadonlyArray<string>): Rendered => {
  const values: Fields = {}
  for (const name of names) values[name] = row.fields[name] ?? null
  return values
}
/** The ids of the records linked at these paths: `<path>_id`. */
export const linkedIds = (row: Row, ...paths: ReadonlyArray<string>): Rendered => {
  const ids: Fields = {}
  for (const path of paths) ids[`${path}_id`] = row.one[path]?.id ?? null
  return ids
}
export const noCustomFields = { custom_fields: null, integration_fields: [] }
export const nameFields = (row: Row) => ({ ...idFields(row), ...stored(row, "name") })
export const changeFields = (row: Row) => ({
  changed_at: iso(row.changedAt),
  remote_deleted_at: isoOrNull(row.deletedAt)
})
export const remoteTimes = (row: Row) => ({
  remote_created_at: iso(row.createdAt),
  remote_updated_at: iso(row.remoteUpdatedAt)
})
export const one = (row: Row, path: string, show: (linked: Row) => Rendered): Json => {
  const linked = row.one[path]
  return linked ? show(linked) : null
}
export const entries = (row: Row, path: string, show: (entry: Row) => Rendered): ReadonlyArray<Rendered> =>
  (row.many[path] ?? []).filter(isLive).map(show)

export const location = (random: SeededRandom): Rendered => {
  const place = random.pick(SampleData.places)
  const street = `${place.street} ${random.int(1, 180)}`
  return {
    city: place.city,
    country: place.country,
    raw: `${street}, ${place.zip} ${place.city}, ${place.country}`,
    state: place.state,
    street_1: street,
    street_2: random.boolean(0.2) ? `Floor ${random.int(1, 9)}` : null,
    zip_code: place.zip
  }
}
export const handle = (row: Row): string =>
  `${text(row.fields["first_name"])}.${text(row.fields["last_name"])}`.toLowerCase().replaceAll(/[^a-z.]/g, "")

/** A record with its own properties only. */
export const renderGeneric = (row: Row): Rendered => ({
  ...idFields(row),
  remote_data: { id: row.remoteId, revision: row.salt % 100 },
  ...row.fields,
  ...changeFields(row)
})

/** A record that a write creates and no list shows, with the ids of the records it belongs to. */
export const renderWritten = (row: Row): Rendered => ({
  ...renderGeneric(row),
  ...linkedIds(row, ...Object.keys(row.one)),
  ...remoteTimes(row)
})
