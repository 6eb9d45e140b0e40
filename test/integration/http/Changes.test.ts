/** Search in the event log, the path of a change, and its content, which the audit log records. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { relayReader } from "../../../src/store/EventLog.ts"
import { Store, StoreError, Unavailable } from "../../../src/store/Store.ts"
import { StoreFault } from "../../../src/store/StoreFault.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import { ask, send, served, server, stream, write } from "./Running.ts"

const secret = "s3cret"

interface Found {
  readonly record: string
  readonly version: number
  readonly position: string
}

const search = (query = "") =>
  Effect.map(ask(`/v1/changes${query}`), ({ body, status, text }) => ({
    status,
    text,
    names: (body.items ?? []).map(({ record, version }: Found) => `${record}${version}`),
    items: (body.items ?? []) as ReadonlyArray<Found>,
    next: body.next
  }))

const written = Effect.gen(function*() {
  yield* stream({ phase: "live" })
  yield* stream({ phase: "live" }, { integration: "lever:acme", model: "ats.application" })
  yield* write("a", `{"name":"${secret}"}`)
  yield* write("b", "{}", { integration: "lever:acme", model: "ats.application", transitions: ["hired"] })
  yield* write("a", `{"name":"${secret} 2"}`)
  yield* write("a", null)
})

describe("a search for changes", () => {
  served("finds the newest first, by each property, and shows no value", function*() {
    yield* written
    const all = yield* search()
    assert.deepStrictEqual([all.names, all.next], [["a3", "a2", "b1", "a1"], null])
    assert.notInclude(all.text, secret)
    assert.deepStrictEqual((yield* search("?integration=lever:acme")).names, ["b1"])
    assert.deepStrictEqual((yield* search("?model=ats.tag&kind=updated")).names, ["a2"])
    assert.deepStrictEqual((yield* search("?transition=hired")).names, ["b1"])
    assert.deepStrictEqual((yield* search("?id=a")).names, ["a3", "a2", "a1"])
    assert.deepStrictEqual((yield* search("?id=a&integration=lever:acme")).names, [])
    yield* write("c", "{}", { remoteId: "4000017" })
    const ofVendor = yield* search("?remote_id=4000017")
    assert.deepStrictEqual(ofVendor.names, ["c1"])
    assert.include(ofVendor.text, '"remote_id":"4000017"')
    assert.deepStrictEqual((yield* search("?remote_id=nothing")).names, [])
    assert.strictEqual((yield* search("?model=ats.tags")).status, 400)
  })

  served("continues before the last event of a page, and ends at the oldest", function*() {
    yield* written
    for (const filter of ["", "&id=a"]) {
      const first = yield* search(`?limit=2${filter}`)
      const rest = yield* search(`?limit=2${filter}&before=${first.next}`)
      assert.deepStrictEqual(
        [...first.names, ...rest.names],
        filter === "" ? ["a3", "a2", "b1", "a1"] : ["a3", "a2", "a1"]
      )
    }
    assert.strictEqual((yield* search("?before=nowhere")).status, 404)
  })
})

describe("a change", () => {
  served("shows its path without a value, and its content only with an entry in the audit log", function*() {
    yield* written
    const { items: [, { position } = { position: "" }] } = yield* search()
    const path = yield* ask(`/v1/changes/${position}`)
    assert.notInclude(path.text, secret)
    assert.deepInclude(path.body.change, { record: "a", version: 2, kind: "updated" })
    assert.deepStrictEqual([path.body.kafka, path.body.deliveries], [null, []])
    assert.lengthOf((yield* ask("/v1/audit")).body.items, 0)
    const { body } = yield* ask(`/v1/changes/${position}/content`)
    assert.deepStrictEqual([body.before, body.after], [{ name: secret }, { name: `${secret} 2` }])
    const { body: { items: [entry] }, text } = yield* ask("/v1/audit")
    assert.deepInclude(entry, {
      command: "events.reveal",
      target: "greenhouse:acme/ats.tag",
      detail: `position ${position}`,
      actor: "no token",
      address: "127.0.0.1"
    })
    assert.notInclude(text, secret)
    assert.strictEqual((yield* ask("/v1/changes/nowhere")).status, 404)
    assert.strictEqual((yield* ask(`/v1/changes/${position.replace(/\d+$/, "99")}/content`)).status, 404)
  })

  served("names its topic, partition and offset once it is in Kafka, if that was recorded", function*() {
    yield* written
    const store = yield* Store
    const relay = yield* store.takeOwnership(relayReader)
    const { items } = yield* search()
    const kafkaOf = ({ position }: Found) => Effect.map(ask(`/v1/changes/${position}`), ({ body }) => body.kafka)
    const places = [{ topic: "rollcall.ats.tag", partition: 2, offset: 1_234, positions: [1, 3] }]
    yield* store.saveReaderPosition(relay, relayReader, 3, { at: Date.parse("2026-03-01T12:00:00Z"), places })
    const [fourth, third, second] = yield* Effect.forEach(items, kafkaOf)
    assert.deepInclude(fourth, { published: false, waiting: 0, place: null })
    const place = { topic: "rollcall.ats.tag", partition: 2, offset: 1_235, published_at: "2026-03-01T12:00:00.000Z" }
    assert.deepInclude(third, { published: true, place })
    assert.deepInclude(second, { published: true, place: null })
  }, { publishes: true })

  served("may be revealed with the read token, which the audit log shows", function*() {
    yield* written
    const headers = { host: "localhost", authorization: "Bearer read" }
    const { body: { items } } = yield* send("GET", "/v1/changes", headers)
    const { status } = yield* send("GET", `/v1/changes/${items[0].position}/content`, headers)
    assert.strictEqual(status, 200)
    const { body: { items: [entry] } } = yield* send("GET", "/v1/audit", headers)
    assert.deepInclude(entry, { command: "events.reveal", actor: "read token" })
  }, { token: "operate", readToken: "read" })

  it.live("is not revealed while the audit log takes no entry", () => {
    const failing = Layer.effect(
      Store,
      Effect.map(Store, (store) => ({
        ...store,
        recordAction: () =>
          Effect.fail(
            new StoreError({ reason: new Unavailable({ operation: "audit", cause: new StoreFault("full", "here") }) })
          )
      }))
    )
    return Effect.gen(function*() {
      yield* written
      const { items: [first] } = yield* search()
      const { status, text } = yield* ask(`/v1/changes/${first?.position}/content`)
      assert.strictEqual(status, 503)
      assert.notInclude(text, secret)
    }).pipe(
      Effect.provide(
        server().pipe(Layer.provideMerge(failing), Layer.provideMerge(MemoryStore.layer()))
      ),
      Effect.scoped
    )
  })
})
