/** Deliveries while the API accepts no requests: the account's key was revoked, or the connection of an integration is broken. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as TestClock from "effect/testing/TestClock"
import { pass, sourceOf } from "../../../test/support/delivery/Limiting.ts"
import { acme, make, makeWith, recorder, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { Inactive, NotReady, Unauthorized, WriteError } from "../../source/Source.ts"
import { deliveryReader } from "../../store/Delivery.ts"

const created = "ats.application.created"
const beta = "lever:beta"
const tag = { tag: { name: "seen" } }

const revoked = new Unauthorized({ code: "PLATFORM.AUTHENTICATION_INVALID", message: "the key is not valid" })
const broken = new Inactive({ code: "INTEGRATION.INACTIVE", message: "the connection is broken" })
const refusing = (reason: WriteError["reason"]) => () => Effect.fail(new WriteError({ reason }))
const accepting = () => Effect.succeed({})

type Call = (api: Plugin.Api["Service"]) => Effect.Effect<unknown, Plugin.HandlerError>

const tagging = (options: Plugin.HandlerOptions = {}) =>
  Plugin.make("tags", { needs: { writes: ["addTag"] } }).on(
    created,
    options,
    ({ recordId }) => Effect.flatMap(Plugin.Api, (api) => api.addTag(recordId, tag))
  )

/** Lets this many minutes pass. */
const minutes = Effect.fnUntraced(function*(rig: Rig, count: number) {
  for (let minute = 0; minute < count; minute++) {
    yield* TestClock.adjust("1 minute")
    yield* rig.until(() => rig.deliveries.backlog, (all) => all.every(({ due, running }) => due + running === 0))
  }
})
const waiting = (rig: Rig) =>
  Effect.map(rig.deliveries.backlog, (all) => all.reduce((sum, { due, later }) => sum + due + later, 0))
const noneDead = Effect.fnUntraced(function*(rig: Rig) {
  assert.deepStrictEqual(yield* rig.deliveries.deadLetters({ limit: 10 }), [])
  assert.isTrue((yield* rig.deliveries.handlers).every(({ circuit }) => circuit.openUntil === null))
})

/** The real adapter before an API that answers every request with the status and body that `answer` returns. */
const answering = (answer: () => readonly [number, string]) => {
  let requests = 0
  const client = HttpClient.make((request) =>
    Effect.sync(() => {
      requests++
      const [status, body] = answer()
      return HttpClientResponse.fromWeb(request, new Response(body, { status }))
    })
  )
  return { source: sourceOf(client), requests: () => requests }
}
const envelope = (code: string) =>
  JSON.stringify({ status: "error", error: { code, title: null, message: "no", log_url: null } })

