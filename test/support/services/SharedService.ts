/** Access of a test file to the services of the run (`SharedServices.ts`). */
import * as Effect from "effect/Effect"

const url = process.env["TEST_SERVICES"]

/** Starts the service if no test has requested it yet, and returns its addresses; null outside a run of the test runner, as in a benchmark. */
export const sharedService = <A>(name: "cluster" | "kafka" | "postgres"): Effect.Effect<A> | null =>
  url === undefined ? null : Effect.promise(async () => {
    const response = await fetch(`${url}/${name}`)
    if (!response.ok) throw new Error(`${name} did not start: ${await response.text()}`)
    return await response.json() as A
  })
