/** A worker process that runs the requested worlds one after another, and sends each verdict. */
import { planOf } from "../plan/PlanGenerator.ts"
import { simulate } from "../Simulation.ts"

process.on("message", (seed: number) => {
  try {
    process.send!(simulate(planOf(seed)))
  } catch (error) {
    const violation = { invariant: "crash", at: 0, stream: "", what: String(error) }
    process.send!({ seed, violations: [violation], mutations: {}, faults: {}, requests: 0, events: 0 })
  }
})
