/** Several processes on one database: each answers for all of them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { FleetView } from "../../../src/http/fleet/FleetApi.ts"
import { version } from "../../../src/http/Version.ts"
import { launch, type Service } from "../../fault/kill/Service.ts"
import { run } from "../cli/Program.ts"
import * as Server from "./Server.ts"

const { missing } = Server
const { database } = Server.ofFile()

/** Without integrations, so that no process writes to what another one owns. */
const settings = Effect.map(database, (url) => ({
  DATABASE_URL: url,
  ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
  ROLLCALL_API_KEY: "key"
}))

const get = (service: Service, path: string) =>
  Effect.flatMap(service.url, (url) =>
    Effect.promise(async () => {
      const response = await fetch(`${url}${path}`)
      return await response.json()
    }))

/** The list that a process returns, once it satisfies the condition. */
const fleetOf = (service: Service, until: (fleet: FleetView) => boolean) =>
  get(service, "/v1/fleet").pipe(
    Effect.map((body): FleetView => body),
    Effect.repeat({ until, schedule: Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 200 })) })
  ) as Effect.Effect<FleetView>

const pids = ({ items }: FleetView) => items.map(({ pid }) => pid)

describe.skipIf(missing !== null)(`a fleet on PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  it.live(
    "lists all of its processes in each of them, until they end",
    () =>
      Effect.gen(function*() {
        const environment = yield* settings
        const one = yield* launch(environment)
        yield* one.url
        const two = yield* launch(environment)
        const complete = ({ items }: FleetView) => items.filter(({ address }) => address !== null).length === 2
        const seen = [yield* fleetOf(one, complete), yield* fleetOf(two, complete)]
        for (const [index, { items, versions }] of seen.entries()) {
          assert.deepStrictEqual(items.map(({ address, pid }) => ({ address, pid })), [
            { address: yield* one.url, pid: one.pid },
            { address: yield* two.url, pid: two.pid }
          ])
          assert.deepStrictEqual(items.map(({ current }) => current), [index === 0, index === 1])
          assert.deepStrictEqual(items.map(({ state }) => state), ["alive", "alive"])
          assert.deepStrictEqual(versions, [version])
          assert.strictEqual(items.reduce((sum, { shards }) => sum + shards, 0), 64)
          assert.strictEqual(items.filter(({ delivers }) => delivers).length, 1)
        }
        const { stdout } = yield* Effect.promise(async () =>
          run(["fleet"], { ...environment, ROLLCALL_HTTP_PORT: new URL(await Effect.runPromise(one.url)).port })
        )
        assert.match(stdout, new RegExp(`alive +${version.replaceAll(".", "\\.")} .*${two.pid}`))

        yield* two.end("SIGTERM")
        assert.deepStrictEqual(pids(yield* fleetOf(one, () => true)), [one.pid])
      }),
    60_000
  )

  it.live(
    "shows a process that was killed as silent, and one that continues after it was frozen as alive again",
    () =>
      Effect.gen(function*() {
        const environment = yield* settings
        const one = yield* launch(environment)
        yield* one.url
        const [killed, frozen] = [yield* launch(environment), yield* launch(environment)]
        yield* fleetOf(one, ({ items }) => items.filter(({ address }) => address !== null).length === 3)
        yield* frozen.signal("SIGSTOP")
        yield* killed.end("SIGKILL")
        // instead of waiting for ten seconds
        yield* Server.say(
          environment.DATABASE_URL,
          `UPDATE rollcall.processes SET seen_at = seen_at - 11000 WHERE pid IN (${killed.pid}, ${frozen.pid})`
        )
        const states = ({ items }: FleetView) => new Map(items.map(({ pid, state }) => [pid, state]))
        const stopped = states(yield* fleetOf(one, () => true))
        assert.deepStrictEqual(
          [one, killed, frozen].map(({ pid }) => stopped.get(pid)),
          ["alive", "silent", "silent"]
        )
        yield* frozen.signal("SIGCONT")
        const continued = states(yield* fleetOf(one, (fleet) => states(fleet).get(frozen.pid) === "alive"))
        assert.deepStrictEqual([continued.get(killed.pid), continued.get(frozen.pid)], ["silent", "alive"])
      }),
    60_000
  )
})
