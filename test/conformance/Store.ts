/** What every store must do; `storeSuite` needs a layer that makes a fresh store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { type Owner, Store, type StoreError } from "../../src/store/Store.ts"
import {
  all,
  begin,
  changeOf,
  conflict,
  created,
  headOf,
  ids,
  integrationOf,
  pendingOf,
  reasonOf,
  skills,
  stateOf,
  Stop,
  tags
} from "./StoreSamples.ts"

export const storeSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    describe("integrations", () => {
      test(
        "are written with the act that led there, and read in the order of their ids",
        Effect.gen(function*() {
          const { owner, store } = yield* begin
          const act = { at: 7, act: "integrations.add", target: "b:1", detail: "models auto" }
          yield* store.saveIntegration(owner, integrationOf("b:1"), act)
          yield* store.saveIntegration(owner, integrationOf("a:1", { models: ["ats.tag"] }), null)
          yield* store.saveIntegration(owner, integrationOf("b:1", { state: "removed" }), { ...act, at: 8 })
          assert.deepStrictEqual(yield* store.integrations, [
            integrationOf("a:1", { models: ["ats.tag"] }),
            integrationOf("b:1", { state: "removed" })
          ])
          assert.deepStrictEqual(yield* store.audited(10), [{ ...act, at: 8 }, act])
          assert.deepStrictEqual(yield* store.audited(1), [{ ...act, at: 8 }])
        })
      )

      test(
        "I2: acts on a stream are written down with what they did, or not at all",
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          const entry = { at: 7, act: "streams.pause", target: "greenhouse:acme/ats.tag", detail: "" }
          yield* inTags((tx) => tx.record(entry))
          yield* Effect.exit(inTags((tx) => Effect.andThen(tx.record({ ...entry, at: 8 }), Effect.fail(new Stop()))))
          assert.deepStrictEqual(yield* store.audited(10), [entry])
        })
      )

      test(
        "I10: are not written in the name of an owner who is no longer one, nor is the act",
        Effect.gen(function*() {
          const { owner, store } = yield* begin
          yield* store.claim("capture")
          const act = { at: 7, act: "integrations.add", target: "b:1", detail: "" }
          const exit = yield* Effect.exit(store.saveIntegration(owner, integrationOf("b:1"), act))
          assert.strictEqual(reasonOf(exit), "Fenced")
          assert.deepStrictEqual([yield* store.integrations, yield* store.audited(10)], [[], []])
        })
      )
    })

    describe("streams", () => {
      test(
        "are created once and keep their state when ensured again",
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          yield* inTags((tx) => tx.save({ ...tx.state, phase: "live", watermark: 7 }))
          yield* store.ensureStreams([stateOf(tags), stateOf({ ...tags, model: "ats.offer" })])
          assert.deepStrictEqual((yield* store.streams).map((state) => [state.model, state.phase, state.watermark]), [
            ["ats.offer", "starting", null],
            ["ats.tag", "live", 7],
            ["hris.skill", "starting", null]
          ])
          assert.strictEqual((yield* store.stream(tags))?.watermark, 7)
          assert.isNull(yield* store.stream({ ...tags, model: "ats.candidate" }))
        })
      )

      test(
        "cannot be transacted on when the store does not have them",
        Effect.gen(function*() {
          const { owner, store } = yield* begin
          const exit = yield* Effect.exit(store.transact(owner, { ...tags, integration: "other" }, () => Effect.void))
          assert.strictEqual(reasonOf(exit), "Incompatible")
        })
      )
    })

    describe("a transaction", () => {
      test(
        "I2: a body that fails after its writes leaves nothing, and its error passes through",
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          const error = yield* inTags((tx) =>
            Effect.gen(function*() {
              yield* tx.save({ ...tx.state, watermark: 9 })
              yield* tx.putPending([pendingOf("p")])
              yield* tx.quarantine([{ hash: "h", reason: "no id", content: "{}", at: 1 }])
              yield* tx.write([created("a")])
              return yield* Effect.fail(new Stop())
            })
          ).pipe(Effect.flip)
          assert.instanceOf(error, Stop)
          assert.deepStrictEqual(yield* store.logRange, { oldest: 0, newest: 0 })
          assert.strictEqual((yield* store.stream(tags))?.watermark, null)
          assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
          assert.deepStrictEqual((yield* store.counts)[0], { ...tags, live: 0, quarantined: 0, owed: 0, pending: {} })
        })
      )

      test(
        "I2: an interrupted body leaves nothing, and the store goes on",
        Effect.gen(function*() {
          const { inTags, store, write } = yield* begin
          const written = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(
            inTags((tx) =>
              tx.write([created("a")]).pipe(
                Effect.andThen(Deferred.succeed(written, undefined)),
                Effect.andThen(Effect.never)
              )
            )
          )
          yield* Deferred.await(written)
          yield* Fiber.interrupt(fiber)
          assert.strictEqual((yield* store.logRange).newest, 0)
          yield* write([created("a")])
          assert.strictEqual((yield* store.logRange).newest, 1)
        })
      )

      it.live("runs its body again after a conflict, and only the last run counts", () =>
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          let runs = 0
          yield* inTags((tx) =>
            Effect.gen(function*() {
              runs += 1
              yield* tx.write([created(`run${runs}`)])
              if (runs < 3) return yield* conflict
            })
          )
          assert.deepStrictEqual((yield* store.log(all)).map((entry) => [entry.position, entry.id]), [[1, "run3"]])
        }).pipe(Effect.provide(layer)))

      test(
        "reads what it wrote, and writes to several records and several times",
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          yield* inTags((tx) =>
            Effect.gen(function*() {
              yield* tx.write([created("a"), created("b")])
              const heads = yield* tx.heads(["a", "b", "c"])
              assert.deepStrictEqual([...heads.keys()].sort(), ["a", "b"])
              yield* tx.write([changeOf(heads.get("a")!, "updated")])
              assert.strictEqual((yield* tx.heads(["a"])).get("a")?.position, 3)
            })
          )
          assert.deepStrictEqual(
            (yield* store.log(all)).map((entry) => [entry.position, entry.id, entry.version, entry.before]),
            [[1, "a", 1, null], [2, "b", 1, null], [3, "a", 2, '{"id":"a","version":1}']]
          )
        })
      )

      test(
        "takes more rows at once than any database allows values in a statement",
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          const many = ids(3000)
          yield* inTags((tx) =>
            Effect.gen(function*() {
              yield* tx.write(many.map(created))
              yield* tx.putPending(many.map((id) => pendingOf(id)))
              yield* tx.seen(many, 4)
              assert.strictEqual((yield* tx.heads(many)).size, 3000)
              assert.strictEqual((yield* tx.pending(many)).size, 3000)
              yield* tx.dropPending(many.slice(1))
            })
          )
          const [counts] = yield* store.counts
          assert.deepStrictEqual(counts, { ...tags, live: 3000, quarantined: 0, owed: 0, pending: { staged: 1 } })
          assert.deepStrictEqual(yield* store.unseen(tags, 4, null, 10), [])
        })
      )

      test(
        "accepts nothing to do",
        Effect.gen(function*() {
          const { inTags, store } = yield* begin
          yield* inTags((tx) =>
            Effect.all([
              tx.write([]),
              tx.seen([], 1),
              tx.putPending([]),
              tx.dropPending([]),
              tx.quarantine([]),
              tx.heads([]),
              tx.pending([]),
              tx.contents([]),
              tx.beforeImages([])
            ])
          )
          yield* store.ensureStreams([])
          assert.strictEqual((yield* store.logRange).newest, 0)
        })
      )
    })

    describe("ownership", () => {
      test(
        "X9: the older of two owners is fenced, its body does not run and nothing changes",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          yield* write([created("a")])
          const newer = yield* store.claim("capture")
          assert.isAbove(newer.epoch, owner.epoch)

          let ran = false
          const exit = yield* Effect.exit(
            store.transact(owner, tags, (tx) =>
              Effect.suspend(() => {
                ran = true
                return tx.write([created("b")])
              }))
          )
          assert.strictEqual(reasonOf(exit), "Fenced")
          assert.isFalse(ran)
          assert.strictEqual(reasonOf(yield* Effect.exit(store.saveReaderPosition(owner, "relay", 1))), "Fenced")
          assert.strictEqual(yield* store.readerPosition("relay"), 0)
          assert.strictEqual((yield* store.logRange).newest, 1)

          yield* store.transact(newer, tags, (tx) => tx.write([created("b")]))
          assert.strictEqual((yield* store.logRange).newest, 2)
        })
      )

      test(
        "X9: scopes do not fence each other, and one never claimed owns nothing",
        Effect.gen(function*() {
          const { owner, store, write } = yield* begin
          const relay = yield* store.claim("relay")
          yield* write([created("a")])
          yield* store.saveReaderPosition(relay, "kafka", 1)
          const stranger: Owner = { scope: "nobody", epoch: owner.epoch }
          assert.strictEqual(reasonOf(yield* Effect.exit(store.transact(stranger, tags, () => Effect.void))), "Fenced")
        })
      )
    })

    describe("heads", () => {
      test(
        "keep every property, and their position when nothing is published",
        Effect.gen(function*() {
          const { inTags, write } = yield* begin
          const head = headOf("a", { textHash: "t", canonicalHash: "c", fingerprint: "f", changedAt: 5, seen: 3 })
          yield* write([{ head, events: [] }])
          assert.deepStrictEqual((yield* inTags((tx) => tx.heads(["a"]))).get("a"), head)
          yield* write([changeOf(head, "created")])
          const published = { ...head, version: 1, position: 1 }
          assert.deepStrictEqual((yield* inTags((tx) => tx.heads(["a"]))).get("a"), published)
          yield* write([{ head: { ...published, textHash: "other", live: false }, events: [] }])
          assert.deepStrictEqual((yield* inTags((tx) => tx.heads(["a"]))).get("a"), {
            ...published,
            textHash: "other",
            live: false
          })
        })
      )

      test(
        "of one stream are not those of another with the same ids",
        Effect.gen(function*() {
          const { inTags, store, write } = yield* begin
          yield* write([created("a")], skills)
          assert.strictEqual((yield* inTags((tx) => tx.heads(["a"]))).size, 0)
          assert.deepStrictEqual((yield* store.records(tags, null, 10)).records, [])
        })
      )

      test(
        "are never marked as seen by an older reading",
        Effect.gen(function*() {
          const { head, inTags, write } = yield* begin
          yield* write([created("a"), created("b")])
          yield* inTags((tx) => tx.seen(["a", "unknown"], 7))
          yield* inTags((tx) => tx.seen(["a", "b"], 5))
          assert.deepStrictEqual([(yield* head("a")).seen, (yield* head("b")).seen], [7, 5])
          yield* write([changeOf({ ...(yield* head("a")), seen: 2 }, "updated")])
          assert.strictEqual((yield* head("a")).seen, 7)
        })
      )

      test(
        "that no reading met since are found, and controls among those met",
        Effect.gen(function*() {
          const { change, inTags, store, write } = yield* begin
          yield* write(ids(6).map(created))
          yield* inTags((tx) => tx.seen(["r00001", "r00003"], 2))
          yield* change("r00004", "deleted")
          assert.deepStrictEqual(yield* store.unseen(tags, 2, null, 2), ["r00000", "r00002"])
          assert.deepStrictEqual(yield* store.unseen(tags, 2, "r00002", 2), ["r00005"])
          assert.deepStrictEqual(yield* store.controls(tags, 2, 5), ["r00001", "r00003"])
          assert.strictEqual((yield* store.controls(tags, 1, 2)).length, 2)
          assert.deepStrictEqual(yield* store.unseen(skills, 2, null, 2), [])
        })
      )
    })

    describe("records", () => {
      test(
        "are the live ones in id order, page by page, with the newest position",
        Effect.gen(function*() {
          const { change, store, write } = yield* begin
          yield* write(["b", "a", "Z", "é", "c"].map(created))
          yield* change("c", "deleted")
          yield* change("a", "updated")
          const first = yield* store.records(tags, null, 2)
          assert.deepStrictEqual(first, {
            position: 7,
            records: [
              { id: "Z", version: 1, lineage: 1, content: '{"id":"Z","version":1}' },
              { id: "a", version: 2, lineage: 1, content: '{"id":"a","version":2}' }
            ]
          })
          const second = yield* store.records(tags, "a", 2)
          assert.deepStrictEqual(second.records.map((record) => record.id), ["b", "é"])
          assert.deepStrictEqual(yield* store.records(tags, "é", 2), { position: 7, records: [] })
        })
      )

      test(
        "R4: a follower from the first page's position misses no change made between the pages",
        Effect.gen(function*() {
          const { change, store, write } = yield* begin
          yield* write(ids(10).map(created))
          const content = new Map<string, string | null>()
          const first = yield* store.records(tags, null, 4)
          for (const record of first.records) content.set(record.id, record.content)
          yield* change("r00001", "updated")
          yield* change("r00008", "updated")
          yield* change("r00009", "deleted")
          const rest = yield* store.records(tags, "r00003", 100)
          for (const record of rest.records) content.set(record.id, record.content)
          for (const entry of yield* store.log({ after: first.position, limit: 100 })) {
            content.set(entry.id, entry.after)
          }
          const { records } = yield* store.records(tags, null, 100)
          const now = new Map<string, string | null>(records.map((record) => [record.id, record.content]))
          for (const [id, after] of content) if (after === null) content.delete(id)
          assert.deepStrictEqual(content, now)
        })
      )
    })

    describe("pending and quarantine", () => {
      test(
        "pending rows keep every property, the newest observation replacing the older",
        Effect.gen(function*() {
          const { inTags } = yield* begin
          const older = pendingOf("a")
          const newer = pendingOf("a", {
            status: "absent",
            reading: 4,
            origin: "sweep",
            content: null,
            deleted: true,
            reason: "absent",
            textHash: "t",
            canonicalHash: "c",
            remoteId: "r",
            changedAt: "2026-01-02T00:00:00Z",
            detectedAt: 8,
            confirms: 1,
            confirmedAt: 9
          })
          yield* inTags((tx) => tx.putPending([older]))
          assert.deepStrictEqual((yield* inTags((tx) => tx.pending(["a"]))).get("a"), older)
          yield* inTags((tx) => tx.putPending([newer]))
          assert.deepStrictEqual((yield* inTags((tx) => tx.pending(["a", "b"]))).get("a"), newer)
        })
      )

      test(
        "pending rows of one status come in id order, page by page",
        Effect.gen(function*() {
          const { inTags } = yield* begin
          yield* inTags((tx) =>
            tx.putPending(ids(7).map((id, index) => pendingOf(id, { status: index % 2 === 0 ? "staged" : "held" })))
          )
          const page = (after: string | null) =>
            Effect.map(inTags((tx) => tx.pendingBy("staged", after, 3)), (rows) => rows.map((row) => row.id))
          assert.deepStrictEqual(yield* page(null), ["r00000", "r00002", "r00004"])
          assert.deepStrictEqual(yield* page("r00004"), ["r00006"])
        })
      )

      test(
        "are listed without content over all streams or of one, and counted by status",
        Effect.gen(function*() {
          const { inTags, owner, store } = yield* begin
          const secret = JSON.stringify({ name: "Ada" })
          yield* inTags((tx) =>
            Effect.all([
              tx.putPending([pendingOf("b", { content: secret }), pendingOf("a", { status: "held" })]),
              tx.quarantine([{ hash: "h", reason: "no id", content: secret, at: 1 }]),
              tx.quarantine([{ hash: "h", reason: "no id", content: secret, at: 2 }])
            ])
          )
          yield* store.transact(owner, skills, (tx) => tx.putPending([pendingOf("c")]))
          const rows = yield* store.pendingRows({ limit: 10 })
          assert.deepStrictEqual(rows.map((row) => [row.model, row.id]), [
            ["ats.tag", "a"],
            ["ats.tag", "b"],
            ["hris.skill", "c"]
          ])
          assert.notInclude(JSON.stringify(rows), "Ada")
          assert.strictEqual((yield* store.pendingRows({ key: skills, limit: 10 })).length, 1)
          assert.strictEqual((yield* store.pendingRows({ limit: 2 })).length, 2)
          assert.deepStrictEqual(yield* store.counts, [
            { ...tags, live: 0, quarantined: 1, owed: 0, pending: { staged: 1, held: 1 } },
            { ...skills, live: 0, quarantined: 0, owed: 0, pending: { staged: 1 } }
          ])
        })
      )
    })

    test(
      "readers of the log keep their positions, each its own",
      Effect.gen(function*() {
        const { owner, store } = yield* begin
        assert.strictEqual(yield* store.readerPosition("kafka"), 0)
        yield* store.saveReaderPosition(owner, "kafka", 5)
        yield* store.saveReaderPosition(owner, "other", 2)
        yield* store.saveReaderPosition(owner, "kafka", 6)
        assert.deepStrictEqual([yield* store.readerPosition("kafka"), yield* store.readerPosition("other")], [6, 2])
      })
    )

    test(
      "has an identity of its own",
      Effect.gen(function*() {
        const { identity } = yield* Store
        assert.match(identity.store, /^[0-9a-z]{8}$/)
        assert.strictEqual(identity.lineage, 1)
        const other = yield* Effect.provide(Effect.map(Store, (store) => store.identity.store), Layer.fresh(layer))
        assert.notStrictEqual(other, identity.store)
      })
    )
  })
