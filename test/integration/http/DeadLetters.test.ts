/** Dead letters over HTTP, with the real delivery engine, as an operator on call uses them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { auditOf, delivered, died, picky } from "./Picky.ts"
import * as Running from "./Running.ts"

const { ask, post, rollcall, served, stream, using, write } = Running

describe("GET /v1/deadletters", () => {
  served(
    "lists dead letters by filter and in pages, and shows the details of each, without content (I11)",
    function*() {
      const [first, second] = yield* died
      const { body, text } = yield* ask("/v1/deadletters?limit=1")
      const [letter] = body.items
      assert.deepStrictEqual(
        [letter.id, letter.plugin, letter.event.record, letter.reason, letter.message, letter.attempts, body.next],
        [first, "picky", "bad1", "Permanent", "the receiver refuses it", 1, String(first)]
      )
      const rest = (yield* ask(`/v1/deadletters?limit=1&after=${body.next}`)).body
      assert.strictEqual(rest.items[0].id, second)
      const of = (query: string) => Effect.map(ask(`/v1/deadletters?${query}`), ({ body }) => body.items.length)
      assert.strictEqual(
        yield* of("plugin=picky&handler=ats.tag.created&integration=greenhouse:acme&reason=Permanent"),
        2
      )
      for (
        const none of ["plugin=p", "handler=daily", "integration=l:x", "reason=Transient", "until=2020-01-01T00:00:00Z"]
      ) {
        assert.strictEqual(yield* of(none), 0, none)
      }
      for (const time of ["lately", "1", "2026-03-01T12:00:00"]) {
        assert.strictEqual((yield* ask(`/v1/deadletters?since=${time}`)).status, 400, time)
      }
      const story = yield* ask(`/v1/deadletters/${first}`)
      assert.strictEqual(story.body.failed_attempts.length, 1)
      assert.deepStrictEqual(
        [story.body.failed_attempts[0].reason, story.body.failed_attempts[0].requests, story.body.journal],
        ["Permanent", [], []]
      )
      assert.notInclude(text + story.text, "s3cret")
      assert.strictEqual((yield* ask("/v1/deadletters/77")).status, 404)
      assert.strictEqual((yield* ask("/v1/deadletters/seven")).status, 400)
    },
    { plugins: [picky()] }
  )
})

describe("GET /v1/deadletters/groups", () => {
  served("has one group for failures that differ only in ids, whose cause selects its dead letters", function*() {
    const [first, second] = yield* died
    const { body, text } = yield* ask("/v1/deadletters/groups")
    assert.isTrue(body.complete)
    assert.lengthOf(body.items, 1)
    assert.deepInclude(body.items[0], {
      plugin: "picky",
      handler: "ats.tag.created",
      reason: "Permanent",
      message: "the receiver refuses it",
      count: 2,
      parked: 0,
      integrations: ["greenhouse:acme"]
    })
    const { cause } = body.items[0]
    const selected = (yield* ask(`/v1/deadletters?plugin=picky&handler=ats.tag.created&cause=${cause}`)).body.items
    assert.deepStrictEqual(selected.map(({ id }: { id: number }) => id), [first, second])
    assert.strictEqual((yield* post("/v1/deadletters/plan", { cause })).body.count, 2)
    assert.notInclude(text, "s3cret")
    assert.deepStrictEqual((yield* ask("/v1/deadletters/groups?reason=Transient")).body.items, [])
  }, { plugins: [picky()] })
})

describe("a handler with an open circuit", () => {
  it.live("is named by a plan, and tried at once by the command", () => {
    const broken = { is: true }
    const done: Array<string> = []
    return Effect.gen(function*() {
      yield* stream({ phase: "live" })
      for (let count = 0; count < 10; count++) yield* write(`bad${count}`, "{}")
      yield* delivered
      const refused = yield* post("/v1/plugins/picky/try?handler=changes")
      assert.deepStrictEqual([refused.status, refused.body.detail], [409, "the circuit of picky (changes) is not open"])
      const plan = (yield* post("/v1/deadletters/plan", {})).body
      assert.deepInclude(plan.circuits[0], { plugin: "picky", handler: "ats.tag.created" })
      assert.match(
        (yield* rollcall("deadletters", "plan")).stdout,
        /they wait: the circuit of picky \(ats.tag.created\) is open/
      )
      assert.match(
        (yield* rollcall("deadletters", "causes")).stdout,
        /^10 of picky .*: Permanent: the receiver refuses it\n  The handler, .*\n  select them with .* --cause Permanent-\w+\n$/
      )
      broken.is = false
      done.length = 0
      yield* post("/v1/deadletters/redrive", { plan: plan.plan })
      assert.deepStrictEqual(done, [])
      const tried = yield* rollcall("plugins", "try", "picky", "ats.tag.created")
      assert.match(tried.stdout, /^picky +ats.tag.created/m)
      // the first success closes the circuit, and the others follow
      yield* Effect.repeat(delivered, { until: () => done.length === 10 })
      assert.include(yield* auditOf, "plugins.try picky ats.tag.created")
      assert.strictEqual((yield* post("/v1/plugins/pickle/try?handler=a")).status, 404)
    }).pipe(using({ plugins: [picky(done, broken)] }))
  })
})

describe("a plan", () => {
  it.live("counts exactly the dead letters that a redrive affects; if they changed meanwhile, it is a conflict and nothing is done", () => {
    const broken = { is: true }
    const done: Array<string> = []
    return Effect.gen(function*() {
      const [first] = yield* died
      const plan = (yield* post("/v1/deadletters/plan", { plugin: "picky" })).body
      assert.deepStrictEqual([plan.count, plan.parked, plan.shares], [2, 0, [
        { plugin: "picky", handler: "ats.tag.created", reason: "Permanent", refusal: null, count: 2 }
      ]])
      assert.strictEqual((yield* post("/v1/deadletters/plan", { plugin: "picky" })).body.plan, plan.plan)
      assert.strictEqual((yield* post("/v1/deadletters/plan", { ids: [first] })).body.count, 1)

      yield* write("bad3", "{}")
      yield* delivered
      for (const act of ["redrive", "discard"]) {
        const late = yield* post(`/v1/deadletters/${act}`, { plugin: "picky", plan: plan.plan })
        assert.deepStrictEqual(
          [late.status, late.body.detail],
          [409, "the plan is outdated: 3 dead letters match now"]
        )
      }
      assert.strictEqual((yield* post("/v1/deadletters/redrive", { plan: "x", over: "some time" })).status, 400)

      broken.is = false
      done.length = 0
      const now = (yield* post("/v1/deadletters/plan", { plugin: "picky" })).body
      const redriven = yield* post("/v1/deadletters/redrive", { plugin: "picky", plan: now.plan })
      assert.deepStrictEqual([redriven.status, redriven.body.count], [200, 3])
      yield* delivered
      assert.deepStrictEqual(done.toSorted(), ["bad1", "bad2", "bad3"])
      assert.deepStrictEqual((yield* ask("/v1/deadletters")).body.items, [])
      assert.deepStrictEqual(yield* auditOf, [`deadletters.redrive plan ${now.plan} 3 dead letters`])
    }).pipe(using({ plugins: [picky(done, broken)] }))
  })

  served("names the requested dead letters that do not exist or do not match the filter", function*() {
    const [first] = yield* died
    for (const filter of [{ ids: [first, 77, 78] }, { ids: [first], reason: "Defect" }]) {
      const { body, status } = yield* post("/v1/deadletters/plan", filter)
      assert.deepStrictEqual([status, body.type], [404, "urn:rollcall:problem:not-found"])
      assert.include(body.detail, filter.reason === undefined ? "no dead letter matches 77, 78" : `matches ${first}`)
      assert.include(body.detail, "GET /v1/deadletters")
    }
  }, { plugins: [picky()] })

  served("spreads a redrive over a duration, in order", function*() {
    yield* died
    const { plan } = (yield* post("/v1/deadletters/plan")).body
    const { body } = yield* post("/v1/deadletters/redrive", { plan, over: "10 minutes" })
    assert.strictEqual(body.count, 2)
    assert.strictEqual(Date.parse(body.to) - Date.parse(body.from), 300_000)
    yield* delivered
    // the first has already failed again, the second waits until it is due
    const [{ handlers: [handler] }] = (yield* ask("/v1/plugins")).body.items
    assert.deepStrictEqual([handler.dead, handler.due + handler.waiting], [1, 1])
  }, { plugins: [picky()] })

  it.live("discards the planned dead letters, and deliveries parked behind them continue", () => {
    const done: Array<string> = []
    return Effect.gen(function*() {
      const [first] = yield* died
      yield* write("bad1", null)
      yield* write("bad1", "{}")
      yield* delivered
      const plan = (yield* post("/v1/deadletters/plan", { ids: [first] })).body
      assert.strictEqual(plan.parked, 1)
      done.length = 0
      const { body } = yield* post("/v1/deadletters/discard", { ids: [first], plan: plan.plan })
      assert.deepStrictEqual(body, { count: 1 })
      yield* delivered
      assert.deepStrictEqual(done, ["bad1"])
      assert.strictEqual((yield* ask(`/v1/deadletters/${first}`)).status, 404)
    }).pipe(using({ plugins: [picky(done)] }))
  })
})
