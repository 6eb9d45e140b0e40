/** Applications of one candidate, and the writes of plugins that add a tag to the candidate. */
import * as Effect from "effect/Effect"
import type { Cause } from "../../../src/domain/Echo.ts"
import { Store } from "../../../src/store/Store.ts"
import type { Rig } from "./Rig.ts"
import type { Row } from "./ScriptedApi.ts"

const tag = (name: string) => ({ id: `t-${name}`, remote_id: `r-${name}`, name })
export const person = (tags: ReadonlyArray<string>, details: Readonly<Record<string, unknown>> = {}) => ({
  id: "c",
  remote_id: "r-c",
  first_name: "Ann",
  changed_at: "2026-03-01T11:00:00.000Z",
  remote_created_at: "2026-03-01T11:00:00.000Z",
  remote_deleted_at: null,
  tags: tags.map(tag),
  ...details
})
/** An application of the only candidate. */
export const application = (
  id: string,
  tags: ReadonlyArray<string>,
  details: Readonly<Record<string, unknown>> = {}
): Row => ({
  id,
  outcome: "PENDING",
  job_id: "j",
  candidate_id: "c",
  candidate: person(tags),
  ...details
})

export const causeOf = (entry: { readonly cause: string | null }): Cause | null =>
  entry.cause === null ? null : JSON.parse(entry.cause)

export const polled = (rig: Rig, ...rows: ReadonlyArray<Row>) =>
  Effect.andThen(rig.change(...rows), rig.wait("1 minute"))
export const sweptTwice = (rig: Rig) =>
  Effect.forEach([1, 2], () => Effect.andThen(rig.wait("6 hours"), Effect.andThen(rig.poll, rig.sweep)))

export const addTag = (rig: Rig, name: string, author = {}) =>
  rig.write("addTag", { candidate_id: "c" }, { tag: { name } }, author)
export const unconfirmed = Effect.flatMap(Store, (store) => store.unconfirmedWrites(10))
