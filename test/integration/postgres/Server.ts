/**
 * A real PostgreSQL server for tests: the one that `DATABASE_URL` names, or one started here, and a database for each test.
 *
 * Invariants
 * 1. A server started here belongs to its scope: process and data directory are gone when the scope closes, and it does
 *    not outlive the process that started it.
 * 2. A database belongs to the scope that asked for it.
 *
 * Gotchas
 * - The server refuses to run as root: there it runs as `postgres`.
 * - Started here it does not sync: nothing a test does outlives the machine.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { afterAll } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { existsSync, readdirSync } from "node:fs"
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { isAbsolute, join } from "node:path"
import { promisify } from "node:util"
import { address } from "./Address.ts"

const external = process.env["DATABASE_URL"]
const debian = "/usr/lib/postgresql"

/** Where the server's programs are; null if there are none. */
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

/** Why there is no server on this machine; null when there is one. With `CI=true` its absence is a failure. */
export const missing: string | null = external === undefined && !canStart ? needed : null
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need PostgreSQL: ${missing}`)

const asRoot = process.getuid?.() === 0
const idOf = (option: string) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }))

/** A program of the server, or one at a path: ends with its parent; as root it becomes another user first. */
export const asServer = (program: string, args: ReadonlyArray<string>): [string, ReadonlyArray<string>] => [
  "setpriv",
  [
    ...asRoot ? ["--reuid=postgres", "--regid=postgres", "--clear-groups"] : [],
    "--pdeathsig=SIGQUIT",
    isAbsolute(program) ? program : join(programs ?? "", program),
    ...args
  ]
]

export const freePort = Effect.promise(() =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })
)

export const folder = Effect.acquireRelease(
  Effect.promise(async () => {
    const path = await mkdtemp(join(tmpdir(), "rollcall-pg-"))
    if (asRoot) await chown(path, idOf("-u"), idOf("-g"))
    return path
  }),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

/** One statement over a connection of its own. */
export const say = (url: string, sql: string) =>
  Effect.scoped(
    Effect.flatMap(PgConnection.make({ url: Redacted.make(url) }), (connection) => connection.query(sql, [], false))
  )

const owner = { name: "rollcall", password: randomUUID() }

/** A new data directory inside `path`. */
const initialized = Effect.fnUntraced(function*(path: string) {
  const data = join(path, "data")
  const passwordFile = join(path, "password")
  yield* Effect.promise(async () => {
    await writeFile(passwordFile, owner.password)
    const initdb = ["-D", data, "-U", owner.name, "-E", "UTF8", "--locale=C", "--no-sync"]
    const [command, args] = asServer("initdb", [...initdb, "-A", "scram-sha-256", `--pwfile=${passwordFile}`])
    await promisify(execFile)(command, args, { cwd: path, timeout: 60_000 })
  })
  return data
})

/** A server over a data directory, once it answers. */
const running = Effect.fnUntraced(function*(path: string, data: string) {
  const port = yield* freePort
  const where = ["-D", data, "-k", path, "-h", "127.0.0.1", "-p", String(port)]
  const settings = ["fsync=off", "shared_buffers=32MB", "log_min_messages=panic"].flatMap((one) => ["-c", one])
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
  const url = `postgres://${owner.name}:${owner.password}@127.0.0.1:${port}/postgres`
  yield* say(url, "SELECT 1").pipe(Effect.retry(Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 400 }))))
  return url
})

const started = Effect.gen(function*() {
  const path = yield* folder
  return yield* running(path, yield* initialized(path))
})

/** Why no pair of servers can be started on this machine; null when one can. */
export const pairMissing: string | null = canStart && existsSync(join(programs, "pg_basebackup"))
  ? null
  : "no initdb, pg_basebackup and setpriv"
if (pairMissing !== null && process.env["CI"] === "true") throw new Error(`these tests need PostgreSQL: ${pairMissing}`)

/** A server and a replica that streams from it, at one address: each is reached by what `address` leads to. */
export const pair = Effect.gen(function*() {
  const [path, other] = [yield* folder, yield* folder]
  const primary = yield* running(path, yield* initialized(path))
  const data = join(other, "data")
  yield* Effect.promise(async () => {
    const [command, args] = asServer("pg_basebackup", ["-d", primary, "-D", data, "-R", "-X", "stream", "-c", "fast"])
    await promisify(execFile)(command, args, { cwd: other, timeout: 60_000 })
  })
  const replica = yield* running(other, data)
  const first = (sql: string, url: string) =>
    Effect.map(say(url, sql), ({ rows: [row] }) => Object.values(row ?? {})[0])
  return {
    primary,
    replica,
    address: yield* address(primary),
    /** The replica has all that the primary has. */
    caughtUp: Effect.gen(function*() {
      const newest = yield* first("SELECT pg_current_wal_flush_lsn()::text", primary)
      yield* Effect.repeat(first(`SELECT pg_last_wal_replay_lsn() >= '${String(newest)}'`, replica), {
        until: (reached) => reached === true,
        schedule: Schedule.spaced("20 millis")
      })
    }),
    /** From here on the replica gets nothing. */
    cutOff: Effect.gen(function*() {
      yield* say(replica, "ALTER SYSTEM SET primary_conninfo = ''")
      yield* say(replica, "SELECT pg_reload_conf()")
      yield* Effect.repeat(first("SELECT count(*)::integer FROM pg_stat_wal_receiver", replica), {
        until: (count) => count === 0,
        schedule: Schedule.spaced("20 millis")
      })
    }),
    /** The replica becomes a server of its own. */
    promote: Effect.asVoid(say(replica, "SELECT pg_promote(true)"))
  }
})

const named = (url: string, database: string): string => Object.assign(new URL(url), { pathname: `/${database}` }).href

export class Server extends Context.Service<Server, {
  /** The address of a database that nobody used before. */
  readonly database: Effect.Effect<string, never, Scope.Scope>
}>()("test/postgres/Server") {}

export const layer = Layer.effect(
  Server,
  Effect.map(external === undefined ? started : Effect.succeed(external), (url) => ({
    database: Effect.acquireRelease(
      Effect.gen(function*() {
        const name = `rollcall_${randomUUID().replaceAll("-", "")}`
        yield* say(url, `CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`)
        return name
      }),
      (name) => Effect.ignore(say(url, `DROP DATABASE ${name} WITH (FORCE)`))
    ).pipe(Effect.map((name) => named(url, name)), Effect.orDie)
  }))
).pipe(Layer.orDie)

/** One server for the tests of a file, started with the first that asks for a database. */
export const ofFile = (): Server["Service"] => {
  const runtime = ManagedRuntime.make(layer)
  afterAll(() => runtime.dispose())
  return { database: Effect.flatMap(runtime.contextEffect, (context) => Context.get(context, Server).database) }
}
