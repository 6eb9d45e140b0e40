/** Readers of the HTTP API whose positions come from another copy of the store than the one that answers. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import * as Server from "../../../src/http/Server.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"
import * as Running from "./Running.ts"

const { ask, stream, write } = Running

/** Runs `body` with the API over the store in `file`. */
const over = <A, E>(
  file: string,
  body: Effect.Effect<A, E, Layer.Success<ReturnType<typeof Running.layer>>>
) => Effect.scoped(Effect.provide(body, Layer.provideMerge(Running.server(), Sqlite.layer({ file }))))

/** Positions of readers in a log of a, b, c, d; and a copy of the store, made after b, that continued with `later`. */
const restored = Effect.fnUntraced(function*(later: ReadonlyArray<string>) {
  const path = yield* temporaryFolder
  const [first, copy] = [join(path, "first.db"), join(path, "copy.db")]
  const begun = Effect.andThen(stream(), Effect.forEach(["a", "b"], (id) => write(id, `{"id":"${id}"}`)))
  yield* over(first, begun)
  copyFileSync(first, copy)
  const positions = yield* over(
    first,
    Effect.gen(function*() {
      for (const id of ["c", "d"]) yield* write(id, `{"id":"${id}"}`)
      const { body: { events, next } } = yield* ask("/v1/events")
      const { body: { position } } = yield* ask("/v1/records?integration=greenhouse:acme&model=ats.tag&limit=1")
      const { body: { next: bookmark } } = yield* ask("/v1/records?integration=greenhouse:acme&model=ats.tag&limit=1")
      assert.strictEqual(next, events[3].position)
      assert.strictEqual(position, next)
      return { after: events.map((event: { position: string }) => event.position) as ReadonlyArray<string>, bookmark }
    })
  )
  yield* over(copy, Effect.forEach(later, (id) => write(id, `{"id":"${id}"}`)))
  return { copy, ...positions }
})

const statuses = Effect.fnUntraced(function*(positions: ReadonlyArray<string>) {
  return yield* Effect.forEach(
    positions,
    (after) => Effect.map(ask(`/v1/events?after=${after}`), ({ status }) => status)
  )
})

describe("a position of another copy of the store", () => {
  it.live("is 410 for pages, streams and page tokens if the log grew past it with other events (X18), and if it did not (X14)", () =>
    Effect.gen(function*() {
      const { after, bookmark, copy } = yield* restored(["x", "y", "z"])
      yield* over(
        copy,
        Effect.gen(function*() {
          // a position in the part that both copies share can be resumed
          assert.deepStrictEqual(yield* statuses(after), [200, 200, 410, 410])
          const { body } = yield* ask(`/v1/events?after=${after[3]}`)
          assert.match(body.detail, /has other events up to this position/)
          assert.match(body.hint, /GET \/v1\/records/)
          const { url } = yield* Server.Server
          const streamed = yield* Effect.promise(() =>
            fetch(`${url}/v1/events`, { headers: { accept: "text/event-stream", "last-event-id": after[2]! } })
          )
          assert.strictEqual(streamed.status, 410)
          const records = yield* ask(`/v1/records?integration=greenhouse:acme&model=ats.tag&after=${bookmark}`)
          assert.strictEqual(records.status, 410)
        })
      )
      const shorter = yield* restored(["x"])
      yield* over(
        shorter.copy,
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* statuses(shorter.after), [200, 200, 410, 410])
          assert.match(
            (yield* ask(`/v1/events?after=${shorter.after[3]}`)).body.detail,
            /log ends before this position/
          )
        })
      )
    }).pipe(Effect.scoped))

  it.live("can be resumed if the log recorded the same events again (X14)", () =>
    Effect.gen(function*() {
      const { after, copy } = yield* restored(["c", "d", "e"])
      yield* over(
        copy,
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* statuses(after), [200, 200, 200, 200])
          const { body } = yield* ask(`/v1/events?after=${after[3]}`)
          assert.deepStrictEqual(body.events.map((event: { subject: string }) => event.subject), ["e"])
        })
      )
    }).pipe(Effect.scoped))

  it.live("a page whose first rows come from another copy is read again, so that no event is skipped (X14)", () =>
    Effect.gen(function*() {
      let isExchanged = false
      const exchanged = Layer.effect(
        Store,
        Effect.map(Store, (store) =>
          Store.of({
            ...store,
            readLog: (query) =>
              Effect.map(store.readLog(query), (rows) => {
                if (isExchanged || rows.length < 25) return rows
                isExchanged = true
                return rows.map((row) => ({ ...row, id: "other", chain: "o".repeat(22) }))
              })
          }))
      ).pipe(Layer.provideMerge(MemoryStore.layer()))
      const ids = Array.from({ length: 30 }, (_, index) => `r${index}`)
      yield* Effect.gen(function*() {
        yield* stream()
        yield* Effect.forEach(ids, (id) => write(id, `{"id":"${id}"}`))
        const { body: { events } } = yield* ask("/v1/events?limit=30")
        assert.isTrue(isExchanged)
        assert.deepStrictEqual(events.map((event: { subject: string }) => event.subject), ids)
      }).pipe(Effect.provide(Layer.provideMerge(Running.server(), exchanged)), Effect.scoped)
    }))
})
