/** Several processes on one database: each answers for all of them. */
import { assert, it } from "@effect/vitest"
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { hostname } from "node:os"
import { isDeepStrictEqual } from "node:util"
import type { CheckResult } from "../../../src/cli/doctor/CheckResult.ts"
import { captureScopeOf, captureScopes } from "../../../src/domain/Shard.ts"
import type { FleetView } from "../../../src/http/contract/FleetApi.ts"
import type { ReadinessCheck } from "../../../src/http/contract/Problem.ts"
import { version } from "../../../src/http/contract/Version.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { Processes } from "../../../src/store/Processes.ts"
import { Store } from "../../../src/store/Store.ts"
import { until } from "../../fault/kill/Patience.ts"
import { launch, type Service } from "../../fault/kill/Service.ts"
import { runCommand } from "../cli/Program.ts"
import * as Running from "../http/Running.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

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
const fleetOf = (service: Service, holds: (fleet: FleetView) => boolean) =>
  until("the list of processes", Effect.map(get(service, "/v1/fleet"), (body): FleetView => body), holds)

interface Ready {
  readonly status: string | number
  readonly checks: ReadonlyArray<typeof ReadinessCheck.Type>
}

const pids = ({ items }: FleetView) => items.map(({ pid }) => pid)

onServer("a fleet on PostgreSQL", () => {
  it.live("lists all of its processes in each of them, until they end", () =>
    Effect.gen(function*() {
      const environment = yield* settings
      const one = yield* launch(environment)
      yield* one.url
      const two = yield* launch(environment)
      const complete = ({ items }: FleetView) =>
        items.filter(({ address }) => address !== null).length === 2 &&
        items.reduce((sum, { shards }) => sum + shards, 0) === 64 && items.some(({ dispatches }) => dispatches)
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
        assert.strictEqual(items.filter(({ dispatches }) => dispatches).length, 1)
      }
      const { stdout } = yield* Effect.promise(async () =>
        runCommand(["fleet"], { ...environment, ROLLCALL_HTTP_PORT: new URL(await Effect.runPromise(one.url)).port })
      )
      assert.match(stdout, new RegExp(`alive +${version.replaceAll(".", "\\.")} .*${two.pid}`))

      const doctor = yield* Effect.promise(() => runCommand(["doctor", "--json"], environment))
      const { checks }: { checks: ReadonlyArray<CheckResult> } = JSON.parse(doctor.stdout)
      const shown = checks.map(({ check, message, status }) => `${status} ${check}: ${message}`)
      for (
        const line of [
          `ok fleet: 2 processes are running, of version ${version}`,
          "ok clock of this machine: agrees with the database's",
          `ok clock of process ${seen[0]!.items[1]!.id.slice(0, 8)} on ${hostname()}: agrees with the database's`
        ]
      ) assert.include(shown, line)
      assert.match(
        shown.join("\n"),
        /ok connections: the database allows \d+; 2 processes are running and may need 26/
      )

      yield* two.end("SIGTERM")
      assert.deepStrictEqual(pids(yield* fleetOf(one, () => true)), [one.pid])
    }))

  it.live("shows a process that was killed as silent, and one that continues after it was frozen as alive again", () =>
    Effect.gen(function*() {
      const environment = yield* settings
      const one = yield* launch(environment)
      yield* one.url
      const killed = yield* launch(environment)
      yield* killed.url
      const frozen = yield* launch(environment)
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
    }))

  it.live("shows in every process why one of them is not ready", () =>
    Effect.gen(function*() {
      const environment = { ...yield* settings, KAFKA_BROKERS: "127.0.0.1:9" }
      const processes = [yield* launch(environment), yield* launch(environment)]
      for (const process of processes) yield* process.url
      const look = Effect.gen(function*() {
        const { items }: FleetView = yield* get(processes[0]!, "/v1/fleet")
        const seen = yield* Effect.forEach(processes, ({ pid }, index) =>
          Effect.map(get(processes[index]!, "/health/ready"), ({ checks, status }: Ready) => ({
            status,
            listed: items.find((item) =>
              item.pid === pid
            )?.problems,
            own: checks.flatMap(({ name, ok, reason }) => ok ? [] : [{ name, reason }])
          })))
        return seen.sort((one, other) => other.own.length - one.own.length)
      })
      // The relay is placed in one of them. It may still move to the other, which the next reports show.
      const [cutOff, healthy] = yield* until(
        "the list to show the problem of one process",
        look,
        (seen) =>
          seen.every(({ listed, own }) => isDeepStrictEqual(listed, own)) &&
          seen.flatMap(({ own }) => own.map(({ name }) => name)).join() === "kafka"
      )
      assert.match(cutOff?.own[0]?.reason ?? "", /ECONNREFUSED.*Check KAFKA_BROKERS/)
      assert.strictEqual(healthy?.status, "ready")
    }))

  it.live("exports the gauges of each stream and of the fleet in one process, and those of a dead process in another", () =>
    Effect.gen(function*() {
      const url = yield* database
      const place = Postgres.layer({ url: Redacted.make(url), name: "database" })
      const start = (host: string) =>
        Effect.gen(function*() {
          const context = yield* Layer.build(
            Layer.fresh(Layer.provideMerge(Running.server({ publishes: true }), place))
          )
          const { report, self } = Context.get(context, Processes)
          // counts as alive for ten seconds
          const beat = report({ version, host, pid: 1, address: `http://${host}`, clockOffset: null, problems: [] })
          yield* beat
          return {
            self,
            beat,
            context,
            store: Context.get(context, Store),
            /** The values of some gauges. */
            metrics: Effect.map(Effect.provideContext(Running.ask("/metrics"), context), ({ text }) =>
              [...text.matchAll(
                /^(rollcall_(?:integrations|relay_position|relay_lag_events|fleet_processes|shards_owned|shards_unowned|build_info)(?:\{\S*)?) (\d+)$/gm
              )]
                .map(([, series = "", value]) => [series, Number(value)] as const))
          }
        })
      // a process at its start retires the streams that its configuration does not have
      const [one, two] = [yield* start("one"), yield* start("two")]
      const ids = Array.from({ length: 12 }, (_, index) => `greenhouse:${index}`)
      for (const integration of ids) {
        yield* Effect.provideContext(Running.stream({}, { integration, model: "ats.tag" }), one.context)
      }
      const [half, rest] = [captureScopes.slice(0, 32), captureScopes.slice(32)] as const
      yield* one.store.takeOwnerships(Arr.make(half[0]!, ...half.slice(1)))
      yield* two.store.takeOwnerships(Arr.make("delivery", ...rest))
      yield* Effect.provideContext(Running.stream(), one.context)
      for (const id of ["a", "b", "c"]) yield* Effect.provideContext(Running.write(id, "{}"), one.context)
      const relay = yield* one.store.takeOwnership("relay")
      yield* one.store.saveReaderPosition(relay, "relay", 2)
      const owned = (scopes: ReadonlyArray<string>) =>
        [...ids, Running.key.integration].filter((id) => scopes.includes(captureScopeOf(id))).length
      assert.isAbove(owned(half), 0)
      assert.isAbove(owned(rest), 0)
      const build = (self: string) => `rollcall_build_info{version="${version}",process="${self}"}`
      const sorted = (gauges: ReadonlyArray<readonly [string, number]>) => gauges.map(String).sort().join("\n")
      /** A response that cannot wait for the database has older values. */
      const exports = (
        { metrics }: typeof one,
        alive: ReadonlyArray<typeof one>,
        gauges: ReadonlyArray<readonly [string, number]>
      ) => {
        const look = Effect.andThen(Effect.forEach(alive, ({ beat }) => beat), metrics)
        return until("the gauges", Effect.map(look, sorted), (found) => found === sorted(gauges))
      }
      yield* exports(one, [one, two], [
        [build(one.self), 1],
        ["rollcall_integrations", owned(half)],
        ["rollcall_relay_position", 2],
        ["rollcall_relay_lag_events", 1],
        ["rollcall_fleet_processes", 2],
        ["rollcall_shards_owned", 32],
        ["rollcall_shards_unowned", 0]
      ])
      yield* exports(two, [one, two], [
        [build(two.self), 1],
        ["rollcall_integrations", owned(rest)],
        ["rollcall_shards_owned", 32]
      ])

      yield* Server.say(url, `UPDATE rollcall.processes SET seen_at = seen_at - 11000 WHERE id = '${one.self}'`)
      yield* exports(two, [two], [
        [build(two.self), 1],
        ["rollcall_integrations", ids.length + 1],
        ["rollcall_relay_position", 2],
        ["rollcall_relay_lag_events", 1],
        ["rollcall_fleet_processes", 1],
        ["rollcall_shards_owned", 32],
        ["rollcall_shards_unowned", 32]
      ])
    }))

  it.live("keeps a user signed in who reaches another process, and ends the session in all of them (I11)", () =>
    Effect.gen(function*() {
      const url = yield* database
      const place = Postgres.layer({ url: Redacted.make(url), name: "database" })
      const server = Running.server({ token: "an-operate-token-of-32-characters" })
      const start = Effect.map(Layer.build(Layer.fresh(Layer.provideMerge(server, place))), (context) => ({
        send: (...args: Parameters<typeof Running.send>) => Effect.provideContext(Running.send(...args), context)
      }))
      const [one, two] = [yield* start, yield* start]
      const localhost = { host: "localhost:8477" }
      const form = {
        ...localhost,
        origin: "http://localhost:8477",
        "content-type": "application/x-www-form-urlencoded"
      }
      const { headers } = yield* one.send("POST", "/login", form, "token=an-operate-token-of-32-characters")
      const [cookie = ""] = headers["set-cookie"]?.[0]?.split(";", 1) ?? []
      const statusOf = ({ send }: typeof one) =>
        Effect.map(send("GET", "/v1/fleet", { ...localhost, cookie }), ({ status }) => status)
      assert.deepStrictEqual([yield* statusOf(one), yield* statusOf(two)], [200, 200])
      const { rows } = yield* Server.say(url, "SELECT row_to_json(s)::text AS row FROM rollcall.sessions s")
      assert.lengthOf(rows, 1)
      for (const part of cookie.slice(cookie.indexOf("=") + 1).split(".")) {
        assert.notInclude(JSON.stringify(rows), part)
      }
      const { status } = yield* two.send("POST", "/logout", { ...form, cookie })
      assert.strictEqual(status, 303)
      assert.strictEqual(yield* statusOf(two), 401)
      yield* until("the session to end", statusOf(one), (status) => status === 401)
      // a process that starts later knows the sessions too, but not this one
      assert.strictEqual(yield* statusOf(yield* start), 401)
    }))
})
