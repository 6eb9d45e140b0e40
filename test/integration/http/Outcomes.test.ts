/** Writes of unknown outcome over HTTP and on the command line: the details that operators see, and the effect of a resolution. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { WriteName } from "../../../src/api/Writes.ts"
import * as Server from "../../../src/http/Server.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import * as SourcePort from "../../../src/source/Source.ts"
import { Store } from "../../../src/store/Store.ts"
import { hooked } from "../../support/source/Hooked.ts"
import { ask, post, rollcall, stream, using, write } from "./Running.ts"

/** Creates an application for each tag; the API does not answer. `applied`: the results with which the handler continued. */
const silent = () => {
  const sent: Array<string> = []
  const applied: Array<string> = []
  const plugin = Plugin.make("applying", { needs: { writes: ["createApplication"] } }).on(
    "ats.tag.created",
    { retry: { first: "10 millis" } },
    Effect.fnUntraced(function*({ recordId }) {
      const api = yield* Plugin.Api
      const candidate = { first_name: "s3cret", last_name: "s3cret", email_address: "s3cret@example.org" }
      const { id } = yield* api.createApplication(`job ${recordId}`, { candidate }, { onUnknown: "deadLetter" })
      applied.push(id)
    })
  ).with({ from: "oldest" })
  const unknown = new SourcePort.WriteError({
    reason: new SourcePort.OutcomeUnknown({ code: null, message: "status 409 with an HTML page" })
  })
  const options = {
    plugins: [plugin],
    write: <W extends WriteName, E>(request: SourcePort.WriteRequest<W>, hooks: SourcePort.SendHooks<E>) =>
      hooked(hooks, Effect.andThen(Effect.sync(() => sent.push(request.write)), Effect.fail(unknown)))
  }
  return { sent, applied, options }
}

/** Waits for this many dead letters and returns them by id. */
const dead = (count: number): Effect.Effect<ReadonlyArray<number>, never, Server.Server> =>
  Effect.gen(function*() {
    for (;;) {
      const { items } = (yield* ask("/v1/deadletters")).body
      if (items.length === count) return items.map(({ id }: { readonly id: number }) => id)
      yield* Effect.sleep("20 millis")
    }
  })

const one = Effect.gen(function*() {
  yield* stream({ phase: "live" })
  yield* write("a", "{}")
  const [id = 0] = yield* dead(1)
  return id
})

describe("POST /v1/deadletters/{id}/resolve", () => {
  it.live("accepts an operator's resolution of an outcome that the dead letter shows without personal data (L5, I11)", () => {
    const { applied, options, sent } = silent()
    return Effect.gen(function*() {
      const id = yield* one
      const { body, text } = yield* ask(`/v1/deadletters/${id}`)
      const [shown] = body.outcomes
      assert.deepInclude(shown, {
        state: "unknown",
        write: "createApplication",
        method: "POST",
        path: "/ats/jobs/job%20a/applications",
        integration: "greenhouse:acme",
        delivery: id,
        visible_in: "ats.application",
        seen: null
      })
      assert.include(shown.where_to_look, "a record of ats.application, which Rollcall does not read there")
      yield* stream({ phase: "live" }, { integration: "greenhouse:acme", model: "ats.application" })
      const [read] = (yield* ask(`/v1/deadletters/${id}`)).body.outcomes
      assert.include(read.where_to_look, "Rollcall has not seen it there")
      const { body: plan } = yield* post("/v1/deadletters/plan", {})
      assert.deepInclude(plan, { unknown: 1, unknown_ids: [id] })
      assert.deepStrictEqual(plan.shares.map((share: { readonly refusal: unknown }) => share.refusal), [
        "OutcomeUnknown"
      ])
      assert.notInclude(text, "s3cret")
      const resolve = (payload: Record<string, unknown>, letter = id) =>
        Effect.map(post(`/v1/deadletters/${letter}/resolve`, payload), ({ body, status }) => [
          status,
          body.type?.split(":").at(-1) ?? body,
          body.detail
        ])
      const { outcome } = shown
      assert.deepStrictEqual((yield* resolve({ outcome, happened: true }, 77)).slice(0, 2), [404, "not-found"])
      assert.deepStrictEqual((yield* resolve({ outcome: "x", happened: true, id: "A1" })).slice(0, 2), [
        409,
        "conflict"
      ])
      assert.deepStrictEqual((yield* resolve({ outcome, happened: true })).slice(0, 2), [400, "resolution-malformed"])
      assert.deepStrictEqual((yield* resolve({ outcome, happened: true, id: " A1" })).slice(0, 2), [
        400,
        "resolution-malformed"
      ])
      assert.deepStrictEqual((yield* resolve({ happened: true })).slice(0, 2), [400, "request-malformed"])
      assert.include((yield* resolve({ outcome, happened: false }))[2], "less than five minutes ago")
      const fresh = (yield* post("/v1/deadletters/plan")).body
      assert.strictEqual(fresh.unknown, 1)
      const refused = yield* post("/v1/deadletters/redrive", { plan: fresh.plan, fresh: true })
      assert.deepStrictEqual([refused.status, refused.body.hint.includes(`resolve ${id} --happened`)], [409, true])
      assert.deepStrictEqual(yield* resolve({ outcome, happened: true, id: "A1" }), [200, {
        outcome,
        happened: true,
        redriven: true,
        remaining: 0
      }, undefined])
      yield* dead(0)
      while (applied.length === 0) yield* Effect.sleep("20 millis")
      assert.deepStrictEqual([applied, sent], [["A1"], ["createApplication"]])
      const late = yield* resolve({ outcome, happened: true, id: "A2" })
      assert.deepStrictEqual(late.slice(0, 2), [404, "not-found"])
      const { auditLog } = yield* Store
      const [act] = yield* auditLog(1)
      assert.deepStrictEqual([act?.command, act?.target], ["deadletters.resolve", `applying/ats.tag.created ${id}`])
    }).pipe(using(options))
  })
})

