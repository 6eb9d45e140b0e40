import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import type { IncrementalModel } from "../../api/Lists.ts"
import type { PageRequest } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import { Capture, layer } from "../schedule/Capture.ts"

const integration = "greenhouse:acme"
const models = ["ats.application", "ats.offer", "ats.tag"] as const
type Model = (typeof models)[number]

const streams = models.map((model) => ({
  integration,
  model,
  account: "default",
  interval: Duration.minutes(1),
  sweepInterval: Duration.hours(1)
}))

const capturing = Layer.effectDiscard(
  Effect.flatMap(Capture, ({ assign }) => assign(new Map([[integration, streams]])))
).pipe(
  Layer.provideMerge(layer({ minOverlap: Duration.minutes(5), confirmInterval: Duration.minutes(10) }))
)

/** Applications, offers and tags of one integration, each a list of its own, and the service that reads them. */
const integrationOf = () => {
  const apis = { "ats.application": Scripted.make(), "ats.offer": Scripted.make(), "ats.tag": Scripted.make() }
  const put = (model: Model, row: Scripted.Row, silent = false) =>
    Effect.map(Clock.currentTimeMillis, (now) => apis[model].put(now, row, { silent }))
  const log = Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 30_000 }))
  return {
    apis,
    put,
    /** `updated refresh` … of one record, oldest first. */
    seen: (model: IncrementalModel, id: string) =>
      Effect.map(log, (entries) =>
        entries.filter((entry) => entry.model === model && entry.id === id)
          .map((entry) => `${entry.kind} ${entry.origin}`)),
    latest: (model: Model, id: string) =>
      Effect.map(log, (entries) => entries.findLast((entry) => entry.model === model && entry.id === id)!),
    /** Refetches of one list, from its `from`-th request on. */
    requestsFor: (model: Model, from = 0): ReadonlyArray<PageRequest> =>
      apis[model].requests.slice(from).filter((request) => request.ids !== null),
    running: <A, E, R>(body: Effect.Effect<A, E, R>) =>
      Effect.gen(function*() {
        const capture = yield* Capture
        const fiber = yield* Effect.forkChild(capture.run)
        const result = yield* body
        yield* Fiber.interrupt(fiber)
        return result
      }).pipe(Effect.provide(capturing))
  }
}
type Integration = ReturnType<typeof integrationOf>

const scenario = <A>(
  test: (
    integration: Integration
  ) => Effect.fn.Return<A, unknown, Store | Layer.Success<ReturnType<typeof Scripted.layerOf>>>
) => {
  const made = integrationOf()
  return TestClock.setTime(start).pipe(
    Effect.andThen(Effect.gen(() => test(made))),
    Effect.provide(Layer.merge(Scripted.layerOf(made.apis), MemoryStore.layer())),
    Effect.provideService(References.MinimumLogLevel, "None")
  )
}

const job = (name: string) => ({ id: "j1", remote_id: "r-j1", name })
const application = (id: string, details: Readonly<Record<string, unknown>> = {}) => ({
  id,
  title: "x",
  candidate: { id: `c-${id}`, first_name: "Ada", last_name: id, tags: [] },
  job: job("Engineer"),
  ...details
})
const offer = (id: string, details: Readonly<Record<string, unknown>> = {}) => ({
  id,
  status: "SENT",
  application: { candidate: { id: `c-${id}`, first_name: "Ada", last_name: id }, job: job("Engineer") },
  ...details
})

