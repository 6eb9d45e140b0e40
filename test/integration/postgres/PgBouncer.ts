/**
 * A real PgBouncer in front of a test's database.
 *
 * Invariants
 * 1. It runs in the scope that requested it, and ends with the process that started it.
 *
 * Gotchas
 * - PgBouncer refuses to run as root. If the tests run as root, it runs as `postgres`, like the server.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Certificate } from "../../support/services/Certificates.ts"
import { freePort } from "../../support/services/FreePort.ts"
import * as Server from "./Server.ts"

const program = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin"]
  .map((place) => join(place, "pgbouncer"))
  .find((path) => existsSync(path))

/** Why PgBouncer is missing on this machine; null if it is installed. With `CI=true` a missing PgBouncer is an error. */
export const missing: string | null = Server.missing ??
  (program === undefined || spawnSync("setpriv", ["--version"]).status !== 0 ? "no pgbouncer" : null)
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need PgBouncer: ${missing}`)

export interface Options {
  readonly mode: "session" | "transaction"
  /** Session settings that it drops; it rejects all others. */
  readonly ignored: ReadonlyArray<string>
  /** The certificate for its clients; they may also connect without TLS. */
  readonly tls?: Certificate
}

/** The address of the same database behind a PgBouncer. */
export const pooled = (database: string, { ignored, mode, tls }: Options) =>
  Effect.gen(function*() {
    const { hostname, password, pathname, port, username } = new URL(database)
    const path = yield* Server.folder
    const ownPort = yield* Effect.promise(freePort)
    const settings = {
      listen_addr: "127.0.0.1",
      listen_port: ownPort,
      unix_socket_dir: "",
      auth_type: "scram-sha-256",
      auth_file: join(path, "users"),
      pool_mode: mode,
      default_pool_size: 20,
      ignore_startup_parameters: ignored.join(","),
      ...(tls === undefined
        ? {}
        : { client_tls_sslmode: "allow", client_tls_cert_file: tls.certificate, client_tls_key_file: tls.key })
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
    const own = pathname.slice(1)
    const places = [`${own} = host=${hostname} port=${port || 5432} dbname=${own}`]
    yield* Effect.promise(async () => {
      await writeFile(join(path, "users"), `"${username}" "${decodeURIComponent(password)}"\n`, { mode: 0o644 })
      await writeFile(
        join(path, "config"),
        ["[databases]", ...places, "[pgbouncer]", ...lines, ""].join("\n"),
        { mode: 0o644 }
      )
    })
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        const [command, args] = Server.asServer(program ?? "", [join(path, "config")])
        return spawn(command, args, { cwd: path, stdio: "ignore" })
      }),
      (bouncer) =>
        Effect.callback<void>((resume) => {
          if (bouncer.exitCode !== null || bouncer.signalCode !== null) return resume(Effect.void)
          bouncer.once("exit", () => resume(Effect.void))
          bouncer.kill("SIGQUIT")
        })
    )
    const url = Object.assign(new URL(database), { hostname: "127.0.0.1", port: String(ownPort) }).href
    yield* Server.say(url, "SELECT 1").pipe(
      Effect.retry(Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 200 }))),
      Effect.orDie
    )
    return url
  })