describe("while the API accepts no requests", () => {
  it.effect("a refused write leaves no intent, so it is sent once the API accepts it, even if it must not be repeated (C4)", () =>
    Effect.gen(function*() {
      const answers: Array<readonly [number, string]> = [
        [401, envelope("PLATFORM.AUTHENTICATION_INVALID")],
        [400, envelope("INTEGRATION.AUTHENTICATION_INVALID")],
        [409, envelope("INTEGRATION.SETUP_SYNC_PENDING")],
        [200, JSON.stringify({ status: "success", data: {} })]
      ]
      const { requests, source } = answering(() => answers[Math.min(requests(), 4) - 1]!)
      const rig = yield* makeWith({ source })
      const plugin = Plugin.make("links", { needs: { writes: ["addResultLink"] } }).on(
        created,
        { attempts: 1 },
        ({ recordId }) =>
          Effect.flatMap(Plugin.Api, (api) => api.addResultLink(recordId, { label: "r", url: "https://r.example" }))
      )
      yield* rig.start([plugin])
      yield* rig.append("a1")
      for (const sent of [1, 2, 3]) {
        yield* rig.until(() => rig.deliveries.backlog, ([row]) => requests() === sent && row?.later === 1)
        assert.deepStrictEqual([...rig.intents], [])
        yield* TestClock.adjust("1 minute")
      }
      yield* rig.empty
      assert.strictEqual(requests(), 4)
    }))

  const page = "<html>no</html>"
  const gateways: ReadonlyArray<{ readonly what: string; readonly status: number; readonly call: Call }> = [
    { what: "a read", status: 403, call: (api) => api.live("ats.application", "a1") },
    { what: "a write that may be repeated", status: 405, call: (api) => api.replacePackages({ packages: [] }) },
    {
      what: "a write that must not be repeated, if the API certainly did nothing",
      status: 407,
      call: (api) => api.addResultLink("a1", { label: "r", url: "https://r.example" })
    }
  ]
  for (const { call, status, what } of gateways) {
    it.effect(`a gateway refuses ${what}: the delivery waits, also while the circuit of the API is open`, () =>
      Effect.gen(function*() {
        let isOpen = false
        const data = what === "a read" ? { results: [], next: null } : {}
        const empty = JSON.stringify({ status: "success", data })
        const { requests, source } = answering(() => isOpen ? [200, empty] : [status, page])
        const rig = yield* makeWith({ source })
        const plugin = Plugin.make("p", { needs: { writes: ["replacePackages", "addResultLink"] } })
          .on(created, { attempts: 1 }, () => Effect.flatMap(Plugin.Api, call))
        const { plugins } = yield* rig.start([plugin])
        yield* rig.append("a1")
        yield* pass(1_200, 5)
        assert.isAbove(requests(), 20)
        yield* rig.until(() => rig.deliveries.backlog, ([row]) => row?.later === 1)
        yield* noneDead(rig)
        assert.strictEqual(rig.intents.size, status === 405 ? 1 : 0)
        const { plugins: [view] } = yield* plugins.view
        const shown = view?.integrations.find(({ integration }) => integration === acme)
        assert.include(shown?.reason, `status ${status} with an HTML page`)
        isOpen = true
        yield* pass(180, 5)
        yield* rig.empty
      }))
  }

  it.effect("an outage behind a gateway is not such a refusal: the attempts are used up", () =>
    Effect.gen(function*() {
      const { source } = answering(() => [503, page])
      const rig = yield* makeWith({ source })
      const { delivery } = yield* rig.start([tagging({ attempts: 2 })])
      yield* rig.append("a1")
      yield* pass(600, 5)
      yield* rig.quiet(delivery)
      yield* rig.dead(1)
    }))

  for (
    const reason of [revoked, broken, new NotReady({ code: "INTEGRATION.SETUP_INCOMPLETE", message: "not ready" })]
  ) {
    it.effect(`deliveries wait without limit and use up no attempts: ${reason._tag} (C4, C5)`, () =>
      Effect.gen(function*() {
        const rig = yield* make
        rig.script.answer = refusing(reason)
        const { delivery, plugins } = yield* rig.start([tagging({ attempts: 1 })])
        const ids = Array.from({ length: 30 }, (_, index) => `a${index}`)
        for (const id of ids) yield* rig.append(id)
        yield* rig.quiet(delivery)
        assert.isAtMost(rig.sent.length, 4)
        const { plugins: [view] } = yield* plugins.view
        const shown = view?.integrations.find(({ integration }) => integration === acme)
        assert.strictEqual(shown?.state, "blocked")
        assert.include(shown?.reason, `addTag: ${reason.message}`)
        for (let minute = 2; minute <= 60; minute++) {
          const before = rig.sent.length
          yield* TestClock.adjust("59 seconds")
          yield* rig.quiet(delivery)
          assert.strictEqual(rig.sent.length, before)
          yield* TestClock.adjust("1 second")
          yield* rig.until(() => rig.sent.length > before)
          yield* rig.quiet(delivery)
          assert.isAtMost(rig.sent.length, 4 * minute)
        }
        yield* noneDead(rig)
        assert.deepStrictEqual([...rig.intents], [])
        assert.strictEqual(yield* waiting(rig), 30)
        rig.script.answer = accepting
        const before = rig.sent.length
        yield* TestClock.adjust("1 minute")
        yield* rig.empty
        const tagged = rig.sent.slice(before).map(({ params }) => JSON.stringify(params))
        assert.deepStrictEqual(
          tagged.toSorted(),
          ids.map((candidate_id) => JSON.stringify({ candidate_id })).toSorted()
        )
        assert.deepStrictEqual((yield* plugins.view).plugins[0]?.integrations.map(({ state }) => state), [
          "on",
          "on",
          "on"
        ])
      }))
  }

  it.effect("the versions of a record stay in order, and a redriven dead letter waits like a new delivery (I5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      const plugin = Plugin.make("p", { needs: { writes: ["addTag"] } }).onAny(
        [created, "ats.application.updated"],
        { as: "all", attempts: 1 },
        ({ recordId, version }) =>
          Effect.gen(function*() {
            yield* (yield* Plugin.Api).addTag(recordId, { tag: { name: `v${version}` } })
            yield* note(`${version}`)
          })
      )
      rig.script.answer = refusing(new NotReady({ code: null, message: "a conflict of this request" }))
      const { delivery } = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.dead(1)
      rig.script.answer = refusing(revoked)
      yield* rig.append("a1")
      yield* rig.redrive
      yield* rig.quiet(delivery)
      yield* minutes(rig, 3)
      yield* noneDead(rig)
      rig.script.answer = accepting
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.deepStrictEqual(received, ["1", "2"])
    }))

  it.effect("a broken connection stops nothing in other integrations, and no handler that sends nothing to the API", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      rig.script.answer = ({ integration }) => integration === acme ? refusing(broken)() : accepting()
      const plain = Plugin.make("plain").on(created, {}, ({ recordId }) => note(recordId))
      const { delivery } = yield* rig.start([tagging({ concurrency: 1 }), plain])
      for (let index = 0; index < 5; index++) {
        yield* rig.append(`a${index}`)
        yield* rig.append(`b${index}`, { integration: beta })
      }
      yield* rig.quiet(delivery)
      assert.strictEqual(received.length, 10)
      assert.strictEqual(rig.sent.filter(({ integration }) => integration === beta).length, 5)
      assert.strictEqual(yield* waiting(rig), 5)
    }))

  it.effect("a revoked key is tried once a minute for all integrations of the account, by each handler", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = refusing(revoked)
      const { delivery } = yield* rig.start([tagging({ concurrency: 1 })])
      for (const integration of [acme, beta, "workday:acme"]) {
        for (let index = 0; index < 3; index++) yield* rig.append(`a${index}`, { integration })
      }
      yield* rig.quiet(delivery)
      assert.strictEqual(rig.sent.length, 3)
      for (let minute = 1; minute <= 3; minute++) {
        yield* TestClock.adjust("1 minute")
        yield* rig.until(() => rig.sent.length > 2 + minute)
        yield* rig.quiet(delivery)
        assert.strictEqual(rig.sent.length, 3 + minute)
      }
      rig.script.answer = accepting
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
    }))

  it.effect("refused writes use up nothing of the plugin's hourly budget", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = refusing(broken)
      const plugin = Plugin.make("p", { needs: { writes: ["addTag"] }, writesPerHour: 1 }).on(
        created,
        {},
        ({ recordId }) => Effect.flatMap(Plugin.Api, (api) => api.addTag(recordId, tag))
      )
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.until(() => rig.sent.length === 1)
      yield* minutes(rig, 5)
      rig.script.answer = accepting
      yield* TestClock.adjust("1 minute")
      yield* rig.empty
      assert.isAtLeast(rig.sent.length, 7)
    }))

  it.effect("a batch keeps its members, and a restart tries it again as soon as it is due", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      rig.script.answer = refusing(broken)
      const plugin = Plugin.make("p", { needs: { writes: ["addTag"] } }).batch(
        created,
        { size: 2, within: "1 second" },
        (events) =>
          Effect.gen(function*() {
            yield* note(events.map(({ recordId }) => recordId).join(" "))
            yield* (yield* Plugin.Api).addTag(events[0]!.recordId, tag)
          })
      )
      const first = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.append("a2")
      yield* rig.quiet(first.delivery)
      yield* minutes(rig, 2)
      yield* first.stop
      rig.script.answer = accepting
      yield* TestClock.adjust("1 minute")
      yield* rig.start([plugin])
      yield* rig.empty
      assert.deepStrictEqual([...new Set(received)], ["a1 a2"])
      assert.strictEqual(received.length, 4)
    }))

  it.effect("a tick waits without keeping the log, and later ticks are merged into the next one", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { received, note } = recorder()
      rig.script.answer = refusing(revoked)
      const plugin = Plugin.make("p", { needs: { writes: ["addTag"] } }).with({
        others: false,
        integrations: { [acme]: true }
      }).every(
        "1 hour",
        { as: "hourly" },
        ({ scheduledAt }) =>
          Effect.gen(function*() {
            yield* (yield* Plugin.Api).addTag("c1", tag)
            yield* note(`${scheduledAt.getTime() / 3_600_000}`)
          })
      )
      const { delivery } = yield* rig.start([plugin])
      for (let hour = 0; hour < 3; hour++) {
        yield* rig.append("a1")
        yield* TestClock.adjust("1 hour")
        yield* rig.quiet(delivery)
      }
      const newest = yield* rig.append("a1")
      yield* rig.quiet(delivery)
      yield* TestClock.adjust("1 hour")
      yield* rig.quiet(delivery)
      yield* noneDead(rig)
      assert.strictEqual(yield* rig.store.readerPosition(deliveryReader), newest)
      rig.script.answer = accepting
      yield* TestClock.adjust("1 minute")
      yield* rig.until(() => received.length === 2)
      assert.deepStrictEqual(received, ["1", "4"])
    }))

  it.effect("a delivery that has waited for a day keeps one attempt of that time, and is shown as waiting no longer once it fails otherwise", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { delivery, plugins } = yield* rig.start([tagging({ attempts: 2 })])
      rig.script.answer = refusing(broken)
      yield* rig.append("a1")
      yield* rig.quiet(delivery)
      yield* minutes(rig, 20)
      rig.script.answer = refusing(new NotReady({ code: null, message: "conflict" }))
      yield* TestClock.adjust("1 minute")
      yield* rig.until(
        () => plugins.view,
        ({ plugins: [view] }) => view?.integrations.every(({ state }) => state === "on") === true
      )
      assert.strictEqual(yield* waiting(rig), 1)
      yield* TestClock.adjust("1 minute")
      yield* rig.dead(1)
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 10 })
      const detail = yield* rig.deliveries.deadLetterDetail(letter?.id ?? 0)
      assert.deepStrictEqual(detail?.failedAttempts.map(({ failure }) => failure.reason), [
        "Blocked",
        "Transient",
        "Transient"
      ])
    }))
})
