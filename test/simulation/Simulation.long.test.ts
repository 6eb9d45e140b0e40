/**
 * Runs two thousand worlds, which must have no violation, and each mutant, which must have one.
 *
 * Gotchas
 * - The worlds run in processes of their own, without the test runner's transformations; `npm run simulate -- --seed <n>`
 *   replays a single one. A world costs about 0.4 s of processor time. Most mutants are caught within fifty worlds, a few need some hundred.
 */
import { assert, describe, it } from "@effect/vitest"
import { mutants } from "./mutants/Mutants.ts"
import { runWorlds } from "./runner/WorkerPool.ts"

const minute = 60_000

describe("Simulation, at length", () => {
  it("2,000 worlds have no violation", async () => {
    const violating: Array<number> = []
    await runWorlds({
      from: 1,
      worlds: 2_000,
      onVerdict: ({ seed, violations }) => {
        if (violations.length > 0) violating.push(seed)
      }
    })
    assert.deepStrictEqual(violating, [], "replay with: npm run simulate -- --seed <seed>")
  }, 20 * minute)
})

describe.concurrent("Mutants", () => {
  it.each(mutants)("the mutant $name is caught; removed defense: $without", async ({ firstWorld, name }) => {
    let caught = 0
    await runWorlds({
      from: firstWorld,
      worlds: 1_000,
      mutant: name,
      processes: 1,
      enough: () => caught > 0,
      onVerdict: ({ violations }) => {
        if (violations.length > 0) caught++
      }
    })
    assert.isAbove(caught, 0)
  }, 15 * minute)
})
