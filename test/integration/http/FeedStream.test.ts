import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { connect } from "node:net"
import * as Server from "../../../src/http/Server.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import { ids, listen, names, PagesRead, subjects } from "./Feeds.ts"
import * as Running from "./Running.ts"

const { ask, stream, served, write } = Running

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
      const pages = yield* PagesRead
      while (pages.count === 0) yield* Effect.sleep("10 millis")
      yield* Effect.sleep("500 millis")
      socket.destroy()
      assert.isBelow(pages.count, total / 2)
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
