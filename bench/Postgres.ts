/**
 * PostgreSQL for the benchmarks: the server of `DATABASE_URL`, or one that is started with the default settings. Unlike that of the tests,
 * it waits for the disk at each commit.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { execFile, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { promisify } from "node:util"
import { asServer, folder, say } from "../test/integration/postgres/Server.ts"
import { freePort } from "../test/support/services/FreePort.ts"

/** Starts the server; returns the URL of its database. */
const server = Effect.gen(function*() {
  const path = yield* folder
  const port = yield* Effect.promise(freePort)
  const data = join(path, "data")
  const [initdb, options] = asServer("initdb", ["-D", data, "-U", "bench", "-E", "UTF8", "--locale=C", "-A", "trust"])
  yield* Effect.promise(() => promisify(execFile)(initdb, options, { cwd: path }))
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const [command, args] = asServer("postgres", ["-D", data, "-k", path, "-h", "127.0.0.1", "-p", String(port)])
      return spawn(command, args, { cwd: path, stdio: "ignore" })
    }),
    (running) =>
      Effect.callback<void>((resume) => {
        running.once("exit", () => resume(Effect.void))
        running.kill("SIGINT")
      })
  )
  const url = `postgres://bench@127.0.0.1:${port}/postgres`
  yield* say(url, "SELECT 1").pipe(Effect.retry(Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 400 }))))
  return url
})

export class Postgres {
  readonly #scope: Scope.Closeable
  readonly #url: string
  readonly #databases: Array<string> = []

  private constructor(scope: Scope.Closeable, url: string) {
    this.#scope = scope
    this.#url = url
  }

  static async start(): Promise<Postgres> {
    const scope = Scope.makeUnsafe()
    const url = process.env["DATABASE_URL"] ?? await Effect.runPromise(Scope.provide(server, scope))
    return new Postgres(scope, url)
  }

  /** URL of a new database. */
  async database(): Promise<string> {
    const name = `bench_${randomUUID().replaceAll("-", "")}`
    await Effect.runPromise(say(this.#url, `CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`))
    this.#databases.push(name)
    return Object.assign(new URL(this.#url), { pathname: `/${name}` }).href
  }

  async dropDatabases(): Promise<void> {
    for (const name of this.#databases.splice(0)) {
      await Effect.runPromise(say(this.#url, `DROP DATABASE ${name} WITH (FORCE)`))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dropDatabases()
    await Effect.runPromise(Scope.close(this.#scope, Exit.void))
  }
}
