/** Every HTTP client that Rollcall has, in the processes that use it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Origins, serverNames, withEveryClient } from "./EveryClient.ts"
import { Switchboard } from "./Switchboard.ts"

describe("a request of any client", () => {
  for (const exported of [true, false]) {
    it.live(
      `carries no header about traces while they are ${exported ? "" : "not "}exported`,
      () =>
        Effect.gen(function*() {
          using board = yield* Effect.promise(() => Switchboard.start())
          const reachedAs = async (origins: Origins) => {
            Object.assign(board.servers, origins)
            return Object.fromEntries(
              serverNames.map((name) => [name, `http://127.0.0.1:${board.port}/${name}`])
            ) as Origins
          }
          yield* withEveryClient(reachedAs, async ({ operatingApi, rollcall }) => {
            board.servers["others"] = operatingApi
            rollcall(["start"], exported ? {} : { OTEL_TRACES_EXPORTER: "none" })
            await board.untilReceived(serverNames)
            const { code } = await rollcall(["status"], { ROLLCALL_HTTP_PORT: String(board.port) }).ended
            assert.strictEqual(code, 0)
          })
          assert.sameMembers([...new Set(board.received.map(({ to }) => to))], [...serverNames, "others"])
          for (const { headers, to } of board.received) {
            const names = Object.keys(headers).filter((name) => /^(trace|b3|x-b3|baggage)/.test(name))
            assert.deepStrictEqual(names, [], to)
          }
        }),
      60_000
    )
  }
})
