/** The files that build and run the containers. No container runs here: what the files say is read, and the health checks are executed. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Yaml from "effect/encoding/Yaml"
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { afterAll, describe } from "vitest"
import { freePort } from "../../support/services/FreePort.ts"
import { Program } from "../cli/Program.ts"
import { certificates, missing } from "../kafka/Certificates.ts"
import { acceptedSettings, argumentsOf, imageVariables, instructions, root } from "./DeployedSettings.ts"

interface Service {
  readonly image: string
  readonly command?: ReadonlyArray<string>
  readonly read_only?: boolean
  readonly tmpfs?: ReadonlyArray<string>
  readonly cap_drop?: ReadonlyArray<string>
  readonly security_opt?: ReadonlyArray<string>
  readonly privileged?: boolean
  readonly environment?: Readonly<Record<string, string | number>>
  readonly user?: string
  readonly working_dir?: string
  readonly ports?: ReadonlyArray<string>
  readonly volumes?: ReadonlyArray<string>
  readonly healthcheck?: { readonly test: ReadonlyArray<string> }
  readonly depends_on?: Readonly<Record<string, object>>
  readonly stop_grace_period?: string
  readonly extends?: { readonly file: string; readonly service: string }
}

const read = (path: string): string => readFileSync(join(root, path), "utf8")

/** The services of a compose file; one that extends a service of another file is that service. */
const servicesOf = (file: string): Readonly<Record<string, Service>> => {
  const { services } = Yaml.parse(read(file)) as { readonly services: Readonly<Record<string, Service>> }
  const resolve = (service: Service): Service => {
    if (service.extends === undefined) return service
    assert.deepStrictEqual(Object.keys(service), ["extends"])
    return servicesOf(join(dirname(file), service.extends.file))[service.extends.service] ??
      assert.fail(`${file} extends a service that does not exist`)
  }
  return Object.fromEntries(Object.entries(services).map(([name, service]) => [name, resolve(service)]))
}
const composeFiles = ["docker-compose.yml", "deploy/docker-compose.fleet.yml"]
const services = servicesOf("docker-compose.yml")

const manifest: { readonly bin: object } = JSON.parse(read("package.json"))
const token = "a-token-of-sufficient-length-0123456789"

/** The variables of a service, as compose passes them: `${NAME}` with the given value, `${NAME:-default}` with the default. */
const interpolated = (
  environment: NonNullable<Service["environment"]>,
  given: Readonly<Record<string, string>>
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      String(value).replaceAll(
        /\$\{(\w+)(?::?-([^}]*)|:\?[^}]*)?\}/g,
        (_, variable: string, otherwise?: string) =>
          given[variable] ?? otherwise ?? assert.fail(`${variable} has no value`)
      )
    ])
  )

