/** Runs the comparison with other ways of polling, and checks that its judge reports nothing where nothing is wrong. */
import { assert, describe, it } from "@effect/vitest"
import { type Contender, ideal, polling, rollcall, runWorld } from "../../bench/fidelity/Contenders.ts"
import { emptyScore, judge, type Score } from "../../bench/fidelity/Judge.ts"
import { pollers } from "../../bench/fidelity/Pollers.ts"
import { planOf } from "./plan/PlanGenerator.ts"

const scoreOf = (contender: Contender): Score => {
  const score = emptyScore()
  for (let seed = 1; seed <= 8; seed++) judge(score, runWorld(planOf(seed), contender))
  return score
}

describe("Fidelity", () => {
  it("an ideal reader loses nothing, invents nothing and is never later than an interval", () => {
    const { delays, ghostCounts: _, lossCounts: __, requests: ___, states, ...faults } = scoreOf(ideal)
    assert.deepStrictEqual([...new Set(Object.values(faults))], [0])
    assert.isAbove(states, 50)
    // A state that passed unseen and came back counts from its first time; no other delay exceeds the limit.
    assert.isAtMost(delays.filter((delay) => delay > 10 * 60_000).length, delays.length / 100)
  })

  it("the service deletes no live record, every loss has an explanation, and every other poller has an error", () => {
    const { falseDeletes, ghostCounts, lossCounts, recreated } = scoreOf(rollcall)
    assert.deepStrictEqual([falseDeletes, recreated, ghostCounts.unexplained, lossCounts.unexplained], [0, 0, 0, 0])
    for (const poller of pollers) {
      const { falseDeletes, wrong } = scoreOf(polling(poller))
      assert.isAbove(wrong + falseDeletes, 0, poller.name)
    }
  })
})
