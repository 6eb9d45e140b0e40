/**
 * A real PostgreSQL server for tests: the one at `DATABASE_URL`, or one that all test files of a run share, with a new database for
 * each test.
 *
 * Invariants
 * 1. A server started here belongs to its scope: process and data directory are removed when the scope closes, and the server
 *    ends with the process that started it.
 * 2. A database belongs to the scope that requested it.
 *
 * Gotchas
 * - The server refuses to run as root. If the tests run as root, it runs as `postgres`.
 * - A server started here does not sync to disk, because test data need not survive a crash of the machine.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { afterAll } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { accessSync, constants, existsSync, readdirSync, statfsSync } from "node:fs"
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { isAbsolute, join } from "node:path"
import { promisify } from "node:util"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Certificates from "../../support/services/Certificates.ts"
import { freePort } from "../../support/services/FreePort.ts"
import { sharedService } from "../../support/services/SharedService.ts"
import { address } from "./Address.ts"

const external = process.env["DATABASE_URL"]
const debian = "/usr/lib/postgresql"

/** Directory of the server's programs; null if they are not installed. */
const programs = ((): string | null => {
  const places = [
    ...(process.env["PATH"] ?? "").split(":"),
    ...(existsSync(debian) ? readdirSync(debian).sort().reverse().map((version) => join(debian, version, "bin")) : [])
  ]
  const having = (...names: ReadonlyArray<string>) =>
    places.find((place) => names.every((name) => existsSync(join(place, name))))
  return having("initdb", "postgres", "pg_basebackup") ?? having("initdb", "postgres") ?? null
})()

const needed = "no DATABASE_URL, and no initdb and setpriv"
const canStart = programs !== null && spawnSync("setpriv", ["--version"]).status === 0

/** Why this machine has no server; null if it has one. With `CI=true` a missing server is an error. */
export const missing: string | null = external === undefined && !canStart ? needed : null
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need PostgreSQL: ${missing}`)

const asRoot = process.getuid?.() === 0
const idOf = (option: string) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }))

/** Command of a server program, or of a program at a path. It ends with its parent process; as root it changes the user first. */
export const asServer = (program: string, args: ReadonlyArray<string>): [string, ReadonlyArray<string>] => [
  "setpriv",
  [
    ...asRoot ? ["--reuid=postgres", "--regid=postgres", "--clear-groups"] : [],
    "--pdeathsig=SIGQUIT",
    isAbsolute(program) || program === "openssl" ? program : join(programs ?? "", program),
    ...args
  ]
]

/** The folder of the shared memory of the machine. */
const memory = "/dev/shm"

/**
 * Where servers keep their data: in memory if there is room for a gigabyte, else with other temporary files. Creating a database on a
 * busy disk takes five times the processor time.
 */
const home = ((): string => {
  try {
    const { bavail, bsize } = statfsSync(memory)
    accessSync(memory, constants.W_OK | constants.X_OK)
    return bavail * bsize > 2 ** 30 ? memory : tmpdir()
  } catch {
    return tmpdir()
  }
})()

export const folder = Effect.acquireRelease(
  Effect.promise(async () => {
    const path = await mkdtemp(join(home, "rollcall-pg-"))
    if (asRoot) await chown(path, idOf("-u"), idOf("-g"))
    return path
  }),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** Runs one statement over its own connection. */
export const say = (url: string, sql: string) =>
  Effect.scoped(
    Effect.flatMap(PgConnection.make({ url: Redacted.make(url) }), (connection) => connection.query(sql, [], false))
  )

const owner = "rollcall"

const execute = (cwd: string, program: string, args: ReadonlyArray<string>) =>
  Effect.promise(() => promisify(execFile)(...asServer(program, args), { cwd, timeout: 60_000 }))

/** A data directory that no server uses, and the password of its owner. */
export interface Cluster {
  readonly data: string
  readonly password: string
}

export const createCluster = Effect.gen(function*() {
  const path = yield* folder
  const [data, passwordFile, password] = [join(path, "data"), join(path, "password"), randomUUID()]
  yield* Effect.promise(() => writeFile(passwordFile, password))
  const initdb = ["-D", data, "-U", owner, "-E", "UTF8", "--locale=C", "--no-sync", "-A", "scram-sha-256"]
  yield* execute(path, "initdb", [...initdb, `--pwfile=${passwordFile}`])
  return { data, password } satisfies Cluster
})

const cluster = sharedService<Cluster>("cluster") ?? createCluster

/** A copy of the data directory inside `path`, which costs a tenth of a new one. */
const copyInto = Effect.fnUntraced(function*(path: string, { data, password }: Cluster) {
  yield* execute(path, "/bin/cp", ["-a", data, path])
  return { data: join(path, "data"), password } satisfies Cluster
})

/** A data directory inside `path`. All of them have the same system identifier. */
const initialized = (path: string) => Effect.flatMap(cluster, (one) => copyInto(path, one))

/** Starts a server with a data directory; returns once it answers. `port`: that of the server before a restart. */
const running = Effect.fnUntraced(function*(
  path: string,
  { data, password }: Cluster,
  own: ReadonlyArray<string> = [],
  givenPort: number | null = null
) {
  const port = givenPort ?? (yield* Effect.promise(freePort))
  const where = ["-D", data, "-k", path, "-h", "127.0.0.1", "-p", String(port)]
  const settings = [
    "fsync=off",
    "max_connections=300",
    "shared_buffers=32MB",
    "max_wal_size=128MB",
    "log_min_messages=panic",
    ...own
  ].flatMap((one) => ["-c", one])
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const [command, args] = asServer("postgres", [...where, ...settings])
      return spawn(command, args, { cwd: path, stdio: "ignore" })
    }),
    (server) =>
      Effect.callback<void>((resume) => {
        if (server.exitCode !== null || server.signalCode !== null) return resume(Effect.void)
        server.once("exit", () => resume(Effect.void))
        server.kill("SIGQUIT")
      })
  )
  const url = `postgres://${owner}:${password}@127.0.0.1:${port}/postgres`
  yield* say(url, "SELECT 1").pipe(Effect.retry(Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 400 }))))
  return url
})

