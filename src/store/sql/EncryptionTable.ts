/**
 * The ids of the keys with which content of this store is encrypted; and encrypting the journal again after the key has changed.
 *
 * Invariants
 * 1. The table has the id of every key that a stored value may need: a store is not opened without one of them
 *
 * Gotchas
 * - Results of journal steps are replaced only if they are still what was read, so no lock and no owner is needed.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { misconfigured, type StoreError } from "../Store.ts"
import type { ContentCipher } from "./ContentCipher.ts"
import { type Integer, rowsPerStatement } from "./Rows.ts"
import { toStoreError, withRetry } from "./SqlRetry.ts"

/** A result may have several deduplication keys, so its place names its step instead. */
export const stepPlace = (handler: number, step: string): string => `journal/${handler}/${step}`

/** Saves the id of the current key. Fails with `Misconfigured` if a key that stored content needs is not configured. */
export const checkKeys = Effect.fnUntraced(function*(
  sql: SqlClient,
  cipher: ContentCipher
): Effect.fn.Return<void, StoreError> {
  const used = yield* sql<{ id: string }>`SELECT id FROM encryption_keys ORDER BY id`.pipe(withRetry("encryption"))
  const missing = used.map(({ id }) => id).filter((id) => !cipher.has(id))
  if (missing.length > 0) {
    return yield* misconfigured(
      `the content of this store is encrypted with the key ${
        missing.join(", ")
      }, which is not among the configured keys: set ` +
        "ROLLCALL_ENCRYPTION_KEY_FILE to a file with all keys that were used, the newest first. Nothing was changed"
    )
  }
  const { current } = cipher
  if (current === null || used.some(({ id }) => id === current)) return
  yield* sql`INSERT INTO encryption_keys ${sql.insert({ id: current })} ON CONFLICT (id) DO NOTHING`.pipe(
    sql.withTransaction,
    withRetry("encryption")
  )
})

interface ResultRow {
  readonly handler: Integer
  readonly dedup_key: string
  readonly step: string
  readonly result: string
}

export const make = (sql: SqlClient, cipher: ContentCipher) => {
  /** One bounded transaction of `encryptJournal`; returns how many results it replaced. */
  const encryptSome = Effect.gen(function*() {
    const rows = yield* sql<ResultRow>`
      SELECT handler, dedup_key, step, result FROM journal
      WHERE result IS NOT NULL AND result <> '[]' AND substr(result, 1, ${cipher.currentPrefix?.length ?? 0}) <> ${
      cipher.currentPrefix ?? ""
    } LIMIT ${rowsPerStatement}`
    const results = yield* cipher.openRows(rows, "the journal", (row, open) => ({
      ...row,
      text: open(stepPlace(Number(row.handler), row.step), row.result)
    }))
    for (const { dedup_key, handler, result, step, text } of results) {
      yield* sql`
        UPDATE journal SET result = ${cipher.seal(stepPlace(Number(handler), step), text)}
        WHERE handler = ${handler} AND dedup_key = ${dedup_key} AND step = ${step} AND result = ${result}`
    }
    return rows.length
  }).pipe(sql.withTransaction, toStoreError("encryptJournal"), withRetry("encryptJournal"))

  return {
    encryptJournal: Effect.gen(function*() {
      let total = 0
      if (cipher.current === null) return total
      for (let count = yield* encryptSome; count > 0; count = yield* encryptSome) {
        total += count
        yield* Effect.yieldNow
      }
      return total
    }),
    retireKeys: Effect.gen(function*() {
      const retired = yield* sql<{ id: string }>`
        DELETE FROM encryption_keys WHERE id <> ${cipher.current ?? ""} RETURNING id`.pipe(sql.withTransaction)
      return retired.map(({ id }) => id)
    }).pipe(withRetry("retireKeys"))
  }
}
