/**
 * Classifies errors of PostgreSQL and of connections to it: as a fault of the store and as a kind of SQL error.
 *
 * Invariants
 * 1. Errors contain the server's code, the table and the constraint, but never a message that quotes a stored value   (I11)
 */
import {
  ConnectionError,
  ConstraintError,
  DeadlockError,
  LockTimeoutError,
  SerializationError,
  SqlError,
  type SqlErrorReason,
  UnknownError
} from "effect/sql/SqlError"
import { type FaultKind, StoreFault } from "../StoreFault.ts"

const sqlStates: ReadonlyArray<readonly [RegExp, FaultKind]> = [
  [/^(08|25P0[34]$|57P0[15]$)/, "lost"],
  [/^57P0[23]$/, "starting"],
  [/^53300$/, "tooManyClients"],
  [/^28/, "login"],
  [/^3D000$/, "missing"],
  [/^42501$/, "denied"],
  [/^25006$/, "readOnly"],
  [/^53100$/, "full"],
  [/^58030$/, "disk"],
  [/^XX00[12]$/, "damaged"],
  [/^55P03$/, "locked"],
  [/^57014$/, "silent"],
  [/^58P01$/, "damaged"],
  [/^53/, "exceeded"],
  // a prepared statement of this session is missing, or one exists that this session did not prepare
  [/^(26000|42P05)$/, "pooled"]
]

/** Null if the error is not a fault of the database: conflicts that are retried, and values that it rejects. */
export const ofSqlState = (code: string): FaultKind | null => {
  if (/^(40|21|22|23|44)/.test(code)) return null
  return sqlStates.find(([pattern]) => pattern.test(code))?.[1] ?? "refused"
}

/** For a connection that could not be made, or that broke. `code` is the operating system's or OpenSSL's. */
export const ofConnection = (code: string | undefined, isMade: boolean): FaultKind => {
  if (code !== undefined && /CERT|TLS|SSL|EPROTO|UNABLE_TO/.test(code)) return "encryption"
  if (code === "ETIMEDOUT") return "silent"
  return isMade ? "lost" : "unreachable"
}

/** An error that the server reported. */
interface ServerError extends Error {
  readonly code: string
  readonly table?: string
  readonly constraint?: string
}

const isServerError = (cause: unknown): cause is ServerError =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" && "severity" in cause

/** Classes of SQLSTATE whose messages may quote a value: data errors, violated constraints, and errors that functions raise. */
const statesQuotingValues = /^(21|22|23|44|P0)/
/** The server ended the session or did not start one: idle for too long, stopping, starting, too many clients. */
const hasNoSession = /^(25P0[34]|57P0[1235]|53300)$/

const withoutValues = ({ code, constraint, message, table }: ServerError): Error =>
  Object.assign(new Error(statesQuotingValues.test(code) ? `SQLSTATE ${code}` : message), {
    code,
    ...(table === undefined ? {} : { table }),
    ...(constraint === undefined ? {} : { constraint })
  })

/** PgBouncer rejects startup parameters that it is not configured to ignore. */
const refusesSettings = ({ code, message }: ServerError): boolean =>
  code === "08P01" && message.includes("startup parameter")

/** The driver's messages for a failed connection, for errors without a code of the operating system. */
const connectionMessages: ReadonlyArray<readonly [RegExp, FaultKind]> = [
  [/timed out/, "silent"],
  [/refused TLS|negotiate TLS|SSLRequest/, "encryption"]
]

const kindOf = ({ _tag, cause, message = "", operation }: SqlErrorReason): FaultKind => {
  if (_tag === "AuthenticationError") return "login"
  const known = connectionMessages.find(([pattern]) => pattern.test(message))
  if (known !== undefined) return known[1]
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : undefined
  return _tag === "ConnectionError" ? ofConnection(code, operation !== "connect") : "refused"
}

interface ErrorProps {
  readonly cause: unknown
  readonly message: string
  readonly operation: string
}

const errorClasses: Readonly<Partial<Record<SqlErrorReason["_tag"], new(props: ErrorProps) => SqlErrorReason>>> = {
  ConnectionError,
  DeadlockError,
  SerializationError,
  LockTimeoutError,
  StatementTimeoutError: LockTimeoutError,
  UniqueViolation: ConstraintError,
  ConstraintError
}

const reasonOf = (store: string, reason: SqlErrorReason): SqlErrorReason => {
  const { _tag, cause, message = "", operation = "query" } = reason
  const fromServer = isServerError(cause)
  // a connection error quotes no values; any other error of the driver is reduced to its own message
  const plain = fromServer ? withoutValues(cause) : _tag === "ConnectionError" ? cause : new Error(message)
  const kind = fromServer ? refusesSettings(cause) ? "settingsDropped" : ofSqlState(cause.code) : kindOf(reason)
  const code = fromServer ? cause.code : plain instanceof Error && "code" in plain ? String(plain.code) : undefined
  const props = { cause: kind === null ? plain : new StoreFault(kind, store, code, plain), message, operation }
  if (fromServer && hasNoSession.test(cause.code)) return new ConnectionError(props)
  return new (errorClasses[_tag] ?? UnknownError)(props)
}

/** Converts a driver error. `store` is the store's name for people. */
export const toSqlError = (store: string, error: SqlError): SqlError =>
  new SqlError({ reason: reasonOf(store, error.reason) })

const faultError = (kind: FaultKind) => (store: string): SqlError =>
  new SqlError({ reason: new ConnectionError({ cause: new StoreFault(kind, store), message: kind }) })

/** No answer came in time: it is unknown whether the statement took effect. */
export const timedOut = faultError("silent")
/** A connection pooler drops the session settings. */
export const settingsDropped = faultError("settingsDropped")
/** A connection pooler shares one session of the server between several clients. */
export const pooled = faultError("pooled")
/** An older copy of the database answers instead. */
export const replaced = faultError("replaced")
/** No connection became free in time. */
export const poolExhausted = faultError("poolExhausted")

/** Whether the transaction may be lost: the connection failed. */
export const isLost = (error: SqlError): boolean => error.reason._tag === "ConnectionError"

/** The server's code of an error, if it has one. */
export const codeOf = ({ reason: { cause } }: SqlError): unknown =>
  cause instanceof StoreFault ? cause.code : cause instanceof Error && "code" in cause ? cause.code : undefined