describe("rollcall deadletters resolve", () => {
  it.live(
    "shows the sent write and asks, or resolves the given outcome; exit code 1 for a failure",
    () => {
      const { applied, options, sent } = silent()
      return Effect.gen(function*() {
        const id = String(yield* one)
        const shown = (yield* rollcall("deadletters", "show", id)).stdout
        assert.include(shown, "POST /ats/jobs/job%20a/applications in greenhouse:acme")
        const command = /^ *if it happened: +rollcall (.*) --id <id>$/m.exec(shown)?.[1] ?? assert.fail(shown)
        assert.match(
          shown,
          /^ *if it did not happen: rollcall deadletters resolve \d+ --outcome \w+ --did-not-happen$/m
        )
        assert.include(
          (yield* rollcall("deadletters", "plan")).stdout,
          "1 of them have a write or step of unknown outcome"
        )
        const neither = yield* rollcall("deadletters", "resolve", id)
        assert.deepStrictEqual([neither.code, neither.stderr.includes("either --happened or --did-not-happen")], [
          1,
          true
        ])
        const unsure = yield* rollcall("deadletters", "resolve", id, "--happened", "--id", "A1")
        assert.deepStrictEqual([unsure.code, /Pass --outcome \w+ to confirm/.test(unsure.stderr)], [1, true])
        assert.include(unsure.stdout, "createApplication: outcome unknown")
        const json = yield* rollcall("deadletters", "resolve", id, "--happened", "--result", "{")
        assert.deepStrictEqual([json.code, json.stderr.includes("--result is not JSON")], [1, true])
        const without = yield* rollcall(...command.split(" "))
        assert.deepStrictEqual([without.code, without.stderr.includes("it contains an id")], [1, true])
        const done = yield* rollcall(...command.split(" "), "--id", "A1", "--json")
        assert.deepInclude(JSON.parse(done.stdout), { happened: true, redriven: true, remaining: 0 })
        while (applied.length === 0) yield* Effect.sleep("20 millis")
        assert.deepStrictEqual([applied, sent.length], [["A1"], 1])
        const gone = yield* rollcall("deadletters", "resolve", id, "--happened", "--id", "A1", "--yes")
        assert.deepStrictEqual([gone.code, gone.stderr.includes(`dead letter ${id} does not exist`)], [1, true])
        const help = (yield* rollcall("deadletters", "resolve", "--help")).stdout
        for (const word of ["--happened", "--did-not-happen", "--id", "--result", "--outcome", "--yes", "--json"]) {
          assert.include(help, word)
        }
      }).pipe(using(options))
    }
  )
})
