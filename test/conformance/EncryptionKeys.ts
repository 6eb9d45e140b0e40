/** Tests for the keys of several processes on one store, which every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { randomBytes } from "node:crypto"
import { type EncryptionKey, parseKey } from "../../src/domain/EncryptionKey.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import { Processes } from "../../src/store/Processes.ts"
import { EncryptionKeys } from "../../src/store/sql/ContentCipher.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { all, created, stateOf, tags, testsIn } from "./StoreSamples.ts"

type Place = Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>

const newKey = () => parseKey(randomBytes(32).toString("base64"))!
const [older, newer] = [newKey(), newKey()]

const report = { version: "1.2.3", host: "one", pid: 7, address: null, clockOffset: null, problems: [] }

export const keySuite = (name: string, place: Place) =>
  describe(`the encryption keys of processes (${name})`, () => {
    /** Opens the store with these keys, the current one first, as one more process. */
    const opening = Effect.map(place, (client) =>
      Effect.fnUntraced(function*(...keys: ReadonlyArray<EncryptionKey>) {
        const ports = Ports.layer.pipe(
          Layer.provideMerge(client),
          Layer.provide(Layer.succeed(EncryptionKeys)(keys))
        )
        const context = yield* Layer.build(Layer.fresh(ports))
        const store = Context.get(context, Store)
        const processes = Context.get(context, Processes)
        const sql = Context.get(context, SqlClient)
        const take = store.takeOwnership("capture")
        return {
          store,
          deliveries: Context.get(context, Deliveries),
          self: processes.self,
          take,
          report: processes.report(report),
          isSilent: sql`UPDATE processes SET seen_at = seen_at - 600000 WHERE id = ${processes.self}`,
          registered: Effect.map(
            sql<{ id: string }>`SELECT id FROM encryption_keys`,
            (rows) => rows.map(({ id }) => id)
          ),
          /** Takes the stream over and writes a record to it. */
          write: Effect.fnUntraced(function*(id: string) {
            yield* store.ensureStreams([stateOf(tags)])
            const owner = yield* take
            yield* store.transact(owner, tags, (tx) => tx.write([created(id)]))
            return owner
          }),
          /** The state of the stream after its content was encrypted with this key. */
          note: Effect.fnUntraced(function*(encryptedWith: EncryptionKey) {
            const owner = yield* take
            yield* store.transact(owner, tags, (tx) => tx.saveState({ ...tx.state, encryptedWith: encryptedWith.id }))
          }),
          journal: sql`INSERT INTO journal ${
            sql.insert({
              handler: 1,
              dedup_key: "e1",
              step: "s",
              keep_forever: 0,
              delivery: 1,
              claim: 1,
              begun_at: 1,
              done: 1,
              result: `{"a":1}`
            })
          }`
        }
      }))
    const live = testsIn(Layer.empty, opening, it.live)

    live(
      "are registered by the first takeover, and then a process that lacks one takes, encrypts and retires nothing",
      function*(open) {
        const old = yield* open(older)
        const plain = yield* open()
        yield* old.write("a")
        assert.deepStrictEqual(yield* plain.store.missingKeys, [older.id])
        const fresh = yield* open(newer, older)
        assert.deepStrictEqual(yield* old.store.missingKeys, [])
        const owner = yield* fresh.write("b")
        assert.deepStrictEqual(yield* old.store.missingKeys, [newer.id])
        for (
          const refused of [
            Effect.asVoid(old.take),
            Effect.asVoid(plain.take),
            Effect.asVoid(old.store.encryptJournal),
            Effect.asVoid(old.store.retireKeys),
            Effect.asVoid(old.store.readLog(all)),
            Effect.asVoid(open(older))
          ]
        ) {
          const error = yield* Effect.flip(refused)
          assert.deepStrictEqual([error.reason._tag, error.message.includes(newer.id)], ["MissingKey", true])
        }
        assert.sameMembers([...yield* fresh.registered], [older.id, newer.id])
        assert.lengthOf(yield* fresh.store.readLog(all), 2)
        // what was refused has taken nothing
        yield* fresh.store.transact(owner, tags, (tx) => tx.saveState(tx.state))
      }
    )

    live(
      "let a process that lacks another one store the result of a write, unless its own key is retired",
      function*(open) {
        const old = yield* open(older)
        const owner = yield* old.write("a")
        const fresh = yield* open(newer, older)
        yield* fresh.write("b")
        const step = (name: string) => ({ handler: 1, dedupKeys: ["e1"] as const, step: name, keepForever: false })
        const finish = (name: string) => old.deliveries.finish({ delivery: 1, claim: 1, owner }, step(name), `{"a":1}`)
        yield* finish("s1")
        assert.strictEqual(yield* fresh.deliveries.result(step("s1")), `{"a":1}`)
        yield* fresh.store.encryptJournal
        for (
          const refused of [
            Effect.asVoid(old.deliveries.purgeResults(tags.integration, "b")),
            Effect.asVoid(old.store.findRows([tags], "b", () => true))
          ]
        ) assert.strictEqual((yield* Effect.flip(refused)).reason._tag, "MissingKey")
        yield* fresh.note(newer)
        assert.deepStrictEqual(yield* fresh.store.retireKeys, [older.id])
        assert.strictEqual((yield* Effect.flip(finish("s2"))).reason._tag, "MissingKey")
        assert.deepStrictEqual(yield* fresh.registered, [newer.id])
      }
    )

    live(
      "are not retired while a living process has another current key, or a stream or the journal needs one",
      function*(open) {
        const old = yield* open(older, newer)
        yield* old.write("a")
        yield* old.report
        const fresh = yield* open(newer, older)
        yield* fresh.report
        yield* fresh.take
        assert.isNull(yield* fresh.store.retireKeys, "a living process has another key")
        yield* old.isSilent
        assert.deepStrictEqual(yield* fresh.store.retireKeys, [], "the stream needs the key")
        yield* fresh.note(newer)
        yield* fresh.journal
        assert.deepStrictEqual(yield* fresh.store.retireKeys, [], "the journal needs the key")
        yield* fresh.store.encryptJournal
        assert.deepStrictEqual(yield* fresh.store.retireKeys, [older.id])
        assert.deepStrictEqual(yield* fresh.registered, [newer.id])
      }
    )

    live(
      "that are retired are not used by a process that was frozen: it is fenced, and registers its key when it takes over",
      function*(open) {
        const frozen = yield* open(older, newer)
        const owner = yield* frozen.write("a")
        const relay = yield* frozen.store.takeOwnership("relay")
        yield* frozen.report
        yield* frozen.isSilent
        const fresh = yield* open(newer, older)
        yield* fresh.report
        const peer = yield* open(newer, older)
        yield* peer.report
        const unlisted = yield* open(older, newer)
        const delivery = yield* peer.store.takeOwnership("delivery")
        const other = yield* unlisted.store.takeOwnership("delivery/1")
        const own = yield* fresh.write("b")
        yield* fresh.note(newer)
        const isFenced = (process: typeof fresh, by: typeof own) =>
          process.store.saveReaderPosition(by, "r", 1).pipe(
            Effect.as(false),
            Effect.catch((error) => Effect.succeed(error.reason._tag === "Fenced"))
          )
        assert.deepStrictEqual(yield* fresh.store.retireKeys, [older.id])
        assert.deepStrictEqual(
          yield* Effect.all([
            isFenced(frozen, owner),
            isFenced(frozen, relay),
            isFenced(unlisted, other),
            isFenced(peer, delivery)
          ]),
          [true, true, true, false]
        )
        assert.deepStrictEqual(yield* fresh.registered, [newer.id])
        const late = yield* open(newer)
        // the process wakes
        yield* frozen.store.encryptJournal
        assert.sameMembers([...yield* fresh.registered], [older.id, newer.id])
        assert.deepStrictEqual(yield* late.store.missingKeys, [older.id])
      }
    )
  })
