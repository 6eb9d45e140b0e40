/** Tests that the audit log of every store must pass: the reads of records. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Struct from "effect/Struct"
import type { AuditedRead } from "../../src/store/Operators.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { begin } from "./StoreSamples.ts"

const hour = 3_600_000

const first: AuditedRead = {
  period: hour,
  route: "/v1/events",
  target: "greenhouse:acme/ats.tag",
  actor: "read token",
  address: "192.0.2.1",
  firstAt: hour + 1
}

export const auditSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the reads in the audit log of a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    const listed = (limit: number, before?: number) =>
      Effect.gen(function*() {
        const { auditedReads } = yield* Store
        return (yield* auditedReads(limit, before)).map((read) => Struct.omit(read, ["id"]))
      })

    test(
      "are recorded once per hour, route, target, actor and address",
      Effect.gen(function*() {
        const { store } = yield* begin
        const others: ReadonlyArray<AuditedRead> = [
          { ...first, period: 2 * hour },
          { ...first, route: "/v1/records" },
          { ...first, target: "*" },
          { ...first, actor: "session" },
          { ...first, address: "192.0.2.2" }
        ]
        yield* Effect.forEach([first, ...others, { ...first, firstAt: hour + 7 }], store.recordRead)
        const [oldest, ...newer] = (yield* listed(10)).toReversed()
        assert.deepStrictEqual(oldest, first)
        assert.sameDeepMembers(newer, [...others])
      })
    )

    test(
      "are listed with the newest first, in pages",
      Effect.gen(function*() {
        const { store } = yield* begin
        const reads = Array.from({ length: 6 }, (_, index) => ({ ...first, target: `a:${index}/*` }))
        yield* Effect.forEach(reads, store.recordRead)
        const all = yield* store.auditedReads(1000)
        assert.sameMembers(all.map(({ target }) => target), reads.map(({ target }) => target))
        assert.deepStrictEqual(all.map(({ id }) => id), all.map(({ id }) => id).toSorted((one, other) => other - one))
        assert.deepStrictEqual(yield* store.auditedReads(2, all[2]?.id), all.slice(3, 5))
      })
    )

    test(
      "are deleted by their hour",
      Effect.gen(function*() {
        const { store } = yield* begin
        yield* Effect.forEach([first, { ...first, period: 2 * hour }], store.recordRead)
        yield* store.pruneReads(2 * hour)
        assert.deepStrictEqual(yield* listed(10), [{ ...first, period: 2 * hour }])
      })
    )
  })