/** Starts a server with a copy of the data directory; returns its URL. */
export const startCopy = Effect.fnUntraced(function*(one: Cluster) {
  const path = yield* folder
  return yield* running(path, yield* copyInto(path, one))
})

/** Starts a server without data; returns its URL. */
export const startServer = Effect.flatMap(cluster, startCopy)

/** A server that can be restarted: it ends all connections and transactions, and answers at the same address afterwards. */
export const restartable = Effect.gen(function*() {
  const path = yield* folder
  const own = yield* initialized(path)
  const parent = yield* Effect.scope
  let life = yield* Scope.fork(parent)
  const url = yield* Scope.provide(running(path, own), life)
  const restart = Effect.gen(function*() {
    yield* Scope.close(life, Exit.void)
    life = yield* Scope.fork(parent)
    yield* Scope.provide(running(path, own, [], Number(new URL(url).port)), life)
  })
  return { url, restart }
})

/** Why this machine cannot start a server of its own for a test; null if it can. */
export const ownMissing: string | null = canStart ? Certificates.missing : "no initdb and setpriv"
if (ownMissing !== null && process.env["CI"] === "true") throw new Error(`these tests need PostgreSQL: ${ownMissing}`)

/**
 * Starts a server with TLS whose certificate names `localhost`, signed by `trusted`. Its role `certified` has no password: it
 * must show a certificate that `trusted` signed. The server listens at 127.0.0.1, which the certificate does not name.
 */
export const startTlsServer = Effect.gen(function*() {
  const path = yield* folder
  const trusted = yield* Certificates.authority(path, "trusted", asServer)
  const other = yield* Certificates.authority(path, "other", asServer)
  const server = yield* trusted.sign("localhost")
  const own = yield* initialized(path)
  const hba = join(path, "pg_hba.conf")
  const rules = ["hostssl all certified all cert", "host all all all scram-sha-256"]
  yield* Effect.promise(() => writeFile(hba, rules.join("\n"), { mode: 0o644 }))
  const url = yield* running(path, own, [
    "ssl=on",
    `ssl_cert_file=${server.certificate}`,
    `ssl_key_file=${server.key}`,
    `ssl_ca_file=${trusted.certificate}`,
    `hba_file=${hba}`
  ])
  yield* say(url, "CREATE ROLE certified LOGIN SUPERUSER")
  return { url, trusted, other, folder: path }
})

