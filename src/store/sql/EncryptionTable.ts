/**
 * The ids of the keys with which content of this store is encrypted; and encrypting the journal again after the key has changed.
 *
 * Invariants
 * 1. The table has the id of every key that a stored value may need: a store is not opened if one of these keys is missing, and a process
 *    that lacks one takes no work
 * 2. A transaction that takes work, or encrypts without owning any, first registers its key. The transaction that retires a key first waits
 *    for such transactions. Then it fences the owners that may use the old key, and retires it if no content needs it
 *
 * Gotchas
 * - Results of journal steps are replaced only if they are still what was read, so no owner is needed.
 * - Calls may have a key that is not registered: they are read within a minute, or not at all.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { isAlive } from "../Processes.ts"
import { missingKeys, type StoreError } from "../StoreError.ts"
import * as ContentCipher from "./ContentCipher.ts"
import { rowsPerStatement } from "./Rows.ts"
import { toStoreError, withRetry } from "./SqlRetry.ts"

type Cipher = ContentCipher.ContentCipher

/** A result may have several deduplication keys, so its place names its step instead. */
export const stepPlace = (handler: number, step: string): string => `journal/${handler}/${step}`

const registered = (sql: SqlClient) =>
  sql<{ id: string }>`SELECT id FROM encryption_keys ORDER BY id`.pipe(
    Effect.map((rows) => rows.map(({ id }) => id)),
    toStoreError("encryption")
  )

/** The cipher with the configured keys. */
export const cipherOf = (sql: SqlClient): Effect.Effect<Cipher> =>
  Effect.map(
    ContentCipher.EncryptionKeys,
    (keys) => ContentCipher.make(keys, (id) => Effect.map(registered(sql), (ids) => ids.includes(id)))
  )

const missingOf = (sql: SqlClient, cipher: Cipher) =>
  Effect.map(registered(sql), (ids): ReadonlyArray<string> => ids.filter((id) => !cipher.has(id)))

/** Fails with `MissingKey` if this process lacks a key that stored content may need. */
export const checkKeys = Effect.fnUntraced(
  function*(sql: SqlClient, cipher: Cipher): Effect.fn.Return<void, StoreError> {
    const keys = yield* missingOf(sql, cipher)
    if (keys.length > 0) return yield* missingKeys(keys)
  }
)

/** Registers the current key; returns whether it was not registered before. Until the commit, it is not retired. */
const register = (sql: SqlClient, { current: id }: Cipher): Effect.Effect<boolean, StoreError> =>
  id === null
    ? Effect.succeed(false)
    : sql`INSERT INTO encryption_keys ${sql.insert({ id })} ON CONFLICT (id) DO NOTHING RETURNING id`.pipe(
      Effect.map((rows) => rows.length > 0),
      toStoreError("encryption")
    )

/** Call first in a transaction that takes work: registers the current key, then checks the keys like `checkKeys`. */
export const registerKey = (sql: SqlClient, cipher: Cipher): Effect.Effect<void, StoreError> =>
  Effect.andThen(register(sql, cipher), checkKeys(sql, cipher))

/**
 * Call first in a transaction that stores a result without owning a part of the work. A process that lacks another key may still do this, so
 * that no result is lost, unless its own key was retired.
 */
export const holdKey = (sql: SqlClient, cipher: Cipher): Effect.Effect<void, StoreError> =>
  Effect.flatMap(register(sql, cipher), (isNew) => isNew ? checkKeys(sql, cipher) : Effect.void)

interface ResultRow {
  readonly handler: number
  readonly dedup_key: string
  readonly step: string
  readonly result: string
}

export const make = (sql: SqlClient, cipher: Cipher, self: string) => {
  const isOtherResult = sql`result IS NOT NULL AND result <> '[]' AND substr(result, 1, ${
    cipher.currentPrefix?.length ?? 0
  }) <> ${cipher.currentPrefix ?? ""}`

  /** One bounded transaction of `encryptJournal`; returns how many results it replaced. */
  const encryptSome = Effect.gen(function*() {
    yield* registerKey(sql, cipher)
    const rows = yield* sql<ResultRow>`
      SELECT handler, dedup_key, step, result FROM journal WHERE ${isOtherResult} LIMIT ${rowsPerStatement}`
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

  /** Waits for the transactions that have registered their key. Until the commit, no other transaction can register one. */
  const lockKeys = sql.onDialectOrElse({
    pg: () => Effect.asVoid(sql`LOCK TABLE encryption_keys IN SHARE ROW EXCLUSIVE MODE`),
    orElse: () => Effect.void
  })

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
    missingKeys: missingOf(sql, cipher).pipe(withRetry("missingKeys")),
    retireKeys: Effect.gen(function*() {
      const current = cipher.current ?? ""
      if ((yield* registered(sql)).every((id) => id === current)) return []
      yield* lockKeys
      yield* checkKeys(sql, cipher)
      const others = sql`SELECT id FROM processes WHERE id <> ${self} AND ${yield* isAlive(sql)}`
      const withOtherKey = yield* sql`${others} AND coalesce(encryption_key, '') <> ${current} LIMIT 1`
      if (withOtherKey.length > 0) return null
      yield* sql`
        UPDATE ownership SET epoch = epoch + 1
        WHERE process IS NULL OR (process <> ${self} AND process NOT IN (${others}))`
      const unfinished = yield* sql`
        SELECT 1 FROM streams WHERE replace(state, ${`"encryptedWith":"${current}"`}, '') = state
        UNION ALL SELECT 1 FROM journal WHERE ${isOtherResult} LIMIT 1`
      if (unfinished.length > 0) return []
      const retired = yield* sql<{ id: string }>`DELETE FROM encryption_keys WHERE id <> ${current} RETURNING id`
      return retired.map(({ id }) => id)
    }).pipe(sql.withTransaction, withRetry("retireKeys"))
  }
}
