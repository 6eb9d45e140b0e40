/** Forgetting a person in a store in which rows are damaged: of the person, of records that repeat the person, and of others. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { randomBytes } from "node:crypto"
import { DatabaseSync } from "node:sqlite"
import { pendingOf } from "../../../test/conformance/StoreSamples.ts"
import {
  ann,
  contentOf,
  entries,
  forgetNow,
  integration,
  scenario,
  startProcess,
  startReading,
  type World
} from "../../../test/support/capture/ForgettingWorld.ts"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { type EncryptionKey, parseKey } from "../../domain/EncryptionKey.ts"
import type { Model } from "../../domain/Model.ts"
import { defaultProcessing } from "../../domain/Processing.ts"
import { EncryptionKeys } from "../../store/sql/ContentCipher.ts"
import { Store } from "../../store/Store.ts"

const keys: ReadonlyArray<EncryptionKey> = [parseKey(randomBytes(32).toString("base64"))!]
const stores = [["clear text", []], ["encrypted", keys]] as const

/** Changes content as a failing disk does: the sums stay as they were. */
const damage = ({ file }: World, change: string) =>
  Effect.sync(() => {
    const database = new DatabaseSync(file)
    const { changes } = database.prepare(change).run()
    database.close()
    assert.isAbove(Number(changes), 0)
  })
/** Cuts off the end, so that JSON and authentication tag are incomplete. */
const cut = (where: string) => `UPDATE events SET content = substr(content, 1, length(content) - 9) WHERE ${where}`

const states = Effect.flatMap(Store, ({ forgotten }) => Effect.map(forgotten, (all) => all.map(({ state }) => state)))
const kindsOf = (id: string) =>
  Effect.map(entries, (all) => all.filter((entry) => entry.id === id).map(({ kind, reason }) => [kind, reason]))
const contentIn = ({ file }: World, id: string) => {
  const database = new DatabaseSync(file, { readOnly: true })
  const rows = database.prepare("SELECT content FROM events WHERE id = ? AND content IS NOT NULL").all(id)
  database.close()
  return rows.length
}

for (const [name, keys] of stores) {
  describe(`forgetting a person in a store with ${name}`, () => {
    it.effect("removes the person's own row although it is damaged", () =>
      scenario(function*(world) {
        const process = yield* startProcess
        yield* damage(world, cut("id = 'c-ann'"))
        yield* forgetNow(process, ann)
        assert.deepStrictEqual(yield* states, ["forgotten"])
        assert.strictEqual(contentIn(world, "c-ann"), 0)
        assert.deepStrictEqual(yield* kindsOf("c-ann"), [["deleted", "forgotten"]])
        assert.strictEqual(world.inFiles("ann@people"), 0)
      }).pipe(Effect.provideService(EncryptionKeys, keys)))

    it.effect("removes the other rows although the row of another record of the model is damaged", () =>
      scenario(function*(world) {
        const process = yield* startProcess
        const store = yield* Store
        yield* damage(world, cut("id IN ('a-bob', 'c-bob')"))
        const plan = yield* process.plan(ann)
        yield* process.forget(ann, plan.hash)
        assert.deepStrictEqual(yield* states, ["forgotten"])
        assert.strictEqual(contentIn(world, "c-ann"), 0)
        assert.strictEqual(contentIn(world, "a-bob"), 1)
        const applications = [{ integration, model: "ats.application" } as const]
        const left = yield* store.findRows(applications, `"c-ann"`, ({ content }) => content?.includes("ann@") === true)
        // in clear text, the row of a-bob shows that it does not mention ann
        const unreadable = keys.length === 0 ? [] : ["a-bob"]
        assert.deepStrictEqual([left.map(({ id }) => id), plan.unreadable.map(({ id }) => id)], [
          unreadable,
          unreadable
        ])
        assert.deepStrictEqual(left.map(({ position }) => position), plan.unreadable.map(({ position }) => position))
      }).pipe(Effect.provideService(EncryptionKeys, keys)))

    it.effect("deletes what is left of a damaged pending change and of damaged quarantined rows", () =>
      scenario(function*(world) {
        const process = yield* startProcess
        const store = yield* Store
        const content = JSON.stringify({ id: "a-ann", candidate: { id: "c-ann", first_name: "ann@people" } })
        yield* store.transact(
          process.capture.ownerOf(integration),
          { integration, model: "ats.application" },
          (tx) =>
            Effect.andThen(
              tx.putPending([pendingOf("a-ann", { status: "held", content })]),
              tx.quarantine([{ hash: "q", reason: "no string id", redaction: null, content, at: 1 }])
            )
        )
        for (const table of ["pending", "quarantine"]) {
          yield* damage(world, `UPDATE ${table} SET content = substr(content, 1, length(content) - 3)`)
        }
        yield* forgetNow(process, ann)
        assert.deepStrictEqual(yield* states, ["forgotten"])
        assert.strictEqual(world.inFiles("ann@people"), 0)
        assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
        assert.strictEqual((yield* store.counts).reduce((sum, { quarantined }) => sum + quarantined, 0), 0)
      }).pipe(Effect.provideService(EncryptionKeys, keys)))
  })
}

describe("forgetting a person", () => {
  it.effect("deletes a damaged record that mentions the person, and the next sweep reads it again without the person", () =>
    scenario(function*(world) {
      const process = yield* startProcess
      yield* damage(world, cut("id = 'a-ann'"))
      yield* forgetNow(process, ann)
      assert.deepStrictEqual(yield* states, ["forgotten"])
      assert.strictEqual(world.inFiles("ann@people"), 0)
      assert.deepStrictEqual((yield* kindsOf("a-ann")).at(-1), ["deleted", "forgotten"])
      yield* process.capture.sweep({ integration, model: "ats.application" })
      assert.deepStrictEqual((yield* kindsOf("a-ann")).at(-1), ["created", null])
      assert.deepInclude(yield* contentOf("ats.application", "a-ann"), { candidate: null })
    }))
})

describe("a removal that fails unexpectedly", () => {
  it.effect("is logged with the place of the failure, and stays to be resumed", () =>
    scenario(function*() {
      const failures: Array<string> = []
      const logger = Logger.make<unknown, void>(({ fiber, message }) => {
        failures.push(`${String(message)} ${String(fiber.getRef(References.CurrentLogAnnotations)["why"])}`)
      })
      let isBroken = false
      const processing = (model: Model) => {
        if (isBroken) throw new TypeError("ann@people.example")
        return defaultProcessing(model)
      }
      const models = ["ats.application", "ats.candidate", "ats.offer"] as const
      const process = yield* startReading(models, builtInModels, processing)
      isBroken = true
      yield* forgetNow(process, ann).pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Error")
      )
      assert.deepStrictEqual(yield* states, ["erasing"])
      assert.lengthOf(failures, 1)
      assert.match(failures[0] ?? "", /^record not forgotten.*an unexpected error: TypeError at /)
      assert.notInclude(failures[0], "ann@people")
    }))
})
