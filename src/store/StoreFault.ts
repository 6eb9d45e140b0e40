/**
 * Why a database does not do what it was asked, by cause: what happened, and what a person can do about it.
 *
 * Invariants
 * 1. A fault names the store without its login, and quotes neither the database nor what was stored   (I11)
 *
 * Gotchas
 * - A refused statement is `refused`: the database works, so only the statement's own caller has a problem.
 */
import { isSqlError } from "effect/sql/SqlError"

interface FaultTraits {
  readonly what: string
  readonly remedy: string
  /** What shows that it is over: any answer, or only something written. */
  readonly endedBy: "answer" | "write"
  /** It often passes while the same work is tried again: an outage only if it lasts. */
  readonly passing: boolean
  /** How long it must not have occurred again, ms: where some statements work while others fail. */
  readonly settle: number
}

const answer = { endedBy: "answer", passing: false, settle: 10_000 } as const
const write = { endedBy: "write", passing: false, settle: 10_000 } as const
const passing = { endedBy: "answer", passing: true, settle: 0 } as const

const traitsByKind = {
  unreachable: {
    ...passing,
    what: "the database server cannot be reached",
    remedy: "check that it runs, and that host and port are right and open to this machine"
  },
  unopenable: {
    ...answer,
    what: "the database file cannot be opened",
    remedy: "check that its directory is there, and that both may be read and written by this user"
  },
  lost: {
    ...passing,
    what: "the connection to the database was lost",
    remedy: "check the server's log, and what lies between it and this machine"
  },
  starting: {
    ...passing,
    what: "the database server is starting, stopping or recovering",
    remedy: "wait for it; if it lasts, look at the server's log"
  },
  silent: {
    ...passing,
    passing: false,
    what: "the database does not answer",
    remedy:
      "of a server, check its load, what its sessions wait for (pg_stat_activity), and the network or proxy in between; "
      + "of a file, check its disk"
  },
  replaced: {
    ...write,
    what: "an older copy of the database answers, which lacks commits of this process",
    remedy:
      "bring back the database that has what was committed, and Rollcall goes on by itself; or stop Rollcall, run "
      + "`rollcall store adopt`, and start it again"
  },
  slow: {
    ...answer,
    settle: 60_000,
    what: "the database answers some statements too late",
    remedy: "check its load, and what its sessions wait for (pg_stat_activity)"
  },
  exhausted: {
    ...answer,
    what: "every connection that Rollcall may open to the database is in use",
    remedy: "its statements take too long: check the server's load and what its sessions wait for (pg_stat_activity)"
  },
  crowded: {
    ...answer,
    what: "the database server has no free connection",
    remedy: "end other clients, or raise max_connections or the limit of the role or database; Rollcall uses up to 10"
  },
  login: {
    ...answer,
    what: "the database refuses the login",
    remedy:
      "check user and password, and whether pg_hba.conf lets this machine in, without TLS too if sslmode is not set"
  },
  missing: { ...answer, what: "the database does not exist", remedy: "create it, or name another one" },
  encryption: {
    ...answer,
    what: "no encrypted connection to the database could be made",
    remedy:
      "check sslmode, that the server speaks TLS, and that its certificate is valid and trusted (NODE_EXTRA_CA_CERTS)"
  },
  pooled: {
    ...answer,
    what: "a connection pooler shares the sessions of this database between clients",
    remedy: "give Rollcall the address of the server itself, or of a pool in session mode"
  },
  unsettled: {
    ...answer,
    what: "the settings of Rollcall's sessions do not reach the database server: a connection pooler drops them",
    remedy:
      "give Rollcall the address of the server itself, or set them for its role (docs/configuration.md, PgBouncer)"
  },
  denied: {
    ...answer,
    what: "the database denies a permission",
    remedy: "give the user back all rights on the schema or file, as its owner has"
  },
  readOnly: {
    ...write,
    what: "the database is read-only",
    remedy: "check that it is no replica, that default_transaction_read_only is off, or that the file may be written"
  },
  full: { ...write, what: "the disk of the database is full", remedy: "make room on it" },
  disk: {
    ...write,
    what: "the disk of the database fails to read or write",
    remedy: "check that it has room, that no quota or limit on file size is reached, and that it is sound"
  },
  damaged: {
    ...write,
    settle: 600_000,
    what: "the database is damaged",
    remedy: "stop Rollcall, keep a copy, restore a backup, and run `rollcall store adopt`"
  },
  locked: {
    ...write,
    passing: true,
    what: "another process holds a lock on the database",
    remedy: "find what holds it, such as a shell, a backup or a second Rollcall, and let it finish or end it"
  },
  exceeded: { ...answer, what: "the database server lacks memory or another resource", remedy: "look at its log" },
  refused: {
    ...answer,
    what: "the database refused a statement",
    remedy: "look at the database's log; if it says nothing that you can change, please report it"
  }
} as const satisfies Record<string, FaultTraits>

export type FaultKind = keyof typeof traitsByKind

export const faultKinds = Object.keys(traitsByKind) as ReadonlyArray<FaultKind>

export const traitsOf = (kind: FaultKind): FaultTraits => traitsByKind[kind]

/** `store` is what people know it by, without the login; `code` is the SQLSTATE, SQLite's result code or the system's. */
export class StoreFault extends Error {
  readonly kind: FaultKind
  readonly store: string
  readonly code: string | undefined
  constructor(kind: FaultKind, store: string, code?: string | undefined, cause?: unknown) {
    super(`${traitsByKind[kind].what} (${[store, ...code === undefined ? [] : [code]].join(", ")})`, { cause })
    this.kind = kind
    this.store = store
    this.code = code
  }
  get hint(): string {
    return traitsByKind[this.kind].remedy
  }
}

/** The fault that an error of the database carries. */
export const faultOf = (error: unknown): StoreFault | null => {
  const cause = isSqlError(error) ? error.reason.cause : error
  return cause instanceof StoreFault ? cause : null
}