describe("Refresh", () => {
  it.effect("a job that is renamed in one application is refreshed in its siblings of every model, and no other record is read (N1)", () =>
    scenario(function*({ apis, requestsFor, latest, put, running, seen }) {
      for (const id of ["a", "b", "c"]) yield* put("ats.application", application(id))
      yield* put("ats.application", application("other", { job: { id: "j2", name: "Baker" } }))
      yield* put("ats.offer", offer("o"))
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        const renamed = { job: job("Architect") }
        yield* put("ats.application", application("a", { title: "y", ...renamed }))
        for (const id of ["b", "c"]) yield* put("ats.application", application(id, renamed), true)
        yield* put("ats.offer", offer("o", { application: { job: job("Architect") } }), true)
        yield* TestClock.adjust("3 minutes")
      }))
      assert.deepStrictEqual(yield* seen("ats.application", "a"), ["created backfill", "updated poll"])
      for (const id of ["b", "c"]) {
        assert.deepStrictEqual(yield* seen("ats.application", id), ["created backfill", "updated refresh"])
      }
      assert.deepStrictEqual(yield* seen("ats.application", "other"), ["created backfill"])
      assert.deepStrictEqual(yield* seen("ats.offer", "o"), ["created backfill", "updated refresh"])
      assert.strictEqual(JSON.parse((yield* latest("ats.offer", "o")).after!).application.job.name, "Architect")
      assert.isTrue(requestsFor("ats.application").every((request) => request.priority === "refresh"))
      assert.deepStrictEqual(requestsFor("ats.application").map((request) => [...request.ids!].slice(1, -1)), [[
        "b",
        "c"
      ]])
      assert.strictEqual(requestsFor("ats.offer").length, 1)
      assert.deepStrictEqual(requestsFor("ats.tag"), [])
      assert.isTrue(apis["ats.application"].requests.filter((request) => request.updatedAfter === null).length <= 3)
    }))

  it.effect("a tag that is renamed on its own endpoint is refreshed in the applications that contain it (N1)", () =>
    scenario(function*({ put, running, seen }) {
      const tagged = (name: string) => ({
        candidate: { id: "c", first_name: "Ada", last_name: "L", tags: [{ id: "t", remote_id: "r-t", name }] }
      })
      yield* put("ats.tag", { id: "t", name: "urgent" })
      yield* put("ats.application", application("a", tagged("urgent")))
      yield* put("ats.application", application("b"))
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        yield* put("ats.tag", { id: "t", name: "late" })
        yield* put("ats.application", application("a", tagged("late")), true)
        yield* TestClock.adjust("3 minutes")
      }))
      assert.deepStrictEqual(yield* seen("ats.application", "a"), ["created backfill", "updated refresh"])
      assert.deepStrictEqual(yield* seen("ats.application", "b"), ["created backfill"])
    }))

  it.effect("records that are stale when the process is killed are refreshed after the restart (N1)", () =>
    scenario(function*({ apis, put, running, seen }) {
      for (const id of ["a", "b"]) yield* put("ats.application", application(id))
      yield* running(TestClock.adjust("10 minutes"))
      const store = yield* Store
      yield* put("ats.application", application("a", { job: job("Architect") }))
      yield* put("ats.application", application("b", { job: job("Architect") }), true)
      // the first process ends before the response to the refresh arrives
      apis["ats.application"].intercept = (request, answer) => request.ids === null ? answer : Effect.never
      yield* running(TestClock.adjust("3 minutes"))
      const stale = Effect.map(store.counts, (counts) => counts.map((count) => count.stale))
      assert.deepStrictEqual(yield* stale, [1, 0, 0])
      apis["ats.application"].intercept = (_, answer) => answer
      yield* running(TestClock.adjust("3 minutes"))
      assert.deepStrictEqual(yield* seen("ats.application", "b"), ["created backfill", "updated refresh"])
      assert.deepStrictEqual(yield* stale, [0, 0, 0])
    }))

  it.effect("a record whose content changes again during its refresh stays stale (N1)", () =>
    scenario(function*({ apis, latest, put, running }) {
      for (const id of ["a", "b"]) yield* put("ats.application", application(id))
      yield* put("ats.offer", offer("o"))
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        yield* put("ats.application", application("a", { job: job("Architect") }))
        yield* put("ats.offer", offer("o", { application: { job: job("Architect") } }), true)
        apis["ats.offer"].intercept = Effect.fnUntraced(function*(request, answer) {
          if (request.ids === null) return answer
          apis["ats.offer"].intercept = (_, answer) => answer
          yield* put("ats.application", application("a", { job: job("Director") }))
          yield* put("ats.offer", offer("o", { application: { job: job("Director") } }), true)
          return yield* Effect.delay(Effect.succeed(answer), "3 minutes")
        })
        yield* TestClock.adjust("10 minutes")
      }))
      assert.strictEqual(JSON.parse((yield* latest("ats.offer", "o")).after!).application.job.name, "Director")
    }))

  it.effect("a response without its controls refreshes and deletes nothing, and the sweep finds the change (N1, I7)", () =>
    scenario(function*({ apis, put, running, seen }) {
      for (const id of ["a", "b", "c"]) yield* put("ats.application", application(id))
      apis["ats.application"].intercept = (request, answer) =>
        request.ids === null ? answer : { ...answer, results: [] }
      const store = yield* Store
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        yield* put("ats.application", application("a", { job: job("Architect") }))
        for (const id of ["b", "c"]) yield* put("ats.application", application(id, { job: job("Architect") }), true)
        yield* TestClock.adjust("20 minutes")
        assert.deepStrictEqual(yield* seen("ats.application", "b"), ["created backfill"])
        assert.strictEqual((yield* store.counts)[0]!.stale, 2)
        assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
        yield* TestClock.adjust("1 hour")
      }))
      assert.deepStrictEqual(yield* seen("ats.application", "b"), ["created backfill", "updated sweep"])
      assert.strictEqual((yield* store.counts)[0]!.stale, 0)
    }))

  it.effect("a delete that a refresh finds is staged, and published by the next poll", () =>
    scenario(function*({ apis, put, running, seen }) {
      for (const id of ["a", "b", "c"]) yield* put("ats.application", application(id))
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        yield* put("ats.application", application("a", { job: job("Architect") }))
        apis["ats.application"].put(start, application("b", { remote_deleted_at: "2026-03-01T12:00:00.000Z" }), {
          silent: true
        })
        yield* TestClock.adjust("3 minutes")
      }))
      assert.deepStrictEqual(yield* seen("ats.application", "b"), ["created backfill", "deleted refresh"])
    }))

  it.effect("two models with different shapes of one candidate refresh each other once per change (N7)", () =>
    scenario(function*({ requestsFor, put, running, seen }) {
      const person = (first: string) => ({ id: "c", first_name: first, last_name: "L" })
      // the offer's copy has no e-mail addresses, ever
      const inApplication = (first: string) => ({ ...person(first), email_addresses: [{ email_address: "a@b" }] })
      for (const id of ["a", "b"]) yield* put("ats.application", application(id, { candidate: inApplication("Ada") }))
      yield* put("ats.offer", offer("o", { application: { candidate: person("Ada") } }))
      yield* put("ats.offer", offer("control"))
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        const before = requestsFor("ats.offer").length
        for (const id of ["a", "b"]) yield* put("ats.application", application(id, { candidate: inApplication("Eve") }))
        yield* put("ats.offer", offer("o", { application: { candidate: person("Eve") } }), true)
        yield* TestClock.adjust("40 minutes")
        assert.isAtMost(requestsFor("ats.offer").length - before, 1)
        assert.isAtMost(requestsFor("ats.application").length, 1)
        // a change outside the candidate does not make the offer stale
        yield* put("ats.application", application("a", { title: "z", candidate: inApplication("Eve") }))
        yield* TestClock.adjust("5 minutes")
        assert.isAtMost(requestsFor("ats.offer").length - before, 1)
      }))
      assert.deepStrictEqual(yield* seen("ats.offer", "o"), ["created backfill", "updated refresh"])
    }))

  it.effect("a new record with already known content makes no record stale (N7)", () =>
    scenario(function*({ requestsFor, put, running }) {
      for (const id of ["a", "b"]) yield* put("ats.application", application(id))
      yield* put("ats.offer", offer("o", { application: { job: job("Engineer (all)") } }))
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        const before = requestsFor("ats.offer").length
        for (const id of ["d", "e", "f"]) {
          yield* put("ats.application", application(id))
          yield* TestClock.adjust("2 minutes")
        }
        assert.strictEqual(requestsFor("ats.offer").length, before)
      }))
    }))

  it.effect("after one change with 10,000 siblings each is refetched once, 250 at a time, without delaying polls (N4)", () =>
    scenario(function*({ apis, requestsFor, put, running, seen }) {
      const ids = Array.from({ length: 10_001 }, (_, index) => `a${String(index).padStart(5, "0")}`)
      for (const id of ids) yield* put("ats.application", { id, job: job("Engineer") })
      for (const id of ["t", "u"]) yield* put("ats.tag", { id, name: id })
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        const from = apis["ats.application"].requests.length
        const [first, ...others] = ids
        yield* put("ats.application", { id: first!, job: job("Architect") })
        for (const id of others) yield* put("ats.application", { id, job: job("Architect") }, true)
        apis["ats.application"].intercept = (request, answer) =>
          request.ids === null ? answer : Effect.delay(Effect.succeed(answer), "10 seconds")
        yield* TestClock.adjust("12 minutes")
        const requests = requestsFor("ats.application", from)
        assert.strictEqual(requests.length, Math.ceil(10_000 / 248))
        assert.isTrue(requests.every((request) => request.ids!.length <= 250))
        const polls = apis["ats.application"].requests.slice(from).filter((request) => request.updatedAfter !== null)
        assert.isAtLeast(polls.length, 8)
      }))
      assert.deepStrictEqual(yield* seen("ats.application", ids.at(-1)!), ["created backfill", "updated refresh"])
    }))

  it.effect("the sweep is brought forward if more records are stale than it would read (N4)", () =>
    scenario(function*({ apis, requestsFor, put, running, seen }) {
      const ids = Array.from({ length: 10_002 }, (_, index) => `a${String(index).padStart(5, "0")}`)
      for (const id of ids) yield* put("ats.application", { id, job: job("Engineer") })
      yield* running(Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        const from = apis["ats.application"].requests.length
        const [first, ...others] = ids
        yield* put("ats.application", { id: first!, job: job("Architect") })
        for (const id of others) yield* put("ats.application", { id, job: job("Architect") }, true)
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(requestsFor("ats.application", from), [])
        const sweeps = apis["ats.application"].requests.slice(from)
          .filter((request) => request.updatedAfter === null && request.cursor === null)
        assert.strictEqual(sweeps.length, 1)
      }))
      assert.deepStrictEqual(yield* seen("ats.application", ids.at(-1)!), ["created backfill", "updated sweep"])
    }))
})
