/** Real processes that share one PostgreSQL database and its work. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { seed } from "../../fault/kill/Home.ts"
import { contentsOf, judge, quiet } from "../../fault/kill/Lives.ts"
import { until } from "../../fault/kill/Patience.ts"
import { launch, post, type Service } from "../../fault/kill/Service.ts"
import * as Server from "../postgres/Server.ts"
import { settingsOf, shardsOf, shared } from "./Shards.ts"

const { database } = Server.ofFile()

/** The second one is defined by the configuration. */
const models = ["ats.application", "hris.employee"] as const

/** Settings of a process whose configuration lacks the list. */
const lacking = { ROLLCALL_MODELS: "ats.application", ROLLCALL_LISTS: "" }

const fleet = Effect.gen(function*() {
  const sandbox = yield* Sandbox.serve({ seed, integrations: 12, records: 40, speed: 200 })
  const settings = {
    ...settingsOf(sandbox, yield* database, models),
    ROLLCALL_LISTS: "hris.employee=/hris/employees"
  }
  return { sandbox, join: launch(settings), joinWithout: launch({ ...settings, ...lacking }) }
})

describe.skipIf(Server.missing !== null)(
  `a fleet${Server.missing === null ? "" : `, skipped: ${Server.missing}`}`,
  () => {
    it.live(
      `shares the streams and their commands, and takes them over from a process that is killed, frozen or stopped (X9), also by a process that lacks a list (seed ${seed})`,
      () =>
        Effect.scoped(Effect.gen(function*() {
          const { join, joinWithout, sandbox } = yield* fleet
          const first = yield* join
          yield* shared(first)
          const [second, third] = [yield* join, yield* join]
          yield* shared(first, second, third)
          const stream = `${sandbox.integrations[0]}/hris.employee`.replace(":", "%3A")
          for (const process of [first, second, third]) {
            const command = post(`${yield* process.url}`, `/v1/streams/${stream}/poll`)
            assert.strictEqual(JSON.parse(yield* command).stream, `${sandbox.integrations[0]}/hris.employee`)
          }
          yield* first.end("SIGKILL")
          yield* shared(second, third)
          yield* second.signal("SIGSTOP")
          yield* until("the third to own all", Effect.sync(() => shardsOf(third)), (count) => count === 64)
          yield* second.signal("SIGCONT")
          yield* shared(second, third)
          assert.strictEqual(yield* third.end("SIGTERM"), 0, third.log())
          yield* shared(second)
          yield* sandbox.freeze
          const judged = Effect.fnUntraced(function*(service: Service) {
            const url = yield* service.url
            yield* quiet(url)
            const { differences, digests, oracle } = yield* judge(url, contentsOf(sandbox, models))
            assert.deepStrictEqual([differences, oracle.breaches], [[], []])
            return digests
          })
          const digests = yield* judged(second)
          const without = yield* joinWithout
          yield* shared(second, without)
          assert.strictEqual(yield* second.end("SIGTERM"), 0, second.log())
          yield* shared(without)
          yield* without.says("the configuration of this process defines no such list")
          assert.deepStrictEqual(yield* judged(without), digests)
          const last = yield* join
          yield* shared(without, last)
          assert.strictEqual(yield* without.end("SIGTERM"), 0, without.log())
          yield* shared(last)
          assert.deepStrictEqual(yield* judged(last), digests)
          assert.strictEqual(yield* last.end("SIGTERM"), 0, last.log())
        }))
    )
  }
)
