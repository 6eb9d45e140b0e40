/** Variables and fields that Rollcall does not know, and flags that take precedence over variables. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { inDirectory, runCommand, sandboxed } from "./Program.ts"

const variables = { ROLLCALL_API_URL: "http://127.0.0.1:9/v1", ROLLCALL_API_KEY: "k3y", ROLLCALL_HTTP_PORT: "0" }
const misspelled = {
  ROLLCALL_INTERVALL: "5 minutes",
  KAFKA_BROKER: "b:9092",
  ROLLCALL_OWN: "x",
  ROLLCALL_MORE_FILE: "rollcall.config.ts"
}

/** A plugin whose configuration has variables that start like those of Rollcall. */
const file = `import * as Config from "effect/Config"
import { defineConfig } from "rollcall"
import * as Plugin from "rollcall/plugin"
const config = Config.all({ own: Config.String("ROLLCALL_OWN"), more: Config.option(Config.Redacted("ROLLCALL_MORE")) })
export default defineConfig({ plugins: [Plugin.make("own", { config }).on("ats.tag.created", {}, async () => {})] })
`

const lines = (text: string): ReadonlyArray<Record<string, unknown>> =>
  text.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line))
const warnings = (text: string) => lines(text).filter(({ level }) => level === "warn")

describe("a misspelled variable", () => {
  it("is a warning of start and doctor with the closest name, and a variable of a plugin is none", () =>
    inDirectory(async (directory) => {
      writeFileSync(join(directory, "rollcall.config.ts"), file)
      const environment = { ...variables, ...misspelled }
      const { stderr } = await runCommand(["start", "--once"], environment, directory)
      const warned = warnings(stderr)
      assert.deepStrictEqual(warned.map(({ message }) => message).slice(0, 2), [
        "KAFKA_BROKER is not a variable of Rollcall, so it has no effect",
        "ROLLCALL_INTERVALL is not a variable of Rollcall, so it has no effect"
      ])
      assert.match(String(warned[1]?.["hint"]), /^Did you mean ROLLCALL_INTERVAL\?/)
      const { stdout } = await runCommand(["doctor"], environment, directory)
      assert.match(stdout, /^warning {2}configuration: ROLLCALL_INTERVALL is not .*Did you mean ROLLCALL_INTERVAL\?/m)
      assert.notInclude(stdout + stderr, "ROLLCALL_OWN is")
      assert.notInclude(stdout + stderr, "ROLLCALL_MORE")
    }))

  it("is reported together with the mistake that it causes", () =>
    inDirectory(async (directory) => {
      const environment = { ROLLCALL_API_URL: "https://api.example.com/v1", ROLLCALL_API_KY: "k3y" }
      const { stderr } = await runCommand(["start"], environment, directory)
      assert.match(stderr, /ROLLCALL_API_KY is not a variable .*ROLLCALL_API_KEY\?[^]*ROLLCALL_API_KEY: is not set/)
      const { code, stdout } = await runCommand(["doctor", "--json"], environment, directory)
      const { checks } = JSON.parse(stdout)
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(checks.map(({ status }: { status: string }) => status), ["problem", "warning"])
      assert.notInclude(stdout + stderr, "k3y")
    }))
})

describe("a variable of OpenTelemetry that Rollcall cannot follow", () => {
  it("is a warning of start and doctor, and nothing is exported", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const cluster = {
        ...environment,
        ROLLCALL_MODELS: "ats.tag",
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317",
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
        OTEL_METRICS_EXPORTER: "prometheus"
      }
      const { code, stderr } = await runCommand(["start", "--once"], cluster, directory)
      assert.strictEqual(code, 0, stderr)
      assert.deepStrictEqual(warnings(stderr).map(({ message }) => message), [
        "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which Rollcall does not speak, so traces are not exported",
        'OTEL_METRICS_EXPORTER "prometheus" is not allowed, so metrics are not exported'
      ])
      const doctor = await runCommand(["doctor"], cluster, directory)
      assert.strictEqual(doctor.code, 0, doctor.stdout)
      assert.match(doctor.stdout, /^warning {2}configuration: OTEL_METRICS_EXPORTER .*not exported/m)
    }))
})

describe("a redaction rule for a field that Rollcall does not know", () => {
  it("is a warning of start and doctor with the closest name (I11)", () =>
    inDirectory(async (directory) => {
      const redact = `{ "/candidate/frist_name": "drop", "/custom_fields/shoe": "drop" }`
      const config = `export default { models: { "ats.application": { redact: ${redact} } } }`
      writeFileSync(join(directory, "rollcall.config.ts"), config)
      const { stderr } = await runCommand(["start", "--once"], variables, directory)
      const [warned] = warnings(stderr)
      assert.match(
        String(warned?.["message"]),
        /redact\["\/candidate\/frist_name"\] names no field of ats\.application/
      )
      assert.match(String(warned?.["hint"]), /^Did you mean \/candidate\/first_name\?/)
      const { stdout } = await runCommand(["doctor"], variables, directory)
      assert.match(
        stdout,
        /^warning {2}configuration: rollcall\.config\.ts, models\["ats\.application"\]\.redact.*\/candidate\/first_name\?/m
      )
      assert.notInclude(stdout + stderr, "shoe")
    }))
})

describe("start --log-level", () => {
  const levels = async (args: ReadonlyArray<string>, directory: string) => {
    const environment = {
      ...variables,
      ROLLCALL_LOG_LEVEL: "warn",
      ROLLCALL_INTEGRATIONS: "a:b",
      ROLLCALL_MODELS: "ats.tag",
      ROLLCALL_RETRY_BASE: "5 milliseconds"
    }
    const { stderr } = await runCommand(["start", "--once", ...args], environment, directory)
    return new Set(lines(stderr).map(({ level }) => level))
  }

  it("takes precedence over ROLLCALL_LOG_LEVEL", () =>
    inDirectory(async (directory) => {
      assert.isFalse((await levels([], directory)).has("info"))
      assert.isTrue((await levels(["--log-level", "info"], directory)).has("info"))
      assert.deepStrictEqual([...await levels(["--log-level", "error"], directory)], ["error"])
    }))

  it("lists the levels if the given one is none", () =>
    inDirectory(async (directory) => {
      const { code, stderr, stdout } = await runCommand(["start", "--log-level", "loud"], variables, directory)
      assert.strictEqual(code, 2)
      assert.match(stdout + stderr, /trace.*debug.*info.*warn.*error/s)
    }))
})
