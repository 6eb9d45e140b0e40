/** Real processes that share the request budget of one account: some of them are killed and frozen. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import type { RequestListener } from "node:http"
import { fileURLToPath } from "node:url"
import * as Patience from "../../fault/kill/Patience.ts"
import { json, Loopback } from "../source/Loopback.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

const concurrency = 6
/** A lease of a client lasts its timeout of a second and 15 seconds more. */
const leaseMillis = 16_000
const retryAfter = 6
/** A pause reaches the other processes within a second. On a busy machine, they need time to act on it. */
const pauseMillis = 3_000
const page = JSON.stringify({ status: "success", data: { next: null, results: [] } })
const refusal = JSON.stringify({
  status: "error",
  error: { code: "PLATFORM.RATE_LIMIT_EXCEEDED", title: null, message: "no", log_url: null }
})

interface Seen {
  readonly at: number
  readonly by: string
  /** Requests in flight from then on. */
  readonly inFlight: number
}

/** Counts the requests in flight. It responds to every request, even if the process that sent it has died. */
const counting = () => {
  const seen: Array<Seen> = []
  let inFlight = 0
  let refuses = false
  const listener: RequestListener = (request, response) => {
    const at = performance.now()
    const by = String(request.headers["x-integration-id"]).split(":")[0] ?? ""
    seen.push({ at, by, inFlight: ++inFlight })
    const refused = refuses
    refuses = false
    setTimeout(() => {
      inFlight--
      if (refused) response.setHeader("retry-after", String(retryAfter))
      json(response, refused ? refusal : page, refused ? 429 : 200)
    }, refused ? 0 : 20 + (seen.length * 37) % 160)
  }
  return {
    listener,
    since: (from: number) => seen.filter(({ at }) => at >= from),
    most: (from = 0) => Math.max(0, ...seen.flatMap((one) => one.at >= from ? [one.inFlight] : [])),
    refuse: () => void (refuses = true)
  }
}

const client = fileURLToPath(new URL("./BudgetClient.ts", import.meta.url))
const start = (name: string, database: string, url: string) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [client, name, database, url, String(concurrency)], {
        stdio: ["ignore", "ignore", "inherit"]
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

onServer("the request budget of a fleet", () => {
  it.live("is not exceeded while processes are killed and frozen; their slots are used again, and all respect a pause (R1, X9)", () =>
    Effect.gen(function*() {
      const api = counting()
      const { url } = yield* Loopback.serving(api.listener)
      const place = yield* database
      const names = ["killed", "frozen", "survivor"]
      const [killed, frozen] = yield* Effect.forEach(names, (name) => start(name, place, url))
      const until = (what: string, condition: () => boolean) => Patience.until(what, Effect.sync(condition), (is) => is)
      const sentBy = (name: string, from = 0) => api.since(from).some(({ by }) => by === name)
      yield* until("all processes to send", () => names.every((name) => sentBy(name)))
      yield* until("the slots to be used", () => api.most() >= concurrency - 1)

      const refusedAt = performance.now()
      api.refuse()
      yield* until(
        "all to send after the pause",
        () => names.every((name) => sentBy(name, refusedAt + 1_000 * retryAfter))
      )
      const pausedFrom = api.since(refusedAt)[0]?.at ?? refusedAt
      const during = api.since(pausedFrom + pauseMillis).filter(({ at }) => at < pausedFrom + 1_000 * retryAfter)
      assert.deepStrictEqual(during, [])

      const lostAt = performance.now()
      killed?.kill("SIGKILL")
      frozen?.kill("SIGSTOP")
      yield* Effect.sleep("2 seconds")
      assert.isBelow(api.most(lostAt + 1_000), concurrency - 1)
      yield* until("the survivor to send", () => sentBy("survivor", lostAt + 1_000))
      yield* Effect.sleep(leaseMillis)
      yield* until("all slots to be used again", () => api.most(lostAt + leaseMillis) === concurrency - 1)
      const resumedAt = performance.now()
      frozen?.kill("SIGCONT")
      yield* until("the frozen one to send", () => sentBy("frozen", resumedAt + 500))
      yield* Effect.sleep("2 seconds")
      assert.isAtMost(api.most(), concurrency)
    }))
})
