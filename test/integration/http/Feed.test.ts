import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { connect } from "node:net"
import * as Server from "../../../src/http/Server.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Running from "./Running.ts"

const { ask, stream, served, write, writeMany } = Running

const names = (body: { events: ReadonlyArray<{ subject: string; data: { version: number } }> }) =>
  body.events.map((event) => `${event.subject} v${event.data.version}`)

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

/** The API over a store whose log is pruned as far as possible while it is read. */
const overtaken = Layer.provideMerge(
  Running.server(),
  Layer.effect(
    Store,
    Effect.map(Store, (store) =>
      Store.of({
        ...store,
        readLog: (query) =>
          Effect.andThen(store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 2 }), store.readLog(query))
      }))
  ).pipe(Layer.provideMerge(MemoryStore.layer()))
)

/** The API over a store that counts the pages of the log that are read, and limits their length. */
class PagesRead extends Context.Service<PagesRead, { count: number; longest: number }>()("test/PagesRead") {
  static readonly layer = Layer.effectContext(Effect.gen(function*() {
    const pages = { count: 0, longest: 0 }
    const store = yield* Store
    const readLog: (typeof store)["readLog"] = (query) => {
      pages.count += 1
      pages.longest = Math.max(pages.longest, query.limit)
      return store.readLog(query)
    }
    return Context.make(PagesRead, pages).pipe(Context.add(Store, { ...store, readLog }))
  })).pipe(
    Layer.provideMerge(MemoryStore.layer()),
    (counted) => Layer.provideMerge(Running.server(), counted)
  )
}

/** Reads server-sent events until `enough` returns true. */
const listen = Effect.fnUntraced(function*(
  headers: Record<string, string>,
  query: string,
  enough: (text: string) => boolean
) {
  const { url } = yield* Server.Server
  return yield* Effect.promise(async (signal) => {
    const response = await fetch(`${url}/v1/events${query}`, {
      headers: { accept: "text/event-stream", ...headers },
      signal
    })
    let text = ""
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      if (enough(text)) break
    }
    return { status: response.status, type: response.headers.get("content-type"), text }
  })
})
const ids = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map((match) => match[1])
const subjects = (text: string) =>
  [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1] ?? "").subject)

describe("a log that is pruned while it is read", () => {
  const written = Effect.gen(function*() {
    yield* stream()
    for (const content of ["1", "2", "3"]) yield* write("a", content, { detectedAt: 1 })
  })

  it.live("a page that would start after a gap is 410 (I1)", () =>
    Effect.gen(function*() {
      yield* written
      const { body, status } = yield* ask("/v1/events")
      assert.deepStrictEqual([status, body.type], [410, "urn:rollcall:problem:position-gone"])
      assert.deepStrictEqual(names((yield* ask("/v1/events")).body), ["a v3"])
    }).pipe(Effect.provide(overtaken), Effect.scoped))

  it.live("a stream ends before the gap, and resuming it is 410 (I1)", () =>
    Effect.gen(function*() {
      yield* written
      const { store: id, generation } = (yield* Store).identity
      const listening = yield* Effect.exit(listen({}, "", (text) => subjects(text).length > 0))
      assert.isTrue(Exit.isFailure(listening))
      assert.strictEqual((yield* listen({ "last-event-id": `${id}-${generation}-0` }, "", () => false)).status, 410)
    }).pipe(Effect.provide(overtaken), Effect.scoped))
})

