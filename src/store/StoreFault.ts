/**
 * Why a database fails to serve a statement: each kind of fault has a description and a remedy for the operator.
 *
 * Invariants
 * 1. A fault names the store without its login, and quotes neither the database's message nor stored data   (I11)
 * 2. A fault that SQLite can have names no tool, setting or log of a database server
 *
 * Gotchas
 * - `refused` concerns a single statement: the database works, so only the caller of that statement has a problem.
 */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { isSqlError, SqlError, UnknownError } from "effect/sql/SqlError"

interface FaultTraits {
  readonly description: string
  readonly remedy: string
  /** The event that proves that the fault is over: any response, or only a successful write. */
  readonly endedBy: "response" | "write"
  /** True if the fault often passes while the statement is retried, so that it is reported as an outage only if it lasts. */
  readonly transient: boolean
  /** The fault is over only if it has not occurred for this long, in ms: some statements may work while others fail. */
  readonly settle: number
}

const response = { endedBy: "response", transient: false, settle: 10_000 } as const
const write = { endedBy: "write", transient: false, settle: 10_000 } as const
const transient = { endedBy: "response", transient: true, settle: 0 } as const

const traitsByKind = {
  unreachable: {
    ...transient,
    description: "the database server cannot be reached",
    remedy: "check that it runs, that host and port are correct, and that this machine may connect to them"
  },
  unopenable: {
    ...response,
    description: "the database file cannot be opened",
    remedy: "check that its directory exists, and that this user may read and write both"
  },
  lost: {
    ...transient,
    description: "the connection to the database was lost",
    remedy: "check the server's log, and the network or proxy between it and this machine"
  },
  starting: {
    ...transient,
    description: "the database server is starting, stopping or recovering",
    remedy: "wait; if this lasts, check the server's log"
  },
  silent: {
    ...transient,
    transient: false,
    description: "the database does not answer",
    remedy: "check the load and the disk of the database, and for a server the network or proxy in between"
  },
  replaced: {
    ...write,
    description: "an older copy of the database answers, which lacks commits of this process",
    remedy: "bring back the database that has all commits, and Rollcall continues by itself; or stop Rollcall, run "
      + "`rollcall store adopt`, and start it again"
  },
  slow: {
    ...response,
    settle: 60_000,
    description: "the database answers some statements too late",
    remedy: "check the load and the disk of the database; docs/runbooks/RollcallStoreSlow.md lists the causes"
  },
  poolExhausted: {
    ...response,
    description: "all connections that Rollcall may open to the database are in use",
    remedy: "statements take too long: check the server's load and what its sessions wait for (pg_stat_activity)"
  },
  tooManyClients: {
    ...response,
    description: "the database server has no free connection",
    remedy:
      "end other clients, or raise max_connections or the limit of the role or database; each process uses up to 13"
  },
  login: {
    ...response,
    description: "the database refuses the login",
    remedy:
      "check the user and the password, and in pg_hba.conf whether this machine may connect (also without TLS, if sslmode is "
      + "not set) and whether a client certificate is required (sslcert, sslkey)"
  },
  missing: { ...response, description: "the database does not exist", remedy: "create it, or configure another one" },
  encryption: {
    ...response,
    description: "an encrypted connection to the database could not be established",
    remedy:
      "check that the server supports TLS, and that its certificate is valid, names the host of the address, and is signed "
      + "by a certificate in the file of sslrootcert (without it, by one that Node.js trusts or in NODE_EXTRA_CA_CERTS)"
  },
  pooled: {
    ...response,
    description: "a connection pooler shares the sessions of this database between clients",
    remedy: "configure the address of the server itself, or of a pool in session mode"
  },
  settingsDropped: {
    ...response,
    description:
      "a connection pooler drops the settings of Rollcall's sessions, so they do not reach the database server",
    remedy:
      "configure the address of the server itself, or set them for Rollcall's role (docs/configuration.md, PgBouncer)"
  },
  denied: {
    ...response,
    description: "the database denies a permission",
    remedy: "give the user the rights of the owner on the schema or file again"
  },
  readOnly: {
    ...write,
    description: "the database is read-only",
    remedy:
      "check that this user may write it, and for a server that it is neither a replica nor set to read-only transactions"
  },
  full: { ...write, description: "the disk of the database is full", remedy: "free space on it" },
  disk: {
    ...write,
    description: "the disk of the database reports read or write errors",
    remedy: "check that it has free space, that no quota or file size limit is reached, and that it is not defective"
  },
  damaged: {
    ...write,
    settle: 600_000,
    description: "the database is damaged",
    remedy: "stop Rollcall, keep a copy of the database, restore a backup, and run `rollcall store adopt`"
  },
  locked: {
    ...write,
    transient: true,
    description: "another process holds a lock on the database",
    remedy: "find the process, such as a shell, a backup or a second Rollcall, and let it finish or end it"
  },
  exceeded: {
    ...response,
    description: "the database lacks memory or another resource",
    remedy: "check the memory of its machine, and for a server its log"
  },
  refused: {
    ...response,
    description: "the database refused a statement",
    remedy: "please report this; for a server first look for a cause in its log"
  }
} as const satisfies Record<string, FaultTraits>

export type FaultKind = keyof typeof traitsByKind

export const faultKinds = Object.keys(traitsByKind) as ReadonlyArray<FaultKind>

export const traitsOf = (kind: FaultKind): FaultTraits => traitsByKind[kind]

/** `store` is the store's name for people, without the login; `code` is the SQLSTATE, SQLite's result code or the operating system's. */
export class StoreFault extends Error {
  readonly kind: FaultKind
  readonly store: string
  readonly code: string | undefined
  constructor(kind: FaultKind, store: string, code?: string | undefined, cause?: unknown) {
    super(`${traitsByKind[kind].description} (${[store, ...code === undefined ? [] : [code]].join(", ")})`, { cause })
    this.kind = kind
    this.store = store
    this.code = code
  }
  get hint(): string {
    return traitsByKind[this.kind].remedy
  }
}

/** The fault in a database error; null if there is none. */
export const faultOf = (error: unknown): StoreFault | null => {
  const cause = isSqlError(error) ? error.reason.cause : error
  return cause instanceof StoreFault ? cause : null
}

/** The fault in an error, as JSON for another process. The rest of the error is left out, because it may quote stored data   (I11). */
export const FaultCause = Schema.NullOr(
  Schema.Struct({ kind: Schema.Literals(faultKinds), store: Schema.String, code: Schema.optionalKey(Schema.String) })
).pipe(Schema.decodeTo(
  Schema.Unknown,
  SchemaTransformation.transform({
    decode: (fault): unknown => fault && new StoreFault(fault.kind, fault.store, fault.code),
    encode: (cause: unknown) => {
      const fault = faultOf(cause)
      return fault && { kind: fault.kind, store: fault.store, ...fault.code !== undefined && { code: fault.code } }
    }
  })
))

/** A database error whose exact cause is known: a `StoreFault`, or the `StoreError` that callers get. */
export const sqlErrorOf = (cause: Error, message: string, operation = "execute"): SqlError =>
  new SqlError({ reason: new UnknownError({ cause, message, operation }) })
