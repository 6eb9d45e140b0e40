/** Changes of the processing rules: they alone publish nothing, and other changes at the same time are published. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { headsOf } from "../../../test/conformance/StoreSamples.ts"
import { rigWith, scenario } from "../../../test/support/capture/Rig.ts"
import type { PathChange } from "../../domain/Diff.ts"
import * as Processing from "../../domain/Processing.ts"
import { Store } from "../../store/Store.ts"

describe("Processing", () => {
  it.effect("heads with hashes of an older normalizer are hashed again: only a real change is published (S3, V1, V2)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b"].map((id) => ({ id, title: "x" })))
      const store = yield* Store
      yield* store.transact(
        rig.stream.owner,
        rig.stream.key,
        (tx) =>
          Effect.flatMap(headsOf(tx, ["a", "b"]), (heads) =>
            tx.write([...heads.values()].map((head) => ({
              head: { ...head, fingerprint: "older", textHash: "other", canonicalHash: "other" },
              events: []
            }))))
      )
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "b", title: "y" })
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1", "updated 2"])
      const change = (yield* rig.events).at(-1)!
      assert.deepStrictEqual(JSON.parse(change.changes), [{ path: "/title", before: "x", after: "y" }])
    }))

  it.effect("redaction that is switched on publishes nothing and hides the value from then on, and deletes are still found (V1)", () =>
    scenario(function*(rig) {
      const redacted = Processing.make("ats.application", {
        remoteData: "drop",
        redact: { "/title": "hash", "/source": "drop", "/remote_deleted_at": "drop" },
        key: "k"
      })
      yield* rig.fill(...["a", "b"].map((id) => ({ id, title: "secret", source: "s" })))
      const later = rigWith(rig, redacted)
      yield* rig.wait("1 minute")
      yield* later.sweep
      assert.strictEqual((yield* rig.events).length, 2)
      yield* rig.put({ id: "a", title: "other", source: "s" })
      yield* rig.flag("b")
      yield* later.poll
      const [updated, deleted] = (yield* rig.events).slice(2)
      assert.deepStrictEqual([updated!.kind, deleted!.kind], ["updated", "deleted"])
      assert.notInclude(updated!.after, "other")
      assert.match(JSON.parse(updated!.changes)[0].after, /^redacted:/)
    }))

  const byRules = (rules: Partial<Processing.ProcessingOptions>) =>
    Processing.make("ats.application", { remoteData: "drop", redact: {}, key: "k", ...rules })
  const row = { title: "secret", source: "s", remote_data: { raw: 1 }, outcome: "PENDING" }
  const changed = { ...row, outcome: "HIRED" }

  const switchedOff: ReadonlyArray<readonly [string, Partial<Processing.ProcessingOptions>, string, object]> = [
    ["a hash", { redact: { "/title": "hash" } }, "/title", { title: "secret" }],
    ["a drop", { redact: { "/title": "drop" } }, "/title", { title: "secret" }],
    ["raw data dropped", { remoteData: "drop" }, "/remote_data", { remote_data: { raw: 1 } }]
  ]
  for (const [rule, rules, path, shown] of switchedOff) {
    const processing = byRules(rules)
    it.effect(`switching off ${rule} publishes and holds nothing, and the next change contains the value (V1)`, () =>
      scenario(function*(rig) {
        const ids = Array.from({ length: 12 }, (_, index) => `r${index}`)
        yield* rig.fill(...ids.map((id) => ({ id, ...row })))
        const later = rigWith(rig, byRules({ remoteData: "track" }))
        yield* rig.wait("1 minute")
        yield* later.poll
        yield* later.sweep
        yield* later.sweep
        assert.strictEqual((yield* rig.events).length, ids.length)
        assert.deepStrictEqual(yield* rig.pending, {})
        assert.deepStrictEqual(yield* rig.holds, [])
        assert.strictEqual((yield* rig.state).lastSweep!.rowCounts.unchanged, ids.length, "hashed again, once")

        yield* rig.wait("10 minutes")
        yield* rig.put({ id: "r1", ...changed })
        yield* later.poll
        const [created, updated, ...more] = (yield* rig.events).filter(({ id }) => id === "r1")
        assert.deepStrictEqual([created!.kind, updated!.kind, more.length], ["created", "updated", 0])
        assert.strictEqual(updated!.before, created!.after)
        assert.notInclude(updated!.before, JSON.stringify(Object.values(shown)[0]))
        assert.deepInclude(JSON.parse(updated!.after!), { ...shown, outcome: "HIRED" })
        const changes: ReadonlyArray<PathChange> = JSON.parse(updated!.changes)
        assert.deepInclude(changes, { path: "/outcome", before: "PENDING", after: "HIRED" })
        assert.include(changes.map((change) => change.path), path)
      }, { processing }))
  }

  it.effect("rules that change twice publish nothing for a record that was not read in between (V1)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b"].map((id) => ({ id, ...row })))
      yield* rig.wait("20 minutes")
      yield* rig.put({ id: "b", ...changed })
      yield* rigWith(rig, byRules({ redact: { "/title": "drop", "/source": "drop" } })).poll
      const last = rigWith(rig, byRules({ redact: { "/source": "hash" } }))
      yield* last.sweep
      yield* last.sweep
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1", "updated 2"])
      assert.deepStrictEqual(yield* rig.pending, {})
    }, { processing: byRules({ redact: { "/title": "hash" } }) }))

  it.effect("each of a few alternating rules is stored once, without the key (V1)", () =>
    scenario(function*(rig) {
      yield* rig.put({ id: "a", ...row })
      const names = Array.from({ length: 10 }, (_, index) => `/n${index}`)
      for (const path of [...names, "/n8", "/n9", "/n8"]) {
        yield* rigWith(rig, byRules({ redact: { [path]: "hash" }, key: "the key" })).sweep
      }
      const { processings = [] } = yield* rig.state
      const paths = processings.flatMap(({ redact }) => Object.keys(redact))
      assert.deepStrictEqual(paths, [...names.slice(2, 8), "/n9", "/n8"])
      assert.notInclude(JSON.stringify(yield* rig.state), "the key")
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
    }))

  it.effect("hashes of another key cannot be compared, so switching redaction off is a change (V1)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", ...row })
      yield* rigWith(rig, byRules({ key: "another" })).sweep
      const [created, updated] = yield* rig.events
      assert.deepStrictEqual(JSON.parse(updated!.changes), [
        { path: "/title", before: JSON.parse(created!.after!).title, after: "secret" }
      ])
    }, { processing: byRules({ redact: { "/title": "hash" } }) }))

  it.effect("a change and a redaction that is switched off between two polls give one update with the change (V2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(...["a", "b"].map((id) => ({ id, ...row })))
      yield* rig.put({ id: "a", ...changed })
      yield* rigWith(rig, byRules({})).poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1"])
      const changes = JSON.parse((yield* rig.events).at(-1)!.changes)
      assert.deepInclude(changes, { path: "/outcome", before: "PENDING", after: "HIRED" })
    }, { processing: byRules({ redact: { "/title": "hash" } }) }))

  it.effect("a change that was held before redaction was switched on is released redacted, and the rules are stored (V1)", () =>
    scenario(function*(rig) {
      const ids = Array.from({ length: 12 }, (_, index) => `r${index}`)
      yield* rig.backfill(...ids.map((id) => ({ id, ...row })))
      yield* rig.change(...ids.map((id) => ({ id, ...row, outcome: null })))
      const [hold] = yield* rig.holds
      const redacting = rigWith(rig, byRules({ redact: { "/title": "hash" } }))
      yield* redacting.approve(hold!.id)
      const released = (yield* rig.events).slice(ids.length)
      assert.strictEqual(released.length, ids.length)
      for (const { after } of released) assert.notInclude(after, "secret")
      // no page was read with these rules, but later rules must know them
      yield* rigWith(rig, byRules({ remoteData: "carry" })).sweep
      assert.strictEqual((yield* rig.state).lastSweep!.rowCounts.equivalent, ids.length)
      assert.strictEqual((yield* rig.events).length, 2 * ids.length)
    }))
})
