import { assert, describe } from "@effect/vitest"
import { Store } from "../../../src/store/Store.ts"
import { names } from "./Feeds.ts"
import * as Running from "./Running.ts"

const { ask, stream, served, write } = Running

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
