/**
 * Runs two thousand worlds, which must have no violation, and each mutant, which must have one.
 *
 * Gotchas
 * - The worlds run in processes of their own, without the test runner's transformations; `npm run simulate -- --seed <n>`
 *   replays a single one. A world costs about 0.2 s of processor time: two thousand
 *   take about three minutes on two free cores. Most mutants are caught within fifty worlds, two need about two hundred.
 */
import { assert, describe, it } from "@effect/vitest"
import { checkMutants, mutants } from "./mutants/Mutants.ts"
import { planOf } from "./plan/PlanGenerator.ts"
import { Statistics } from "./runner/Statistics.ts"
import { runWorlds } from "./runner/WorkerPool.ts"
import { simulate } from "./Simulation.ts"

const minute = 60_000

describe("Simulation", () => {
  it("the same seed gives the same world", () => {
    const { events, faults, mutations, requests } = simulate(planOf(7))
    const again = simulate(planOf(7))
    assert.deepStrictEqual(again.mutations, mutations)
    assert.deepStrictEqual(again.faults, faults)
    assert.deepStrictEqual([again.requests, again.events], [requests, events])
  })

  it("2,000 worlds with at least 30 mutations and 3 kinds of fault each have no violation", async () => {
    const statistics = new Statistics()
    await runWorlds({ from: 1, worlds: 2_000, onVerdict: (verdict) => statistics.add(verdict) })
    const { perWorld, seeds } = statistics.summary()
    assert.deepStrictEqual(seeds, [], "replay with: npm run simulate -- --seed <seed>")
    assert.isAtLeast(perWorld["mutations"]!.least, 30)
    assert.isAtLeast(perWorld["kinds of fault"]!.least, 3)
    assert.isAtMost(perWorld["requests"]!.median, 150)
  }, 20 * minute)

  it("a store restored from a copy publishes nothing that contradicts the sink (X14)", () => {
    const plans = Array.from({ length: 40 }, (_, seed) => planOf(seed + 1)).filter(({ setting }) => !setting.plugins)
    for (const plan of plans.slice(0, 3)) {
      const restore = { at: plan.setting.duration * 0.8, trouble: "storeRestored", count: 0, value: 0.5 } as const
      const { faults, violations } = simulate({ ...plan, steps: [...plan.steps, restore] })
      assert.deepStrictEqual([faults["storeRestored"], violations], [1, []])
    }
  })

  it("a new store publishes nothing on the lost store's topics, and everything after an adoption (X14)", () => {
    const plans = Array.from({ length: 40 }, (_, seed) => planOf(seed + 1)).filter(({ setting }) => !setting.plugins)
    for (const plan of plans.slice(0, 3)) {
      const lost = { at: plan.setting.duration * 0.6, trouble: "storeLost", count: 0, value: 0.5 } as const
      const adopt = { ...lost, at: plan.setting.duration * 0.8, trouble: "adopt" } as const
      for (const more of [[lost], [lost, adopt]]) {
        const { faults, violations } = simulate({ ...plan, steps: [...plan.steps, ...more] })
        assert.deepStrictEqual([(faults["storeLost"] ?? 0) > 0, violations], [true, []])
      }
    }
  })

  it("every patch of every mutant applies exactly once", () => checkMutants())

  for (const { name, without } of mutants) {
    it(`the mutant ${name} is caught; removed defense: ${without}`, async () => {
      let caught = 0
      await runWorlds({
        from: 1,
        worlds: 500,
        mutant: name,
        enough: () => caught > 0,
        onVerdict: ({ violations }) => {
          if (violations.length > 0) caught++
        }
      })
      assert.isAbove(caught, 0)
    }, 10 * minute)
  }
})
