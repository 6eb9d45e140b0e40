/** A PostgreSQL server of its own for a benchmark. Unlike that of the tests, it waits for the disk at each commit. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { execFile, spawn } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { asServer, folder, freePort, say } from "../test/integration/postgres/Server.ts"

/** Starts the server with the default settings; returns the URL of its database. */
export const server = Effect.gen(function*() {
  const path = yield* folder
  const port = yield* freePort
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