const digest = /^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/
const folder = mkdtempSync(join(tmpdir(), "rollcall-container-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The exit code of a health check's command, with the clone in place of the image, and another port. */
const check = (command: ReadonlyArray<string>, port: number): number | null => {
  const [node, script = "", ...args] = command
  assert.strictEqual(node, "node")
  assert.match(script, /^\/app\//)
  const ports = args.map((arg) => arg === "4010" ? String(port) : arg)
  return spawnSync(process.execPath, [join(root, script.slice("/app/".length)), ...ports], {
    env: { ROLLCALL_HTTP_PORT: String(port) }
  }).status
}

describe("the image", () => {
  it("has a base that is pinned by digest, with the version of Node.js that the tests run", () => {
    const [argument = ""] = argumentsOf("ARG")
    const base = argument.replace("NODE_IMAGE=", "")
    assert.match(base, digest)
    assert.include(base, `node:${JSON.parse(read("package.json")).devDependencies.node}-slim@`)
    assert.deepStrictEqual(argumentsOf("FROM"), ["${NODE_IMAGE} AS console", "${NODE_IMAGE}"])
  })

  it("runs as a user that is not root, given as a number, after the last instruction that needs root", () => {
    assert.deepStrictEqual(argumentsOf("USER"), ["1000:1000"])
    const names = instructions.map(([name]) => name)
    assert.isAbove(names.indexOf("USER"), names.lastIndexOf("RUN"))
    assert.deepStrictEqual(argumentsOf("VOLUME"), ["/data"])
  })

  it("copies only files that exist and that .dockerignore lets through", () => {
    const allowed = read(".dockerignore").split("\n").filter((line) => line.startsWith("!")).map((line) =>
      line.slice(1)
    )
    const copied = argumentsOf("COPY").filter((text) => !text.startsWith("--from="))
      .flatMap((text) => text.split(" ").slice(0, -1))
    for (const path of copied) assert.isTrue(existsSync(join(root, path)), path)
    assert.sameMembers([...new Set(copied)], allowed)
    // where the process looks for the built console
    assert.include(argumentsOf("COPY"), "--from=console /app/dist/console ./dist/console")
  })

  it("builds the console from the files that its first stage copies", () => {
    const stage = instructions.slice(0, instructions.findLastIndex(([name]) => name === "FROM"))
    const folder = mkdtempSync(join(tmpdir(), "rollcall-stage-"))
    try {
      for (const path of stage.flatMap(([name, text]) => name === "COPY" ? text.split(" ").slice(0, -1) : [])) {
        cpSync(join(root, path), join(folder, path), { recursive: true })
      }
      symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
      const { status, stderr } = spawnSync(process.execPath, ["build.ts", "console"], { cwd: folder, encoding: "utf8" })
      assert.strictEqual(status, 0, stderr)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  const healthCheck = (): ReadonlyArray<string> => {
    const [text = ""] = argumentsOf("HEALTHCHECK")
    return JSON.parse(text.slice(text.indexOf("CMD") + "CMD".length))
  }

  /** Whether the health check passes while the service runs, and after it has ended. */
  const healthOfService = async (environment: Readonly<Record<string, string>>) => {
    const port = await freePort()
    const service = new Program(["start"], {
      ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
      ROLLCALL_API_KEY: "key",
      ROLLCALL_INTEGRATIONS: "sandbox:everything",
      ROLLCALL_HTTP_HOST: "0.0.0.0",
      ROLLCALL_ALLOW_PLAINTEXT: "http",
      ROLLCALL_HTTP_PORT: String(port),
      ROLLCALL_HTTP_TOKEN: "a-token-of-sufficient-length-0123456789",
      ROLLCALL_STORE: "sqlite::memory:",
      ...environment
    }, folder)
    let running: number | null
    try {
      await service.says(/"message":"started"/, "stderr")
      running = check(healthCheck(), port)
    } finally {
      await service.stop()
    }
    return { running, ended: check(healthCheck(), port) }
  }

  it("is healthy while the service responds, and unhealthy afterwards", async () => {
    assert.deepStrictEqual(await healthOfService({}), { running: 0, ended: 1 })
  })

  it.skipIf(missing !== null)(
    "is healthy while the service responds over TLS",
    () =>
      Effect.runPromise(Effect.scoped(Effect.flatMap(certificates, ({ path }) =>
        Effect.promise(async () => {
          const files = {
            ROLLCALL_HTTP_TLS_CERT_FILE: path("broker.pem"),
            ROLLCALL_HTTP_TLS_KEY_FILE: path("broker.key")
          }
          assert.deepStrictEqual(await healthOfService(files), { running: 0, ended: 1 })
        }))))
  )
})

describe.each(composeFiles)("%s", (file) => {
  const services = servicesOf(file)
  const rollcall = services["rollcall"] ?? assert.fail("there is no Rollcall")

  it.each(Object.entries(services))("gives %s no capabilities and no way to gain privileges", (name, service) => {
    assert.deepStrictEqual(service.cap_drop, ["ALL"])
    assert.deepStrictEqual(service.security_opt, ["no-new-privileges:true"])
    assert.isUndefined(service.privileged)
    if (name === "postgres") assert.match(service.user ?? "", /^[1-9]\d*:[1-9]\d*$/)
    else assert.isUndefined(service.user)
  })

  it.each(Object.entries(services))(
    "runs %s from a pinned image or from this clone, with a health check of its own or of the image",
    (name, service) => {
      if (service.image !== "rollcall") assert.match(service.image, digest)
      if (name !== "rollcall") assert.isDefined(service.healthcheck)
    }
  )

  it.each(Object.entries(services))("publishes ports of %s on loopback only", (_, { ports = [] }) => {
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:/)
  })

  it("has no token of the operating API and no password of its database", () => {
    const secrets = Object.values(services).flatMap(({ environment = {} }) => Object.entries(environment))
      .filter(([name]) => /TOKEN|PASSWORD/.test(name))
    const names = "postgres" in services ? ["ROLLCALL_HTTP_TOKEN", "POSTGRES_PASSWORD"] : ["ROLLCALL_HTTP_TOKEN_FILE"]
    assert.sameMembers(secrets.map(([name]) => name), names)
    for (const [name, value] of secrets) {
      assert.match(String(value), name.endsWith("_FILE") ? /^\/data\// : new RegExp(`^\\$\\{${name}:\\?[^}]*\\}$`))
    }
  })

  it("gives Rollcall and the sandbox a read-only file system, with a /tmp in memory and a volume for a SQLite store", () => {
    for (const { read_only, tmpfs } of Object.values(services).filter(({ image }) => image === "rollcall")) {
      assert.isTrue(read_only)
      assert.match(tmpfs?.join() ?? "", /^\/tmp:.*noexec/)
    }
    assert.deepStrictEqual(rollcall.volumes, "postgres" in services ? undefined : ["store:/data"])
  })

  it("starts Rollcall after what it needs, publishes its port, and gives it time to stop", () => {
    assert.sameMembers(
      Object.keys(rollcall.depends_on ?? {}),
      Object.keys(services).filter((name) => name !== "rollcall")
    )
    assert.match(rollcall.ports?.join() ?? "", /:8477$/)
    assert.isAtLeast(Number.parseInt(rollcall.stop_grace_period ?? "", 10), 40)
  })

  it.effect("configures Rollcall with variables that it knows, and with values that it accepts", () =>
    Effect.gen(function*() {
      const given = { ROLLCALL_HTTP_TOKEN: token, POSTGRES_PASSWORD: token }
      const file = join(folder, "token")
      writeFileSync(file, token)
      const variables = interpolated(rollcall.environment ?? {}, given)
      const { store, http } = yield* acceptedSettings({
        ...imageVariables,
        ...variables,
        ..."ROLLCALL_HTTP_TOKEN_FILE" in variables ? { ROLLCALL_HTTP_TOKEN_FILE: file } : {}
      })
      assert.strictEqual(store._tag, "postgres" in services ? "Postgres" : "Sqlite")
      assert.strictEqual(http.port, 8477)
    }))
})

describe("the compose file of a new project", () => {
  const { rollcall, sandbox, ...others } = servicesOf("templates/project/docker-compose.yml")
  if (rollcall === undefined || sandbox === undefined) assert.fail("a service is missing")

  it("runs both services from the project's folder, in the version of Node.js of the image, without capabilities", () => {
    assert.deepStrictEqual(others, {})
    const [base = ""] = argumentsOf("ARG")
    const major = /node:(\d+)\./.exec(base)?.[1] ?? assert.fail(base)
    for (const { cap_drop, command, image, security_opt, volumes, working_dir } of [rollcall, sandbox]) {
      assert.strictEqual(image, `node:${major}-slim`)
      assert.strictEqual(command?.[0], `node_modules/.bin/${Object.keys(manifest.bin)[0]}`)
      assert.strictEqual(working_dir, "/app")
      assert.strictEqual(volumes?.[0], ".:/app:ro")
      assert.deepStrictEqual([cap_drop, security_opt], [["ALL"], ["no-new-privileges:true"]])
    }
  })

  it.effect("gives Rollcall variables that it accepts: the address of the sandbox, a store in a volume, and the port that is published", () =>
    Effect.gen(function*() {
      const variables = interpolated(rollcall.environment ?? {}, { ROLLCALL_HTTP_TOKEN: token })
      const { accounts, http, store } = yield* acceptedSettings({
        ...variables,
        ROLLCALL_INTEGRATIONS: "greenhouse:acme"
      })
      const { command = [] } = sandbox
      const port = command[command.indexOf("--port") + 1]
      assert.deepStrictEqual(Object.values(accounts).map(({ url }) => url), [`http://sandbox:${port}/v1`])
      assert.deepStrictEqual(rollcall.ports, [`127.0.0.1:${http.port}:${http.port}`])
      assert.strictEqual(rollcall.volumes?.[1], "store:/data")
      assert.isTrue(store._tag === "Sqlite" && store.file.startsWith("/data/"))
      assert.strictEqual(rollcall.stop_grace_period, services["rollcall"]?.stop_grace_period)
    }))
})

describe("the command of Rollcall in docker-compose.yml", () => {
  it("makes the token of the operating API once, for its user alone, and logs the command that prints it", () => {
    const { command: [script = ""] = [], environment = {} } = services["rollcall"] ??
      assert.fail("there is no Rollcall")
    const programs = mkdtempSync(join(folder, "programs-"))
    writeFileSync(join(programs, "rollcall"), '#!/bin/sh\necho "rollcall $*"\n', { mode: 0o755 })
    const file = join(programs, basename(String(environment["ROLLCALL_HTTP_TOKEN_FILE"])))
    const start = () =>
      spawnSync(join(root, script.slice("/app/".length)), {
        env: { PATH: `${programs}:/usr/bin:/bin`, ROLLCALL_HTTP_TOKEN_FILE: file },
        encoding: "utf8"
      })
    const first = start()
    const made = readFileSync(file, "utf8")
    assert.match(made, /^[0-9a-f]{64}$/)
    assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    assert.include(first.stdout, `docker compose exec rollcall cat ${file}\nrollcall start\n`)
    assert.notInclude(first.stdout + first.stderr, made)
    assert.deepStrictEqual([start().status, readFileSync(file, "utf8")], [0, made])
  })
})

describe("the health check of the sandbox", () => {
  it("calls the sandbox healthy while it responds", async () => {
    const { command = [], healthcheck } = services["sandbox"] ?? assert.fail("there is no sandbox")
    const sandbox = new Program(command.slice(1).map((arg) => arg === "4010" ? "0" : arg).concat("--json"), {}, folder)
    const test = healthcheck?.test.slice(1) ?? []
    try {
      const { url }: { readonly url: string } = JSON.parse((await sandbox.says(/^\{.*\}$/m))[0])
      assert.strictEqual(check(test, Number(new URL(url).port)), 0)
    } finally {
      await sandbox.stop()
    }
    assert.strictEqual(check(test, await freePort()), 1)
  })
})