/** Why this machine cannot start a pair of servers; null if it can. */
export const pairMissing: string | null = canStart && existsSync(join(programs, "pg_basebackup"))
  ? null
  : "no initdb, pg_basebackup and setpriv"
if (pairMissing !== null && process.env["CI"] === "true") throw new Error(`these tests need PostgreSQL: ${pairMissing}`)

/** A server and a replica that streams from it. `address` leads to one of them at a time. */
export const pair = Effect.gen(function*() {
  const [path, other] = [yield* folder, yield* folder]
  const own = yield* initialized(path)
  const primary = yield* running(path, own)
  const data = join(other, "data")
  yield* execute(other, "pg_basebackup", ["-d", primary, "-D", data, "-R", "-X", "stream", "-c", "fast"])
  const replica = yield* running(other, { ...own, data })
  const first = (sql: string, url: string) =>
    Effect.map(say(url, sql), ({ rows: [row] }) => Object.values(row ?? {})[0])
  return {
    primary,
    replica,
    address: yield* address(primary),
    /** Waits until the replica has all commits of the primary. */
    caughtUp: Effect.gen(function*() {
      const newest = yield* first("SELECT pg_current_wal_flush_lsn()::text", primary)
      yield* Effect.repeat(first(`SELECT pg_last_wal_replay_lsn() >= '${String(newest)}'`, replica), {
        until: (reached) => reached === true,
        schedule: Schedule.spaced("20 millis")
      })
    }),
    /** Stops replication. */
    cutOff: Effect.gen(function*() {
      yield* say(replica, "ALTER SYSTEM SET primary_conninfo = ''")
      yield* say(replica, "SELECT pg_reload_conf()")
      yield* Effect.repeat(first("SELECT count(*)::integer FROM pg_stat_wal_receiver", replica), {
        until: (count) => count === 0,
        schedule: Schedule.spaced("20 millis")
      })
    }),
    /** Promotes the replica to an independent server. */
    promote: Effect.asVoid(say(replica, "SELECT pg_promote(true)"))
  }
})

const named = (url: string, database: string): string => Object.assign(new URL(url), { pathname: `/${database}` }).href

export class Server extends Context.Service<Server, {
  /** URL of a new database. */
  readonly database: Effect.Effect<string, never, Scope.Scope>
  /** URL of a new database with an empty store of this version. It is a copy, so all of them are the same store. */
  readonly emptyStore: Effect.Effect<string, never, Scope.Scope>
}>()("test/postgres/Server") {}

export const layer = Layer.effect(
  Server,
  Effect.gen(function*() {
    const url = external ?? (yield* sharedService<string>("postgres") ?? startServer)
    const admin = yield* PgConnection.make({ url: Redacted.make(url) })
    const run = (sql: string) => admin.query(sql, [], false)
    const copyOf = (template: string) =>
      Effect.acquireRelease(
        Effect.gen(function*() {
          const name = `rollcall_${randomUUID().replaceAll("-", "")}`
          yield* run(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE ${template}`)
          return name
        }),
        (name) => Effect.ignore(run(`DROP DATABASE ${name} WITH (FORCE)`))
      ).pipe(Effect.orDie)
    const scope = yield* Effect.scope
    const store = yield* Effect.cached(
      Effect.gen(function*() {
        const name = yield* copyOf("template0")
        yield* Effect.scoped(Layer.build(Postgres.layer({ url: Redacted.make(named(url, name)), name })))
        return name
      }).pipe(Scope.provide(scope), Effect.orDie)
    )
    return {
      database: Effect.map(copyOf("template0"), (name) => named(url, name)),
      emptyStore: Effect.map(Effect.flatMap(store, copyOf), (name) => named(url, name))
    }
  })
).pipe(Layer.orDie)

/** The server for the tests of a file, started by the first test that requests a database. */
export const ofFile = (): Server["Service"] => {
  const runtime = ManagedRuntime.make(layer)
  afterAll(() => runtime.dispose())
  const server = Effect.map(runtime.contextEffect, Context.get(Server))
  return {
    database: Effect.flatMap(server, ({ database }) => database),
    emptyStore: Effect.flatMap(server, ({ emptyStore }) => emptyStore)
  }
}
