import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { complete } from "../../test/support/config/Checked.ts"
import * as Config from "./Config.ts"
import { isLoopback } from "./Plaintext.ts"

/** Mistakes that stop the start, or because of which something is not exported. */
const faultsOf = (variables: Record<string, string>, file?: unknown) =>
  Effect.map(complete(variables, file), (raw) => {
    const result = Config.check(raw)
    return Result.isFailure(result) ? result.failure.faults : result.success.telemetryFaults
  })

const api = (url: string) => ({ ROLLCALL_API_URL: url })
const database = (rest: string) => ({ DATABASE_URL: `postgres://u:p4ss@${rest}` })

describe("a connection to another machine", () => {
  const refused: ReadonlyArray<[variables: Record<string, string>, hint: RegExp]> = [
    [api("http://api.example.com/v1"), /Write https:/],
    [api("http://10.0.0.5:4010/v1"), /add api to ROLLCALL_ALLOW_PLAINTEXT/],
    [api("http://localhost.example.com/v1"), /https/],
    [api("http://127.0.0.1.example.com/v1"), /https/],
    [{ ...api("http://a/v1"), ROLLCALL_ALLOW_PLAINTEXT: "kafka, postgres" }, /add api/],
    [database("db.internal/feed"), /sslmode=verify-full/],
    [database("db.internal/feed?sslmode=disable"), /add postgres to ROLLCALL_ALLOW_PLAINTEXT/],
    [database("db.internal/feed?sslmode=allow"), /verify-full/],
    [database("db.internal/feed?sslmode=prefer"), /verify-full/],
    [database("db.internal/feed?sslmode=require&sslmode=prefer"), /verify-full/],
    [database("localhost/feed?host=10.0.0.5"), /verify-full/],
    [{ ...database("db.internal/feed"), ROLLCALL_ALLOW_PLAINTEXT: "api" }, /add postgres/],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://collector:4318/" }, /add otlp to ROLLCALL_ALLOW_PLAINTEXT/],
    [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://10.0.0.9/", ROLLCALL_ALLOW_PLAINTEXT: "http" }, /Use https/]
  ]
  it.effect.each(refused)(
    "is refused with %o, because it is not encrypted",
    ([variables, hint]) =>
      Effect.gen(function*() {
        const [fault, ...others] = yield* faultsOf(variables)
        assert.deepStrictEqual(others, [])
        assert.match(fault?.message ?? "none", /unencrypted/)
        assert.match(fault?.hint ?? "none", hint)
        assert.notInclude(JSON.stringify(fault), "p4ss")
      })
  )

  const accepted: ReadonlyArray<Record<string, string>> = [
    api("http://localhost:4010/v1"),
    api("http://127.0.0.1:4010/v1"),
    api("http://[::1]:4010/v1"),
    { ...api("http://api.example.com/v1"), ROLLCALL_ALLOW_PLAINTEXT: "api" },
    database("db.internal/feed?sslmode=require"),
    database("db.internal/feed?sslmode=verify-full"),
    database("db.internal/feed?sslmode=disable&sslmode=require"),
    database("localhost/feed"),
    database("127.0.0.1/feed?sslmode=prefer"),
    database("[::1]/feed"),
    database("%2Frun%2Fpostgresql/feed"),
    { DATABASE_URL: "postgres:///feed?user=u" },
    { DATABASE_URL: "postgres:///feed?host=/run/postgresql&sslmode=disable" },
    { ...database("db.internal/feed"), ROLLCALL_ALLOW_PLAINTEXT: "Postgres,api" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", ROLLCALL_ALLOW_PLAINTEXT: "otlp" }
  ]
  it.effect.each(accepted)("is accepted with %o", (variables) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* faultsOf(variables), [])
    }))

  it.effect("is refused for every account of the file, and allowed there by allowPlaintext", () =>
    Effect.gen(function*() {
      const file = { accounts: { eu: { url: "http://eu.example.com/v1", key: { secret: "ROLLCALL_API_KEY" } } } }
      const [fault] = yield* faultsOf({ ROLLCALL_API_URL: "" }, file)
      assert.strictEqual(fault?.where, "rollcall.config.ts, accounts.eu.url")
      assert.deepStrictEqual(yield* faultsOf({ ROLLCALL_API_URL: "" }, { ...file, allowPlaintext: ["api"] }), [])
    }))

  it.effect("that is misspelled in ROLLCALL_ALLOW_PLAINTEXT is a fault", () =>
    Effect.gen(function*() {
      const [fault] = yield* faultsOf({ ROLLCALL_ALLOW_PLAINTEXT: "postgresql" })
      assert.strictEqual(fault?.where, "ROLLCALL_ALLOW_PLAINTEXT")
      assert.match(fault?.hint ?? "none", /api, kafka, postgres/)
    }))

  it("is one whose host is not loopback, however it is written", () => {
    const own = ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]"]
    const others = ["127.0.0.256", "127.0.0", "127.a.b.c", "128.0.0.1", "0.0.0.0", "::", "localhost.", "db", ""]
    assert.deepStrictEqual([...own, ...others].filter(isLoopback), own)
  })
})
