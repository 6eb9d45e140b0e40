/** Tests that every store must pass. `storeSuite` needs a layer that creates a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import type { StreamKey } from "../../src/domain/Model.ts"
import { CurrentActor } from "../../src/store/Operators.ts"
import { queryFor } from "../../src/store/Records.ts"
import type { IntegrationState, Owner } from "../../src/store/State.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import {
  all,
  begin,
  changeOf,
  conflict,
  created,
  employees,
  headsOf,
  integrationOf,
  pendingOf,
  reasonOf,
  stateOf,
  Stop,
  tags,
  testsIn
} from "./StoreSamples.ts"

export const storeSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a store (${name})`, () => {
    const test = testsIn(layer, begin)

    describe("integrations", () => {
      test(
        "are saved with the operator's action that caused the change, and read in id order",
        function*({ owner, store }) {
          const action = { at: 7, command: "integrations.add", target: "b:1", detail: "models auto" }
          const process = { actor: "process", address: null }
          yield* store.saveIntegration(owner, integrationOf("b:1"), action)
          yield* store.saveIntegration(owner, integrationOf("a:1", { models: ["ats.tag"] }), null)
          yield* store.saveIntegration(owner, integrationOf("b:1", { state: "removed" }), { ...action, at: 8 })
          assert.deepStrictEqual(yield* store.integrations, [
            integrationOf("a:1", { models: ["ats.tag"] }),
            integrationOf("b:1", { state: "removed" })
          ])
          assert.deepStrictEqual(
            [yield* store.integration("b:1"), yield* store.integration("c:1")],
            [integrationOf("b:1", { state: "removed" }), null]
          )
          const [second, first, ...others] = yield* store.auditLog(10)
          assert.deepStrictEqual([second, first, others], [
            { ...action, ...process, at: 8, id: second?.id ?? 0 },
            { ...action, ...process, id: first?.id ?? 0 },
            []
          ])
          assert.deepStrictEqual(yield* store.auditLog(1), second && [second])
          assert.deepStrictEqual(yield* store.auditLog(10, second?.id), first && [first])
        }
      )

      test("that are not active, or are in other accounts, are found among the others", function*({ owner, store }) {
        const save = (id: string, details: Partial<IntegrationState>) =>
          store.saveIntegration(owner, integrationOf(id, details), null)
        const found = (...accounts: ReadonlyArray<ReadonlySet<string>>) =>
          Effect.map(store.unavailableIntegrations(...accounts), (all) => all.map(({ id, state }) => [id, state]))
        yield* save("a:1", { account: "eu" })
        yield* save('b:"state":"active"', { account: "eu", state: "removed" })
        yield* save("c:1", { account: "us" })
        yield* save("d:1", { account: "us", state: "erased" })
        yield* save("e:1", { account: "ap" })
        yield* save("f:1", { account: "us", state: "erasing" })
        const inactive = [['b:"state":"active"', "removed"], ["d:1", "erased"], ["f:1", "erasing"]]
        assert.deepStrictEqual(yield* found(), inactive)
        assert.deepStrictEqual(yield* found(new Set(["eu", "us", "ap", "xx"])), inactive)
        assert.deepStrictEqual(
          yield* found(new Set(["eu"])),
          [...inactive, ["c:1", "active"], ["e:1", "active"]].toSorted()
        )
        assert.lengthOf(yield* found(new Set()), 6)
        const saves = yield* store.integrationSaves
        yield* save("d:1", { account: "us" })
        yield* save("a:1", { account: "us", state: "removed" })
        assert.deepStrictEqual(yield* found(new Set(["eu", "us", "ap"])), [
          ["a:1", "removed"],
          ['b:"state":"active"', "removed"],
          ["f:1", "erasing"]
        ])
        assert.isAbove(yield* store.integrationSaves, saves)
      })

      test(
        "an operator's action on a stream is saved together with its effect, or not at all (I2)",
        function*({ inTags, store }) {
          const entry = { at: 7, command: "streams.pause", target: "greenhouse:acme/ats.tag", detail: "" }
          yield* inTags((tx) => tx.recordAction(entry)).pipe(
            Effect.provideService(CurrentActor, { actor: "session", address: "192.0.2.1" })
          )
          yield* Effect.exit(
            inTags((tx) => Effect.andThen(tx.recordAction({ ...entry, at: 8 }), Effect.fail(new Stop())))
          )
          assert.deepStrictEqual((yield* store.auditLog(10)).map(({ actor, address, at }) => [at, actor, address]), [
            [7, "session", "192.0.2.1"]
          ])
        }
      )

      test("an operator's action without an effect in the store is saved with its actor", function*({ store }) {
        const entry = { at: 7, command: "sessions.end", target: "all", detail: "2 ended" }
        const actor = { actor: "session", address: "192.0.2.1" }
        yield* Effect.provideService(store.recordAction(entry), CurrentActor, actor)
        const [saved, ...others] = yield* store.auditLog(10)
        assert.deepStrictEqual([saved, others], [{ ...entry, ...actor, id: saved?.id ?? 0 }, []])
      })

      test(
        "are not saved for an owner that was replaced, nor is the operator's action (I10)",
        function*({ owner, store }) {
          yield* store.takeOwnership("capture")
          const action = { at: 7, command: "integrations.add", target: "b:1", detail: "" }
          const exit = yield* Effect.exit(store.saveIntegration(owner, integrationOf("b:1"), action))
          assert.strictEqual(reasonOf(exit), "Fenced")
          assert.deepStrictEqual([yield* store.integrations, yield* store.auditLog(10)], [[], []])
        }
      )
    })

    describe("streams", () => {
      test("are created once and keep their state when `ensureStreams` runs again", function*({ inTags, store }) {
        yield* inTags((tx) => tx.saveState({ ...tx.state, phase: "live", watermark: 7 }))
        yield* store.ensureStreams([stateOf(tags), stateOf({ ...tags, model: "ats.offer" })])
        assert.deepStrictEqual((yield* store.streams).map((state) => [state.model, state.phase, state.watermark]), [
          ["ats.offer", "starting", null],
          ["ats.tag", "live", 7],
          ["hris.employee", "starting", null]
        ])
        assert.strictEqual((yield* store.stream(tags))?.watermark, 7)
        assert.isNull(yield* store.stream({ ...tags, model: "ats.candidate" }))
        const own = yield* store.streamsOf(tags.integration)
        assert.deepStrictEqual(own.map((state) => [state.model, state.phase]), [["ats.offer", "starting"], [
          "ats.tag",
          "live"
        ]])
      })

      test("reject a transaction if the store does not have them", function*({ owner, store }) {
        const exit = yield* Effect.exit(store.transact(owner, { ...tags, integration: "other" }, () => Effect.void))
        assert.strictEqual(reasonOf(exit), "Incompatible")
      })
    })

    describe("a transaction", () => {
      test("leaves no writes if its body fails, and returns the body's error (I2)", function*({ inTags, store }) {
        const error = yield* inTags(Effect.fnUntraced(function*(tx) {
          yield* tx.saveState({ ...tx.state, watermark: 9 })
          yield* tx.putPending([pendingOf("p")])
          yield* tx.quarantine([{ hash: "h", reason: "no id", content: "{}", redaction: null, at: 1 }])
          yield* tx.write([created("a")])
          return yield* Effect.fail(new Stop())
        })).pipe(Effect.flip)
        assert.instanceOf(error, Stop)
        assert.deepStrictEqual(yield* store.logRange, { oldest: 0, newest: 0 })
        assert.strictEqual((yield* store.stream(tags))?.watermark, null)
        assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
        assert.deepStrictEqual((yield* store.counts)[0], { ...tags, live: 0, quarantined: 0, stale: 0, pending: {} })
      })

      test(
        "leaves no writes if its body is interrupted, and the store stays usable (I2)",
        function*({ inTags, store, write }) {
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
        }
      )

      const live = testsIn(layer, begin, it.live)
      live("runs its body again after a conflict, and commits only the last run", function*({ inTags, store }) {
        let runs = 0
        yield* inTags(Effect.fnUntraced(function*(tx) {
          runs += 1
          yield* tx.write([created(`run${runs}`)])
          if (runs < 3) return yield* conflict
        }))
        assert.deepStrictEqual((yield* store.readLog(all)).map((entry) => [entry.position, entry.id]), [[1, "run3"]])
      })

      test("reads its own writes, and writes several records several times", function*({ inTags, store }) {
        yield* inTags(Effect.fnUntraced(function*(tx) {
          yield* tx.write([created("a"), created("b")])
          const heads = yield* headsOf(tx, ["a", "b", "c"])
          assert.deepStrictEqual([...heads.keys()].sort(), ["a", "b"])
          yield* tx.write([changeOf(heads.get("a")!, "updated")])
          assert.strictEqual((yield* headsOf(tx, ["a"])).get("a")?.position, 3)
        }))
        assert.deepStrictEqual(
          (yield* store.readLog(all)).map((entry) => [entry.position, entry.id, entry.version, entry.before]),
          [[1, "a", 1, null], [2, "b", 1, null], [3, "a", 2, '{"id":"a","version":1}']]
        )
      })

      test(
        "pages of streams are in order, filtered and complete, and each stream has its own counts",
        function*({ inTags, store }) {
          const names = ["a", "b", "c"].flatMap((tool) =>
            (["ats.tag", "hris.employee"] as const).map((model) => ({ integration: `${tool}:acme`, model }))
          )
          yield* store.ensureStreams(names.map((key) => stateOf(key)))
          yield* inTags((tx) =>
            Effect.andThen(tx.write([created("x"), created("y")]), tx.putPending([pendingOf("x"), pendingOf("z")]))
          )
          const keys = (page: Effect.Success<ReturnType<typeof store.streamPage>>) =>
            page.streams.map(({ state: { integration, model } }) => `${integration}/${model}`)
          const whole = yield* store.streamPage({ limit: 100 })
          assert.deepStrictEqual(
            keys(whole),
            [...names, tags, employees].map(({ integration, model }) => `${integration}/${model}`)
          )
          assert.strictEqual(whole.position, 2)
          assert.deepStrictEqual(
            whole.streams.map(({ state: { integration, model }, counts }) => ({ integration, model, ...counts })),
            yield* store.counts
          )
          assert.deepInclude(whole.streams[6]?.counts, { live: 2, pending: { staged: 2 } })
          const seen: Array<string> = []
          for (let after: StreamKey | undefined; seen.length < 8;) {
            const page = yield* store.streamPage({ limit: 3, ...after === undefined ? {} : { after } })
            seen.push(...keys(page))
            after = page.streams.at(-1)?.state
          }
          assert.deepStrictEqual(seen, keys(whole))
          const some = yield* store.streamPage({
            integrations: ["b:acme", "greenhouse:acme"],
            models: ["ats.tag"],
            limit: 9
          })
          assert.deepStrictEqual(keys(some), ["b:acme/ats.tag", "greenhouse:acme/ats.tag"])
          const none = yield* store.streamPage({ integrations: ["unknown"], limit: 9 })
          assert.deepStrictEqual([none.position, none.chain, none.streams], [2, whole.chain, []])
        }
      )

      test("accepts empty lists", function*({ inTags, store }) {
        yield* inTags((tx) =>
          Effect.all([
            tx.write([]),
            tx.markSeen([], 1),
            tx.putPending([]),
            tx.dropPending([]),
            tx.quarantine([]),
            tx.read(queryFor([], null))
          ])
        )
        yield* store.ensureStreams([])
        assert.strictEqual((yield* store.logRange).newest, 0)
      })
    })

    describe("ownership", () => {
      test(
        "the older of two owners is fenced: its body does not run and nothing changes (X9)",
        function*({ owner, store, write }) {
          yield* write([created("a")])
          const newer = yield* store.takeOwnership("capture")
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
        }
      )

      test(
        "scopes do not fence each other, and a scope that was never claimed has no owner (X9)",
        function*({ owner, store, write }) {
          const relay = yield* store.takeOwnership("relay")
          yield* write([created("a")])
          yield* store.saveReaderPosition(relay, "kafka", 1)
          const stranger: Owner = { scope: "unclaimed", epoch: owner.epoch }
          assert.strictEqual(reasonOf(yield* Effect.exit(store.transact(stranger, tags, () => Effect.void))), "Fenced")
        }
      )

      test("several scopes are taken over together, each from its own owner (X9)", function*({ owner, store }) {
        const first = yield* store.takeOwnerships(["capture/1", "capture/2"])
        const second = yield* store.takeOwnerships(["capture/2", "capture/3"])
        const isFenced = (candidate: Owner | undefined) =>
          Effect.map(
            Effect.exit(store.saveReaderPosition(candidate!, "relay", 1)),
            (exit) => reasonOf(exit) === "Fenced"
          )
        assert.deepStrictEqual(
          yield* Effect.forEach(
            [owner, first.get("capture/1"), first.get("capture/2"), second.get("capture/2"), second.get("capture/3")],
            isFenced
          ),
          [false, false, true, false, false]
        )
      })
    })

    test(
      "a reader is needed for a while after a process has noted it, and noting it keeps its position",
      function*({ owner, store }) {
        const needed = store.neededPositions(60_000)
        yield* store.saveReaderPosition(owner, "kafka", 5)
        assert.deepStrictEqual(yield* needed, [])
        yield* store.noteReaders(["kafka", "new"])
        yield* store.saveReaderPosition(owner, "kafka", 6)
        assert.deepStrictEqual((yield* needed).toSorted(), [0, 6])
        assert.deepStrictEqual(yield* store.neededPositions(0), [])
        yield* store.noteReaders([])
        assert.lengthOf(yield* needed, 2)
      }
    )

    test("each reader of the log has its own saved position", function*({ owner, store }) {
      assert.strictEqual(yield* store.readerPosition("kafka"), 0)
      yield* store.saveReaderPosition(owner, "kafka", 5)
      yield* store.saveReaderPosition(owner, "other", 2)
      yield* store.saveReaderPosition(owner, "kafka", 6)
      assert.deepStrictEqual([yield* store.readerPosition("kafka"), yield* store.readerPosition("other")], [6, 2])
    })

    test("knows the size of its database", function*({ store }) {
      assert.isAbove(yield* store.size, 10_000)
    })
  })