describe("GET /v1/events as a stream", () => {
  served("sends the existing events, then new ones, each with its position as id", function*() {
    yield* stream()
    yield* write("a", "{}")
    const listening = yield* Effect.forkChild(listen({}, "", (text) => subjects(text).length === 2))
    yield* Effect.sleep("100 millis")
    yield* write("b", "{}")
    const { text, type } = yield* Fiber.join(listening)
    assert.deepStrictEqual(text.match(/^event: .*$/gm), ["event: created", "event: created"])
    assert.strictEqual(type, "text/event-stream; charset=utf-8")
    assert.deepStrictEqual(subjects(text), ["a", "b"])
    assert.deepStrictEqual(
      ids(text).slice(1),
      (yield* ask("/v1/events")).body.events.map((event: { position: string }) => event.position)
    )
  })

  served("Last-Event-ID resumes where the reader stopped and takes precedence over `after`", function*() {
    yield* stream()
    for (const id of ["a", "b", "c"]) yield* write(id, "{}")
    const { body } = yield* ask("/v1/events?limit=2")
    const { text } = yield* listen(
      { "last-event-id": body.next },
      "?after=latest",
      (text) => subjects(text).length === 1
    )
    assert.deepStrictEqual(subjects(text), ["c"])
  })

  served(
    "a reader from `latest` that loses its connection before the first event resumes where it connected",
    function*() {
      yield* stream()
      yield* write("a", "{}")
      const { body } = yield* ask("/v1/events?after=latest")
      const first = yield* listen({}, "?after=latest", (text) => text.endsWith("\n\n"))
      assert.deepStrictEqual(ids(first.text), [body.next])
      yield* write("b", "{}")
      const headers = { "last-event-id": body.next }
      const again = yield* listen(headers, "?after=latest", (text) => subjects(text).length > 0)
      assert.deepStrictEqual(subjects(again.text), ["b"])
    }
  )

  served("a position that is no longer retained is a 410 problem, not an empty stream", function*() {
    const { status, type } = yield* listen({ "last-event-id": "other-1-7" }, "", () => false)
    assert.deepStrictEqual([status, type], [410, "application/problem+json"])
  })

  served.virtual("comments keep a stream without events alive and advance a reader with a filter", function*() {
    yield* stream()
    yield* write("a", "{}")
    const listening = yield* Effect.forkChild(listen({}, "?model=ats.offer", (text) => text.includes("no new")))
    while (listening.pollUnsafe() === undefined) {
      yield* TestClock.adjust("15 seconds")
      yield* TestClock.withLive(Effect.sleep("20 millis"))
    }
    const { text } = yield* Fiber.join(listening)
    assert.match(text, /^: connected.*\nid: \S+\n\n(: no new event\nid: \S+\n\n)+$/)
    assert.deepStrictEqual(ids(text).at(-1), (yield* ask("/v1/events?after=latest")).body.next)
  })

  served.virtual(
    "comments keep a stream alive and advance its reader while the log gets only events that do not match",
    function*() {
      yield* stream()
      const listening = yield* Effect.forkChild(listen({}, "?model=ats.offer", (text) => text.includes("no new")))
      for (let count = 0; count < 200 && listening.pollUnsafe() === undefined; count++) {
        yield* write(`r${count}`, "{}")
        yield* TestClock.adjust("250 millis")
        yield* TestClock.withLive(Effect.sleep("10 millis"))
      }
      assert.isDefined(listening.pollUnsafe())
      const { text } = yield* Fiber.join(listening)
      assert.match(text, /^: connected.*\nid: \S+\n\n: no new event\nid: \S+\n\n$/)
      const [start, later] = ids(text)
      assert.notStrictEqual(later, start)
      assert.strictEqual((yield* ask(`/v1/events?after=${later}`)).status, 200)
    }
  )

  it.effect("a reader at the end of the log waits 250 ms before it reads again, so that many readers of a busy log stay cheap (I9)", () =>
    Effect.gen(function*() {
      yield* stream()
      yield* write("a", "{}")
      const pages = yield* PagesRead
      let received = ""
      const enough = (text: string) => {
        received = text
        return subjects(text).length === 4
      }
      const listening = yield* Effect.forkChild(listen({}, "", enough))
      while (subjects(received).length === 0) yield* TestClock.withLive(Effect.sleep("5 millis"))
      const before = pages.count
      for (const id of ["b", "c", "d"]) {
        yield* write(id, "{}")
        yield* TestClock.withLive(Effect.sleep("20 millis"))
      }
      assert.strictEqual(pages.count, before)
      yield* TestClock.adjust("250 millis")
      assert.deepStrictEqual(subjects((yield* Fiber.join(listening)).text), ["a", "b", "c", "d"])
      assert.isAtMost(pages.count, before + 1)
    }).pipe(Effect.provide(PagesRead.layer)))

  it.live("a reader that does not read delays only itself (I9)", () =>
    Effect.gen(function*() {
      const total = 60
      yield* stream()
      for (let i = 0; i < total; i++) yield* write(`r${i}`, JSON.stringify({ text: "x".repeat(500_000) }))
      const { url } = yield* Server.Server
      const { hostname, port } = new URL(url)
      const socket = connect({ host: hostname, port: Number(port) })
      socket.write(`GET /v1/events?limit=1 HTTP/1.1\r\nhost: ${hostname}\r\naccept: text/event-stream\r\n\r\n`)
      socket.pause()
      yield* Effect.sleep("500 millis")
      const reads = yield* Effect.map(PagesRead, (pages) => pages.count)
      socket.destroy()
      assert.isAbove(reads, 0)
      assert.isBelow(reads, total / 2)
    }).pipe(Effect.provide(PagesRead.layer)))
})

served(
  "a stream is sent in chunks of at most 512 KiB, so that a reader that does not read takes little memory (I9)",
  function*() {
    yield* stream()
    for (let i = 0; i < 6; i++) yield* write(`r${i}`, JSON.stringify({ text: "x".repeat(200_000) }))
    const { hostname, port } = new URL((yield* Server.Server).url)
    const received = yield* Effect.promise(() =>
      new Promise<string>((resolve, reject) => {
        const socket = connect({ host: hostname, port: Number(port) })
        let text = ""
        socket.on("error", reject).on("data", (bytes) => {
          text += String(bytes)
          if (!text.includes(`"subject":"r5"`)) return
          socket.destroy()
          resolve(text)
        })
        socket.write(`GET /v1/events HTTP/1.1\r\nhost: ${hostname}\r\naccept: text/event-stream\r\n\r\n`)
      })
    )
    // each chunk starts with its size
    const sizes = Array.from(received.matchAll(/^([0-9a-f]+)\r$/gm), ([, size = ""]) => Number.parseInt(size, 16))
    assert.isAtLeast(sizes.length, 4)
    assert.isAtMost(Math.max(...sizes), 512 * 1024)
  }
)

