/** Access of a test file to the services of the run (`SharedServices.ts`). */
import * as Effect from "effect/Effect"
import { once } from "node:events"
import { get } from "node:http"
import { json, text } from "node:stream/consumers"

const url = process.env["TEST_SERVICES"]

/** Starts the service if no test has requested it yet, and returns its addresses; null outside a run of the test runner, as in a benchmark. */
export const sharedService = <A>(name: "cluster" | "kafka" | "postgres"): Effect.Effect<A> | null =>
  url === undefined ? null : Effect.promise(async () => {
    // `fetch` gives up after five minutes, and the first start on a machine downloads the programs
    const [response] = await once(get(`${url}/${name}`), "response")
    if (response.statusCode !== 200) throw new Error(`${name} did not start: ${await text(response)}`)
    return await json(response) as A
  })
