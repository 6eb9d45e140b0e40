/** Every HTTP client that Rollcall has, in the processes that use it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Origins, serverNames, withEveryClient } from "./EveryClient.ts"
import { Switchboard } from "./Switchboard.ts"

const login = "rollcall:p4ss:w0rd%"
const encodedLogin = login.split(/:(.*)/, 2).map(encodeURIComponent).join(":")

const originsAt = (originOf: (name: string) => string) =>
  Object.fromEntries(serverNames.map((name) => [name, originOf(name)])) as Origins

const isAboutTraces = (name: string) => /^(trace|b3|x-b3|baggage)/.test(name)

describe("a request of any client", () => {
  it.live(
    "to a loopback address goes there directly, and carries no header about the traces that are exported",
    () =>
      Effect.gen(function*() {
        using board = yield* Effect.promise(() => Switchboard.start())
        const reachedAs = async (origins: Origins) => {
          Object.assign(board.servers, origins)
          return originsAt((name) => `http://127.0.0.1:${board.port}/${name}`)
        }
        yield* withEveryClient(reachedAs, async ({ operatingApi, rollcall }) => {
          board.servers["others"] = operatingApi
          const unusable = { HTTP_PROXY: "http://127.0.0.1:1", HTTPS_PROXY: "http://127.0.0.1:1" }
          rollcall(["start"], unusable)
          await board.untilReceived(serverNames)
          const { code } = await rollcall(["status"], { ...unusable, ROLLCALL_HTTP_PORT: String(board.port) }).ended
          assert.strictEqual(code, 0)
        })
        assert.sameMembers([...new Set(board.received.map(({ to }) => to))], [...serverNames, "others"])
        for (const { headers, to } of board.received) {
          assert.deepStrictEqual(Object.keys(headers).filter(isAboutTraces), [], to)
        }
      })
  )

  it.live(
    "to another server goes through the proxy, with its login, which no output contains",
    () =>
      Effect.gen(function*() {
        using board = yield* Effect.promise(() => Switchboard.start())
        board.login = login
        const reachedAs = async (origins: Origins) => {
          Object.assign(board.servers, origins)
          return originsAt((name) => `http://${name}.example.test`)
        }
        yield* withEveryClient(reachedAs, async ({ rollcall }) => {
          const proxied = {
            http_proxy: `http://${encodedLogin}@127.0.0.1:${board.port}`,
            ROLLCALL_ALLOW_PLAINTEXT: "api,kafka,otlp",
            OTEL_TRACES_EXPORTER: "none"
          }
          const running = rollcall(["start"], proxied)
          await board.untilReceived(serverNames)
          const status = await rollcall(["status"], proxied).ended
          assert.strictEqual(status.code, 0, status.stderr)
          const { stderr, stdout } = await running.stop()
          const doctor = await rollcall(["doctor"], proxied).ended
          assert.include(
            doctor.stdout,
            `requests of account default go to http://api.example.test through the proxy http://127.0.0.1:${board.port}`
          )
          for (const text of [stderr, stdout, status.stdout, doctor.stdout, doctor.stderr]) {
            assert.notMatch(text, /p4ss/)
          }
        })
        for (const { headers, to } of board.received) {
          assert.deepStrictEqual(Object.keys(headers).filter(isAboutTraces), [], to)
        }
      })
  )
})
