import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { seed } from "./Home.ts"
import * as Lives from "./Lives.ts"

const kills = 50

describe(`SIGKILL at ${kills} random moments under load (seed ${seed})`, () => {
  it.live(
    "the fold equals the world, a reader's events never change, and no completeness claim is wrong (X1, X2, X5, X6, P9)",
    () =>
      Effect.gen(function*() {
        const { claims, digests, events, exitCode, findings, follower, history, oracle, pending, world } = yield* Lives
          .run({
            kills,
            integrations: 3,
            lifetime: [50, 750]
          })
        assert.deepStrictEqual(oracle.breaches.slice(0, 5), [])
        const differences = oracle.differences(world, pending)
        assert.deepStrictEqual(differences.slice(0, 5).map(({ key, why }) => [key, why, ...history(key)]), [])

        assert.deepStrictEqual(claims.broken.slice(0, 5), [])
        assert.isAbove(claims.read, 100)
        assert.deepStrictEqual(follower.complaints.slice(0, 5), [])
        const rewritten = [...follower.seen].filter(([position, seen]) => digests.get(position) !== seen)
        assert.deepStrictEqual(rewritten.slice(0, 5), [])
        assert.strictEqual(follower.seen.size, events.length)
        assert.strictEqual(exitCode, 0)

        // without these the other assertions would prove nothing
        const kinds = Map.groupBy(events, ({ data }) => data.kind)
        assert.isAbove(kinds.get("updated")?.length ?? 0, 500)
        assert.isAbove(kinds.get("deleted")?.length ?? 0, 5)
        assert.strictEqual(findings.backfills, 3)
        assert.isAbove(findings.sweeps, 0)
        assert.isBelow(pending.size, world.size / 10)
      })
  )
})
