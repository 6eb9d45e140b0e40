/** Classifies errors of SQLite: as a fault of the store, and as a problem of its file that a person can fix. */
import { classifySqliteError, SqlError } from "effect/sql/SqlError"
import { existsSync } from "node:fs"
import { dirname } from "node:path"
import { misconfigured, StoreError } from "../StoreError.ts"
import { type FaultKind, sqlErrorOf, StoreFault } from "../StoreFault.ts"
import { isDanglingLink } from "./FilePermissions.ts"
import { ThreadEnded } from "./SqliteThread.ts"

/** Primary result codes. */
export const codes = { busy: 5, readOnly: 8, cannotOpen: 14, notADatabase: 26 }

const resultCodes: Readonly<Record<number, FaultKind>> = {
  3: "denied",
  5: "locked",
  6: "locked",
  7: "exceeded",
  8: "readOnly",
  10: "disk",
  11: "damaged",
  13: "full",
  14: "unopenable",
  23: "denied",
  26: "damaged"
}

/** `code`: a primary or an extended result code. */
export const ofResultCode = (code: number): FaultKind | null =>
  (code & 0xff) === 19 ? null : resultCodes[code & 0xff] ?? "refused"

const codeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause ? Number(cause.errcode) : undefined

/** It is unknown whether the last statements have run, so they are not retried: the next process reads what is stored. */
const lost = (file: string, operation: string, why: string): SqlError =>
  sqlErrorOf(
    misconfigured(
      `the thread that held the database file ${file} open ended (${why}), so the store can no longer be used. `
        + "Start Rollcall again; if this happens again, check that the machine has enough memory, and report it"
    ),
    "the thread of the database ended",
    operation
  )

/** `classifySqliteError` reads `errno`, which the driver calls `errcode`. */
export const toSqlError = (file: string, operation: string) => (cause: unknown): SqlError => {
  if (cause instanceof ThreadEnded) return lost(file, operation, cause.why)
  const errno = codeOf(cause)
  const kind = errno === undefined ? "refused" : ofResultCode(errno)
  const fault = kind === null
    ? cause
    : new StoreFault(kind, file, errno === undefined ? undefined : String(errno), cause)
  return new SqlError({
    reason: classifySqliteError(
      errno !== undefined && fault instanceof Error ? Object.assign(fault, { errno }) : fault,
      { message: `the database failed to ${operation}`, operation }
    )
  })
}

export const foreign = (file: string) =>
  misconfigured(`${file} is the database of another program; configure another file for the store`)
export const unwritable = (file: string) =>
  misconfigured(`${file} is not writable; this user must be allowed to write the file and its directory`)

/** A problem that a person can fix gets its own message; any other error keeps the message of the database. */
export const toOpenError = (file: string) => (cause: unknown): StoreError | SqlError => {
  if (cause instanceof StoreError) return cause
  const code = codeOf(cause)
  switch (code === undefined ? undefined : code & 0xff) {
    case codes.notADatabase:
      return misconfigured(`${file} is not a SQLite database; configure another file for the store`)
    case codes.cannotOpen:
      if (isDanglingLink(file)) {
        return misconfigured(
          `${file} is a symbolic link to a file that does not exist; remove the link, or configure the file itself`
        )
      }
      return existsSync(dirname(file))
        ? misconfigured(`${file} cannot be opened; it must be a file that this user may read and write`)
        : misconfigured(
          `the directory ${dirname(file)} does not exist; create it, or configure another file for the store`
        )
    case codes.readOnly:
      return unwritable(file)
    default:
      return toSqlError(file, "open")(cause)
  }
}
