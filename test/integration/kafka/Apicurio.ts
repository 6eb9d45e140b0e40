/**
 * Apicurio Registry, a schema registry with Confluent's API, from Maven Central. Its schemas are in memory.
 *
 * Gotchas
 * - Version 3.0 is the last one for Java 17, which Debian 12 has.
 * - Its rule for all subjects applies also to a subject whose own rule is `NONE`.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { execFile, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { cachedFolder } from "../../support/services/CachedFolder.ts"
import { freePort } from "../../support/services/FreePort.ts"
import { installedPackages } from "../../support/services/PythonPackages.ts"
import { attempt, BrokerError, separateMissing } from "./Broker.ts"

const exec = promisify(execFile)
const version = "3.0.9"
export const login = { username: "rollcall", password: "registry-s3cret" }

const noPython = spawnSync("python3", ["-c", "import pip"]).status === 0 ? null : "no python3 with pip"
/** Why this machine cannot start the registry or decode values; null if it can. With `CI=true` a missing program is an error. */
export const missing = separateMissing ?? noPython
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need a schema registry: ${missing}`)

export interface Apicurio {
  /** The address of Confluent's API. */
  readonly url: string
  /** Sends a request and returns the JSON of the response. */
  readonly request: (method: "PUT", path: string, body: object) => Effect.Effect<unknown>
  /** The values of each topic, as Confluent's deserializer decodes and validates them; null for a message without a value. */
  readonly decode: (
    brokers: ReadonlyArray<string>,
    topics: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>>
}

const program = attempt(
  "fetching Apicurio Registry with Maven",
  () =>
    cachedFolder(`apicurio/${version}`, async (folder) => {
      const artifact = `io.apicurio:apicurio-registry-app:${version}:tar.gz:all`
      await exec("mvn", ["-q", "-B", "dependency:copy", `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`], {
        cwd: folder,
        timeout: 200_000
      })
      const archive = join(folder, `apicurio-registry-app-${version}-all.tar.gz`)
      await exec("tar", ["-xzf", archive, "-C", folder])
      await rm(archive)
    })
)

/** The process ends with the scope. */
export const apicurio = Effect.gen(function*() {
  const folder = yield* program
  const packages = yield* Effect.promise(() => installedPackages(join(import.meta.dirname, "confluent-kafka.txt")))
  const port = yield* Effect.promise(freePort)
  const settings = {
    "http.host": "127.0.0.1",
    "http.port": port,
    "http.auth.basic": true,
    "http.auth.permission.all.paths": "/*",
    "http.auth.permission.all.policy": "authenticated",
    "security.users.embedded.plain-text": true,
    [`security.users.embedded.users.${login.username}`]: login.password,
    [`security.users.embedded.roles.${login.username}`]: "sr-admin"
  }
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("java", [
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        ...Object.entries(settings).map(([name, value]) => `-Dquarkus.${name}=${value}`),
        "-jar",
        join(folder, `apicurio-registry-app-${version}-runner.jar`)
      ], { stdio: "ignore" })
    ),
    (child) =>
      Effect.promise(async () => {
        const ended = once(child, "close")
        child.kill("SIGKILL")
        await ended
      })
  )
  const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
  const { password, username } = login
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`
  const fetchJson = (method: string, path: string, body?: object): Promise<unknown> =>
    fetch(`${url}${path}`, {
      method,
      headers: { authorization, "content-type": "application/vnd.schemaregistry.v1+json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    }).then((response) => response.json())
  yield* attempt("asking the registry", () => fetchJson("GET", "/subjects")).pipe(
    Effect.retry(Schedule.spaced("100 millis")),
    Effect.timeoutOrElse({
      duration: "2 minutes",
      orElse: () => Effect.fail(new BrokerError({ message: "the registry did not come up within two minutes" }))
    })
  )
  const registry: Apicurio = {
    url,
    request: (method, path, body) => Effect.promise(() => fetchJson(method, path, body)),
    decode: (brokers, topics) =>
      Effect.promise(async () => {
        const args = [join(import.meta.dirname, "decode.py"), brokers.join(), url, `${username}:${password}`, ...topics]
        const { stdout } = await exec("python3", ["-W", "ignore", ...args], {
          env: { ...process.env, PYTHONPATH: packages },
          timeout: 60_000
        })
        return JSON.parse(stdout)
      })
  }
  return registry
})
