/**
 * What errors of PostgreSQL, and of connections to it, mean: which fault of the store, and which kind of SQL error.
 *
 * Invariants
 * 1. What a server says of values stays here: errors tell its code and where, never what a row holds   (I11)
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
  [/^53300$/, "crowded"],
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
  // a statement that this session prepared is not there, or one that it did not prepare is
  [/^(26000|42P05)$/, "pooled"]
]

/** Null for what is no fault of the database: conflicts that are tried again, and values that it does not take. */
export const ofSqlState = (code: string): FaultKind | null => {
  if (/^(40|21|22|23|44)/.test(code)) return null
  return sqlStates.find(([pattern]) => pattern.test(code))?.[1] ?? "refused"
}

/** Of a connection that could not be made, or broke: the system's code, or OpenSSL's. */
export const ofConnection = (code: string | undefined, isMade: boolean): FaultKind => {
  if (code !== undefined && /CERT|TLS|SSL|EPROTO|UNABLE_TO/.test(code)) return "encryption"
  if (code === "ETIMEDOUT") return "silent"
  return isMade ? "lost" : "unreachable"
}

/** An error as the server tells it. */
interface ServerError extends Error {
  readonly code: string
  readonly table?: string
  readonly constraint?: string
}

const isServerError = (cause: unknown): cause is ServerError =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" && "severity" in cause

/** Classes of SQLSTATE whose message may quote a value: data, constraints, and what functions raise. */
const statesQuotingValues = /^(21|22|23|44|P0)/
/** The server ended the session, or begins none: silent for too long, going down, starting, full. */
const ended = /^(25P0[34]|57P0[1235]|53300)$/

const withoutValues = ({ code, constraint, message, table }: ServerError): Error =>
  Object.assign(new Error(statesQuotingValues.test(code) ? `SQLSTATE ${code}` : message), {
    code,
    ...(table === undefined ? {} : { table }),
    ...(constraint === undefined ? {} : { constraint })
  })

/** PgBouncer, where it is not told to ignore them. */
const refusesSettings = ({ code, message }: ServerError): boolean =>
  code === "08P01" && message.includes("startup parameter")

/** What the driver says of a connection that it gave up, where the system gives no code. */
const givenUp: ReadonlyArray<readonly [RegExp, FaultKind]> = [
  [/timed out/, "silent"],
  [/refused TLS|negotiate TLS|SSLRequest/, "encryption"]
]

const kindOf = ({ _tag, cause, message = "", operation }: SqlErrorReason): FaultKind => {
  if (_tag === "AuthenticationError") return "login"
  const known = givenUp.find(([pattern]) => pattern.test(message))
  if (known !== undefined) return known[1]
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : undefined
  return _tag === "ConnectionError" ? ofConnection(code, operation !== "connect") : "refused"
}

const reasonOf = (store: string, reason: SqlErrorReason): SqlErrorReason => {
  const { _tag, cause, message = "", operation = "query" } = reason
  const told = isServerError(cause)
  // of what was sent or read, only the line itself is known to quote nothing
  const plain = told ? withoutValues(cause) : _tag === "ConnectionError" ? cause : new Error(message)
  const kind = told ? refusesSettings(cause) ? "unsettled" : ofSqlState(cause.code) : kindOf(reason)
  const code = told ? cause.code : plain instanceof Error && "code" in plain ? String(plain.code) : undefined
  const props = { cause: kind === null ? plain : new StoreFault(kind, store, code, plain), message, operation }
  if (told && ended.test(cause.code)) return new ConnectionError(props)
  switch (_tag) {
    case "ConnectionError":
      return new ConnectionError(props)
    case "DeadlockError":
      return new DeadlockError(props)
    case "SerializationError":
      return new SerializationError(props)
    case "LockTimeoutError":
    case "StatementTimeoutError":
      return new LockTimeoutError(props)
    case "UniqueViolation":
    case "ConstraintError":
      return new ConstraintError(props)
    default:
      return new UnknownError(props)
  }
}

/** An error of the driver as one of the store that people know by this name. */
export const toSqlError = (store: string, error: SqlError): SqlError =>
  new SqlError({ reason: reasonOf(store, error.reason) })

const faultError = (kind: FaultKind) => (store: string): SqlError =>
  new SqlError({ reason: new ConnectionError({ cause: new StoreFault(kind, store), message: kind }) })

/** The answer did not come in time: whether a statement had its effect is not known. */
export const timedOut = faultError("silent")
/** A pooler between this process and the server keeps settings from it. */
export const unsettled = faultError("unsettled")
/** A pooler between this process and the server gives one session to several clients in turn. */
export const pooled = faultError("pooled")
/** An older copy answers in place of the database. */
export const replaced = faultError("replaced")
/** No connection became free in time. */
export const exhausted = faultError("exhausted")

/** Whether the server has the transaction no more, or cannot be asked. */
export const isLost = (error: SqlError): boolean => error.reason._tag === "ConnectionError"

/** The server's code of an error, if it has one. */
export const codeOf = ({ reason: { cause } }: SqlError): unknown =>
  cause instanceof StoreFault ? cause.code : cause instanceof Error && "code" in cause ? cause.code : undefined
