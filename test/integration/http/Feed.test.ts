import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Store } from "../../../src/store/Store.ts"
import { listen, names, PagesRead, subjects } from "./Feeds.ts"
import * as Running from "./Running.ts"

const { ask, stream, served, write, writeMany } = Running

describe("GET /v1/events", () => {
  served(
    "lists pages in the order of the log; `next` is there on the last page and for an empty log, and `latest` skips events",
    function*() {
      const empty = (yield* ask("/v1/events")).body.next
      yield* stream()
      for (const id of ["a", "b", "c"]) yield* write(id, `{"id":"${id}"}`)
      const first = yield* ask("/v1/events?limit=2")
      assert.deepStrictEqual(names(first.body), ["a v1", "b v1"])
      const second = yield* ask(`/v1/events?limit=2&after=${first.body.next}`)
      assert.deepStrictEqual(names(second.body), ["c v1"])
      const third = yield* ask(`/v1/events?after=${second.body.next}`)
      assert.deepStrictEqual([names(third.body), third.body.next], [[], second.body.next])
      assert.deepStrictEqual(names((yield* ask(`/v1/events?after=${empty}`)).body), ["a v1", "b v1", "c v1"])
      const latest = (yield* ask("/v1/events?after=latest")).body
      assert.deepStrictEqual(names(latest), [])
      yield* write("a", null)
      assert.deepStrictEqual(names((yield* ask(`/v1/events?after=${latest.next}`)).body), ["a v2"])
      assert.deepStrictEqual(names((yield* ask(`/v1/events?after=${third.body.next}`)).body), ["a v2"])
    }
  )

  served("every event has a sequence of one width that sorts as text in the order of the log", function*() {
    yield* stream()
    for (let i = 0; i < 12; i++) yield* write(`r${i}`, "{}")
    const { body } = yield* ask("/v1/events")
    const sequences: ReadonlyArray<string> = body.events.map((event: { sequence: string }) => event.sequence)
    assert.strictEqual(sequences.length, 12)
    for (const sequence of sequences) assert.match(sequence, /^\d{10}-\d{16}$/)
    assert.deepStrictEqual(sequences.toSorted(), sequences)
    assert.strictEqual(new Set(sequences).size, 12)
  })

  served("events are CloudEvents that contain the stored text, with unchanged numbers", function*() {
    yield* stream()
    yield* write("a", `{"id":"a","salary":1.10,"big":12345678901234567890}`)
    const { text, body } = yield* ask("/v1/events")
    assert.include(text, `"after":{"id":"a","salary":1.10,"big":12345678901234567890}`)
    const [event] = body.events
    assert.deepInclude(event, {
      specversion: "1.0",
      type: "rollcall.ats.tag.created",
      source: "/integrations/greenhouse:acme",
      subject: "a",
      recordversion: 1
    })
    assert.strictEqual(body.next, event.position)
  })

  served("a reader with a filter advances in the log although no event matches", function*() {
    const other = { integration: "workday:acme", model: "hris.skill" } as const
    yield* stream()
    yield* stream({}, other)
    yield* write("a", "{}")
    for (let i = 0; i < 5; i++) yield* write(`s${i}`, "{}", other)
    const { body } = yield* ask("/v1/events?integration=greenhouse:acme&model=ats.tag&limit=2")
    assert.deepStrictEqual(names(body), ["a v1"])
    assert.strictEqual(body.next, (yield* ask("/v1/events?after=latest")).body.next)
    assert.deepStrictEqual(names((yield* ask("/v1/events?model=hris.skill&limit=2")).body), ["s0 v1", "s1 v1"])
  })

  served("a reader chooses kinds, transitions, models and integrations, several of each", function*() {
    const offers = { integration: "greenhouse:acme", model: "ats.offer" } as const
    const other = { integration: "workday:acme", model: "hris.skill" } as const
    yield* stream()
    yield* stream({}, offers)
    yield* stream({}, other)
    yield* write("a", "{}")
    yield* write("a", `{"v":2}`)
    yield* write("a", null)
    yield* write("o", "{}", { ...offers, transitions: ["offer_sent"] })
    yield* write("o", `{"v":2}`, { ...offers, transitions: ["offer_accepted"] })
    yield* write("s", "{}", other)
    const found = (query: string) => Effect.map(ask(`/v1/events?${query}`), ({ body }) => names(body))
    assert.deepStrictEqual(yield* found("kind=deleted"), ["a v3"])
    assert.deepStrictEqual(yield* found("kind=created,deleted"), ["a v1", "a v3", "o v1", "s v1"])
    assert.deepStrictEqual(yield* found("kind=created&kind=deleted"), ["a v1", "a v3", "o v1", "s v1"])
    assert.deepStrictEqual(yield* found("transition=offer_accepted"), ["o v2"])
    assert.deepStrictEqual(yield* found("transition=offer_accepted,offer_sent&kind=created"), ["o v1"])
    assert.deepStrictEqual(yield* found("model=ats.offer,hris.skill"), ["o v1", "o v2", "s v1"])
    assert.deepStrictEqual(yield* found("integration=workday:acme,greenhouse:acme&kind=updated"), ["a v2", "o v2"])
    const { text } = yield* listen(
      {},
      "?kind=created&model=ats.tag,hris.skill",
      (text) => subjects(text).length === 2
    )
    assert.deepStrictEqual(subjects(text), ["a", "s"])
  })

  served("a value that is repeated in a filter counts once, so that the statement stays short (I9)", function*() {
    yield* stream()
    yield* write("a", "{}")
    for (
      const [name, value] of [["transition", "hired"], ["kind", "created"], ["integration", "a"], [
        "model",
        "ats.tag"
      ]]
    ) {
      const { status } = yield* ask(`/v1/events?${name}=${Array<string>(1500).fill(value!).join(",")}`)
      assert.strictEqual(status, 200, name)
    }
    const { body } = yield* ask("/health/ready")
    assert.deepInclude(body.checks, { name: "store", ok: true, reason: null })
  })

  served("a page of a rare kind ends after a part of the log, and its `next` leads through the rest", function*() {
    const store = yield* Store
    yield* stream()
    yield* writeMany(12_000)
    yield* write("r11999", null)
    const first = yield* ask("/v1/events?kind=deleted")
    assert.deepStrictEqual(names(first.body), [])
    assert.match(first.body.next, new RegExp(`^${store.identity.store}-1-10000-`))
    const second = yield* ask(`/v1/events?kind=deleted&after=${first.body.next}`)
    assert.deepStrictEqual(names(second.body), ["r11999 v2"])
    assert.strictEqual(second.body.next, (yield* ask("/v1/events?after=latest")).body.next)
    const { text } = yield* listen({}, "?kind=deleted", (text) => subjects(text).length === 1)
    assert.match(
      text,
      new RegExp(`^: connected\nid: \\S+\n\n: no event matches so far\nid: ${first.body.next}\n\nid: `)
    )
  })

  served.virtual("`since` starts at the first event that was recorded at or after a time", function*() {
    yield* TestClock.setTime(Date.parse("2026-03-01T00:00:00Z"))
    yield* stream()
    for (const id of ["a", "b", "c"]) {
      yield* TestClock.adjust("1 hour")
      yield* write(id, "{}")
    }
    const found = (query: string) => Effect.map(ask(`/v1/events?${query}`), ({ body }) => names(body))
    assert.deepStrictEqual(yield* found("since=2026-02-01T00:00:00Z"), ["a v1", "b v1", "c v1"])
    assert.deepStrictEqual(yield* found("since=2026-03-01T02:00:00.000Z"), ["b v1", "c v1"])
    assert.deepStrictEqual(yield* found("since=2026-03-01T04:00:01%2B02:00"), ["c v1"])
    assert.deepStrictEqual(yield* found("since=2027-03-01T00:00:00Z"), [])
    const { body } = yield* ask("/v1/events?since=2026-03-01T02:00:00Z&limit=1")
    assert.deepStrictEqual(names((yield* ask(`/v1/events?after=${body.next}`)).body), ["c v1"])
    const resumed = yield* listen(
      { "last-event-id": body.next },
      "?since=2026-02-01T00:00:00Z",
      (text) => subjects(text).length === 1
    )
    assert.deepStrictEqual(subjects(resumed.text), ["c"])
  })

  served.virtual(
    "`since` before the end of retention is 410, with a malformed time or with `after` it is 400",
    function*() {
      yield* TestClock.setTime(Date.parse("2026-03-01T00:00:00Z"))
      yield* stream()
      for (const id of ["a", "b"]) {
        yield* TestClock.adjust("1 hour")
        yield* write(id, "{}")
      }
      yield* (yield* Store).prune({ before: Date.parse("2026-03-01T01:30:00Z"), upTo: 2 })
      const pruned = yield* ask("/v1/events?since=2026-03-01T01:00:00Z")
      assert.deepStrictEqual([pruned.status, pruned.body.type], [410, "urn:rollcall:problem:position-gone"])
      assert.match(pruned.body.hint, /omit `since`/)
      assert.deepStrictEqual(names((yield* ask("/v1/events?since=2026-03-01T01:00:01Z")).body), ["b v1"])
      const both = yield* ask("/v1/events?since=2026-03-01T02:00:00Z&after=latest")
      assert.deepStrictEqual([both.status, both.body.type], [400, "urn:rollcall:problem:position-malformed"])
      for (
        const time of [
          "yesterday",
          "2026-03-01",
          "2026-03-01T02:00:00",
          "2026-13-01T02:00:00Z",
          "2026-03-01T04:00:01+02:00"
        ]
      ) {
        const { body, status } = yield* ask(`/v1/events?since=${time}`)
        assert.strictEqual(status, 400, time)
        assert.deepStrictEqual(body.errors[0].path, ["query", "since"])
      }
    }
  )

  served("a filter that matches no stream returns a hint until such a stream is added", function*() {
    yield* stream()
    yield* write("a", "{}")
    const hintOf = (query: string) => Effect.map(ask(`/v1/events?${query}`), ({ body }) => body.hint)
    for (
      const [query, what] of [
        ["integration=greenhouse:acm", "greenhouse:acm"],
        ["integration=greenhouse:acme&model=ats.offer", "greenhouse:acme/ats.offer"],
        ["model=ats.offer", "ats.offer"]
      ] as const
    ) {
      assert.match(yield* hintOf(query), new RegExp(`no stream matches "${what}": .*GET /v1/streams`))
      const { text } = yield* listen({}, `?${query}`, (text) => text.endsWith("\n\n"))
      assert.match(text, new RegExp(`^: connected; no stream matches "${what}": .*\nid: .*\n\n$`))
    }
    for (const query of ["", "integration=greenhouse:acme", "model=ats.tag&after=latest"]) {
      assert.isUndefined(yield* hintOf(query), query)
    }
    yield* stream({}, { integration: "greenhouse:acme", model: "ats.offer" })
    assert.isUndefined(yield* hintOf("model=ats.offer"))
  })

  served("a page has at most 8 MiB or one larger event, and no event is skipped (I9)", function*() {
    const other = { integration: "workday:acme", model: "hris.skill" } as const
    yield* stream()
    yield* stream({}, other)
    const sizes = [5, 2, 9, 1]
    for (const [index, size] of sizes.entries()) {
      yield* write(`r${index}`, JSON.stringify({ text: "x".repeat(size * 1_000_000) }))
      yield* write(`s${index}`, "{}", other)
    }
    const pagesOf = Effect.fnUntraced(function*(filter: string) {
      const pages: Array<ReadonlyArray<string>> = []
      for (let after = "";;) {
        const { body, text } = yield* ask(`/v1/events?limit=1000${filter}${after}`)
        if (body.events.length === 0) return pages
        if (body.events.length > 1) assert.isBelow(Buffer.byteLength(text), 8 * 1024 * 1024 + 1000)
        pages.push(body.events.map((event: { subject: string }) => event.subject))
        after = `&after=${body.next}`
      }
    })
    assert.deepStrictEqual(yield* pagesOf("&model=ats.tag"), [["r0", "r1"], ["r2"], ["r3"]])
    assert.deepStrictEqual((yield* pagesOf("")).flat(), sizes.flatMap((_, index) => [`r${index}`, `s${index}`]))
  })

  served("an invalid query is a 400 problem that names the parameter", function*() {
    for (
      const [query, parameter] of [
        ["limit=0", "limit"],
        ["limit=1001", "limit"],
        ["limit=x", "limit"],
        [
          "limit=1.5",
          "limit"
        ],
        ["model=ats.tags", "model"],
        ["kind=changed", "kind"],
        ["kind=", "kind"],
        ["transition=fired", "transition"]
      ]
    ) {
      const { body, status, type } = yield* ask(`/v1/events?${query}`)
      assert.deepStrictEqual([status, type, body.status], [400, "application/problem+json", 400], query)
      assert.deepStrictEqual(body.errors[0].path.slice(0, 2), ["query", parameter])
    }
    const { body, status } = yield* ask("/v1/events?after=soon")
    assert.deepStrictEqual([status, body.type], [400, "urn:rollcall:problem:position-malformed"])
  })

  served("a foreign position, one beyond the log and a pruned one are 410 with a hint", function*() {
    const store = yield* Store
    yield* stream()
    for (const content of ["1", "2", "3"]) yield* write("a", content, { detectedAt: 1 })
    const { generation, store: id } = store.identity
    yield* store.prune({ before: Date.now() + 60_000, upTo: 3 })
    for (
      const position of [
        `other-${generation}-1`,
        `${id}-${generation + 1}-1`,
        `${id}-${generation}-4`,
        `${id}-${generation}-0`
      ]
    ) {
      const { body, status, type } = yield* ask(`/v1/events?after=${position}`)
      assert.deepStrictEqual([status, type, body.type], [
        410,
        "application/problem+json",
        "urn:rollcall:problem:position-gone"
      ], position)
      assert.match(body.hint, /GET \/v1\/records/)
    }
  })
})

it.live("a long page is read in batches, so that large rows are not all in memory at once (I9)", () =>
  Effect.gen(function*() {
    yield* stream()
    for (let i = 0; i < 60; i++) yield* write(`r${i}`, JSON.stringify({ text: "x".repeat(250_000) }))
    const { body } = yield* ask("/v1/events?limit=55")
    assert.strictEqual(body.events.length, 33)
    const { longest } = yield* PagesRead
    assert.isAtMost(longest, 25)
  }).pipe(Effect.provide(PagesRead.layer)))
