/** Commands that arrive at a process that does not own the streams. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CallError, Calls, notTaken, Unanswered } from "../../../src/fleet/Calls.ts"
import { CurrentActor } from "../../../src/store/Actor.ts"
import { key, post, send, using } from "./Running.ts"

const json = { "content-type": "application/json" }
const record = { ...key, id: "8Xi6iZrwusZqJmDGXs49GBmJ" }
const commands: ReadonlyArray<readonly [string, unknown]> = [
  [`/v1/streams/${key.integration}/${key.model}/pause`, {}],
  [`/v1/streams/${key.integration}/${key.model}/rewind`, { to: "2026-01-01T00:00:00Z" }],
  [`/v1/streams/${key.integration}/${key.model}/audit`, {}],
  ["/v1/integrations", { id: key.integration }],
  [`/v1/integrations/${key.integration}/remove`, { data: "keep" }],
  ["/v1/forget/plan", record],
  ["/v1/forget", { ...record, plan: "5c1f0a9e2b7d4e63" }],
  ["/v1/forget/allow", record]
]

/** Every call fails like this. */
const failing = (error: CallError) => Layer.mock(Calls)({ isLocal: () => false, call: () => Effect.fail(error) })

describe("a command to a process that does not own the streams", () => {
  it.live("is answered with 503 and a time to wait while no process takes it", () =>
    Effect.gen(function*() {
      for (const [path, body] of commands) {
        const answer = yield* send("POST", path, json, JSON.stringify(body))
        assert.deepStrictEqual([path, answer.status, answer.headers["retry-after"]], [path, 503, "5"])
        assert.deepStrictEqual(answer.body, {
          type: "urn:rollcall:problem:not-taken",
          title: "The streams are moving",
          status: 503,
          detail: notTaken().reason.message,
          hint: notTaken().reason.hint
        })
      }
    }).pipe(using({ calls: failing(notTaken()) })))

  it.live("is answered with 504 and what to check if its outcome is unknown", () => {
    const reason = new Unanswered({ reason: "ended", check: "rollcall forget --list" })
    return Effect.gen(function*() {
      for (const [path, body] of commands) {
        const answer = yield* send("POST", path, json, JSON.stringify(body))
        assert.deepStrictEqual([path, answer.status, answer.headers["retry-after"]], [path, 504, undefined])
        assert.strictEqual(answer.body.type, "urn:rollcall:problem:outcome-unknown")
        assert.strictEqual(
          answer.body.hint,
          "check with `rollcall forget --list`, then repeat the command if necessary"
        )
      }
    }).pipe(using({ calls: failing(new CallError({ reason })) }))
  })

  it.live("is passed on with the operator's name and address", () => {
    const actors: Array<unknown> = []
    const call = () =>
      Effect.flatMap(CurrentActor, (actor) => {
        actors.push(actor)
        return Effect.fail(notTaken())
      })
    return Effect.gen(function*() {
      yield* post(commands[0]![0])
      assert.deepStrictEqual(actors, [{ actor: "no token", address: "127.0.0.1" }])
    }).pipe(using({ calls: Layer.mock(Calls)({ isLocal: () => false, call }) }))
  })
})