it.live("a long page is read in batches, so that large rows are not all in memory at once (I9)", () =>
  Effect.gen(function*() {
    yield* stream()
    for (let i = 0; i < 60; i++) yield* write(`r${i}`, JSON.stringify({ text: "x".repeat(250_000) }))
    const { body } = yield* ask("/v1/events?limit=55")
    assert.strictEqual(body.events.length, 33)
    const { longest } = yield* PagesRead
    assert.isAtMost(longest, 25)
  }).pipe(Effect.provide(PagesRead.layer)))

interface RecordPage {
  readonly records: ReadonlyArray<{ readonly id: string }>
  readonly position: string
  readonly next: string | null
}

describe("GET /v1/records", () => {
  served(
    "every page returns the position of the first page, and a reader that follows from there misses no change (R4)",
    function*() {
      yield* stream()
      for (const id of ["a", "b", "c"]) yield* write(id, `{"v":1}`)
      const path = "/v1/records?integration=greenhouse:acme&model=ats.tag&limit=2"
      const first = (yield* ask(path)).body
      yield* write("a", `{"v":2}`)
      yield* write("d", `{"v":1}`)
      const second = (yield* ask(`${path}&after=${first.next}`)).body
      assert.strictEqual(second.position, first.position)
      const ids = [...first.records, ...second.records].map((record) => `${record.id} v${record.version}`)
      assert.deepStrictEqual(ids, ["a v1", "b v1", "c v1", "d v1"])
      const last = second.next === null ? second : (yield* ask(`${path}&after=${second.next}`)).body
      assert.deepStrictEqual([last.next, last.position], [null, first.position])
      assert.deepStrictEqual(names((yield* ask(`/v1/events?after=${last.position}`)).body), ["a v2", "d v1"])
    }
  )

  served("a page has at most 8 MiB or one larger record, and `next` is null only on the last page (I9)", function*() {
    yield* stream()
    for (const [index, size] of [5, 2, 9, 1].entries()) {
      yield* write(`r${index}`, JSON.stringify({ text: "x".repeat(size * 1_000_000) }))
    }
    const path = "/v1/records?integration=greenhouse:acme&model=ats.tag"
    const { position } = (yield* ask(`${path}&limit=1`)).body
    const pages: Array<ReadonlyArray<string>> = []
    for (let next: string | null = ""; next !== null;) {
      const page: RecordPage = (yield* ask(`${path}&limit=1000${next === "" ? "" : `&after=${next}`}`)).body
      assert.strictEqual(page.position, position)
      pages.push(page.records.map(({ id }) => id))
      next = page.next
    }
    assert.deepStrictEqual(pages, [["r0", "r1"], ["r2"], ["r3"]])
  })

  served("a record is found by its id after the log no longer keeps the event of its content (K1)", function*() {
    const store = yield* Store
    const { generation, store: name } = store.identity
    yield* stream()
    for (const id of ["a", "b", "c"]) yield* write(id, `{"of":"${id}"}`, { detectedAt: 1 })
    yield* write("c", null)
    yield* store.prune({ before: Date.now() + 60_000, upTo: 4 })
    // the address that Kafka has instead of the event of b if it is too large
    assert.strictEqual((yield* ask(`/v1/events?after=${name}-${generation}-1&limit=1`)).status, 410)
    const find = (id: string) => ask(`/v1/records?integration=greenhouse:acme&model=ats.tag&limit=1&id=${id}`)
    const { body } = yield* find("b")
    assert.deepStrictEqual(body.records, [
      { integration: "greenhouse:acme", model: "ats.tag", id: "b", generation: 1, version: 1, after: { of: "b" } }
    ])
    assert.isNull(body.next)
    assert.deepStrictEqual((yield* find("c")).body.records, [])
    assert.strictEqual((yield* ask("/v1/records?integration=greenhouse:acme&model=ats.tag&id=")).status, 400)
  })

  served("deleted records are not listed, an unknown stream is a 404 problem", function*() {
    yield* stream()
    yield* write("a", "{}")
    yield* write("a", null)
    assert.deepStrictEqual((yield* ask("/v1/records?integration=greenhouse:acme&model=ats.tag")).body.records, [])
    const { status, type } = yield* ask("/v1/records?integration=greenhouse:acme&model=ats.offer")
    assert.deepStrictEqual([status, type], [404, "application/problem+json"])
  })

  served("an invalid page token is 400, one of another log 410, a missing parameter 400", function*() {
    yield* stream()
    const path = "/v1/records?integration=greenhouse:acme&model=ats.tag"
    assert.strictEqual((yield* ask(`${path}&after=nonsense`)).status, 400)
    assert.strictEqual((yield* ask(`${path}&after=nonsense~YQ`)).status, 400)
    assert.strictEqual((yield* ask(`${path}&after=other-1-1~YQ`)).status, 410)
    assert.strictEqual((yield* ask("/v1/records?model=ats.tag")).status, 400)
  })
})
