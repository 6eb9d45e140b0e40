/**
 * What operators' requests cost a service with many streams: processor time of one request, its size, and the longest time that
 * another request waits meanwhile.
 *
 * `node bench/Status.ts [integrations] [requests]`, default 300 and 20: eleven streams for each integration, on SQLite.
 */
import * as Effect from "effect/Effect"
import { make } from "./ManyStreams.ts"
import { median } from "./Table.ts"

const integrations = Number(process.argv[2] ?? 300)
const requests = Number(process.argv[3] ?? 20)
const records = 5
const paths = ["/v1/streams", "/v1/streams?limit=1000", "/metrics", "/health/ready"]

/** The longest time that the process took to answer a trivial request while `running` ran, in ms. */
const longestWait = async (url: string, running: Promise<unknown>): Promise<number> => {
  let longest = 0
  let ended = false
  void running.finally(() => (ended = true))
  while (!ended) {
    const startedAt = performance.now()
    await (await fetch(`${url}/health/live`)).text()
    longest = Math.max(longest, performance.now() - startedAt)
  }
  return longest
}

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  // no poll is due while the requests are measured
  const { polled, start, streams } = yield* make("sqlite", integrations, records, { ROLLCALL_INTERVAL: "1 hour" })
  const { process: service } = start()
  const { url } = JSON.parse((yield* Effect.promise(() => service.line(`"started"`))).text)
  while ((yield* Effect.promise(() => polled(false))).lists < streams) yield* Effect.sleep(500)
  yield* Effect.sleep(10_000)
  console.log(`${streams} streams`)
  for (const path of paths) {
    const get = async () => (await (await fetch(url + path)).arrayBuffer()).byteLength
    const bytes = yield* Effect.promise(get)
    const before = service.cpuSeconds
    for (let count = 0; count < requests; count++) yield* Effect.promise(get)
    const millis = (1000 * (service.cpuSeconds - before)) / requests
    const waits: Array<number> = []
    for (let count = 0; count < 5; count++) waits.push(yield* Effect.promise(() => longestWait(url, get())))
    console.log(
      `${path}: ${millis.toFixed(1)} ms of processor time, ${(bytes / 1000).toFixed(0)} KB, ` +
        `another request waits ${median(waits).toFixed(0)} ms at most (median of 5)`
    )
  }
})))
