/** A stream whose content is full of secrets, rules that hide them, and a search of everything that is stored. */
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import { redactStored } from "../../../src/capture/rewrite/Redactor.ts"
import type { ReadModel } from "../../../src/domain/BuiltInModels.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { owning, type Rig } from "./Rig.ts"
import { named } from "./Waves.ts"

export const by = (redact: Processing.ProcessingRules["redact"], model: ReadModel = "ats.application") =>
  Processing.make(model, { remoteData: "drop", redact, key: "k" })
export const plain = by({})
export const hiding = by({ "/title": "hash", "/contact": "drop", "/remote_id": "drop" })

export const redact = (rig: Rig, processing: Processing.Processing) =>
  redactStored(owning(rig.stream.owner), (key) => key.model === "ats.application" ? processing : null)

/** Every text of the store's tables, to search it. */
export const dump = Effect.gen(function*() {
  const sql = yield* SqlClient
  const tables = ["events", "pending", "quarantine", "streams"]
  const rows = yield* Effect.forEach(tables, (table) => sql`SELECT * FROM ${sql(table)}`)
  return rows.flat().map((row) => JSON.stringify(row))
})

/** The first of the stored rows with this text. */
export const find = (text: string) => Effect.map(dump, (rows) => rows.find((row) => row.includes(text)) ?? null)

/** Records with two versions each, pending changes in a hold, and quarantined rows; `secret` is in all of them. */
export const fill = Effect.fnUntraced(function*(rig: Rig, count: number) {
  const ids = named(0, count)
  const row = (id: string, version: string) => ({
    id,
    remote_id: `secret-${id}`,
    title: `secret ${id} ${version}`,
    contact: { mail: "secret@example.com" },
    outcome: "PENDING"
  })
  yield* rig.fill(...ids.map((id) => row(id, "1")))
  yield* rig.wait("10 minutes")
  for (const id of ids) yield* rig.put(row(id, "2"))
  rig.api.intercept = (_, page) => ({
    ...page,
    results: [...page.results, { title: "secret nameless" }, "secret text"]
  })
  yield* rig.poll
  rig.api.intercept = (_, page) => page
  yield* rig.wait("10 minutes")
  yield* rig.change(...ids.map((id) => ({ ...row(id, "3"), outcome: null })))
  yield* rig.wait("10 minutes")
  return { ids, row }
})
