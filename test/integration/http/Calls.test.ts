/** Commands that arrive at a process that does not own the streams. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Commands } from "../../../src/capture/command/Commands.ts"
import { Capture } from "../../../src/capture/schedule/Capture.ts"
import { captureScopes } from "../../../src/domain/Shard.ts"
import { CallError, Calls, notTaken, Unanswered } from "../../../src/fleet/Calls.ts"
import * as QueuedCalls from "../../../src/fleet/QueuedCalls.ts"
import { CurrentActor } from "../../../src/store/Operators.ts"
import * as PostgresStore from "../../../src/store/postgres/Postgres.ts"
import { emptyStoreOf } from "../../conformance/StoreSuites.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Postgres from "../postgres/Server.ts"
import { ask, control, key, post, send, served, server, using } from "./Running.ts"

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

const { missing } = Postgres
const database = emptyStoreOf(Postgres.ofFile())

describe.skipIf(missing !== null)(
  `two processes on PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`,
  () => {
    it.live("execute a command in the one that owns the stream, and its audit log names the operator at the other one", () =>
      Effect.gen(function*() {
        const store = PostgresStore.layer(yield* database)
        const opened = yield* Layer.build(
          Layer.fresh(Layer.provideMerge(server({ calls: QueuedCalls.layer }), store))
        )
        // takes the streams over from the first process
        const owner = yield* Layer.build(
          Layer.fresh(Layer.provideMerge(control(Scripted.make(), QueuedCalls.layer), store))
        )
        const { serve } = Context.get(owner, Commands)
        yield* Effect.forEach(captureScopes, serve, { discard: true })
        yield* Effect.gen(function*() {
          const added = yield* post("/v1/integrations", { id: key.integration, models: [key.model] })
          assert.deepStrictEqual([added.status, added.body.state], [200, "active"])
          const [pause] = commands[0]!
          assert.deepInclude((yield* post(pause)).body, { paused: true })
          assert.strictEqual((yield* Context.get(owner, Capture).execute(key, { kind: "pause" })).paused, true)
          assert.strictEqual((yield* post("/v1/integrations", { id: key.integration })).status, 409)
          assert.strictEqual((yield* post(pause.replace("ats.tag", "ats.offer"))).status, 404)
          const plan = yield* post("/v1/forget/plan", record)
          assert.deepStrictEqual([plan.status, plan.body.detail], [
            404,
            "nothing is stored about ats.tag with this id in greenhouse:acme: pass the id of the unified API, as events and `GET /v1/records` show it"
          ])
          const { body } = yield* ask("/v1/audit")
          const named = body.items.map((
            { actor, address, command }: { actor: string; address: string | null; command: string }
          ) => [command, actor, address])
          assert.deepStrictEqual(named, [
            ["streams.pause", "process", null],
            ["streams.pause", "no token", "127.0.0.1"],
            ["integrations.add", "no token", "127.0.0.1"]
          ])
        }).pipe(Effect.provideContext(opened))
      }))
  }
)

describe("a command to a process that does not own the streams", () => {
  // SQLite has the time of its process, and a call waits ten seconds by that of its owner
  for (const skew of [-20_000, 5_000]) {
    it.live(`is accepted by the clock of the owner, which is ${skew / 1_000} s ahead, as is the start of its run (W4)`, () =>
      Effect.gen(function*() {
        const store = Layer.succeedContext(yield* Layer.build(MemoryStore.layer()))
        const opened = yield* Layer.build(Layer.fresh(Layer.provideMerge(server({ calls: QueuedCalls.layer }), store)))
        const clock = yield* Clock.Clock
        const now = () => clock.currentTimeMillisUnsafe() + skew
        const skewed = Object.assign(Object.create(clock) as Clock.Clock, {
          currentTimeMillisUnsafe: now,
          currentTimeMillis: Effect.sync(now)
        })
        const owner = yield* Layer.build(
          Layer.fresh(Layer.provideMerge(control(Scripted.make(), QueuedCalls.layer), store))
        ).pipe(Effect.provideService(Clock.Clock, skewed))
        const { serve } = Context.get(owner, Commands)
        yield* Effect.forEach(captureScopes, serve, { discard: true })
        yield* Effect.gen(function*() {
          yield* post("/v1/integrations", { id: key.integration, models: [key.model] })
          const { body } = yield* post(`/v1/streams/${key.integration}/${key.model}/sweep`)
          assert.strictEqual(body.accepted_at, body.progress.started_at)
        }).pipe(Effect.provideContext(opened))
      }))
  }

  served("is answered with 503 and a time to wait while no process takes it", function*() {
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
  }, { calls: failing(notTaken()) })

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
