/** Tests that the list of processes of every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import * as Struct from "effect/Struct"
import { Processes } from "../../src/store/Processes.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { testsIn } from "./StoreSamples.ts"

/** A database: each build of the layer acts as one more process that opens it. */
type Place = Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>

const report = { version: "1.2.3", host: "one", pid: 7, address: null, clockOffset: null, problems: [] }

export const processSuite = (name: string, place: Place) =>
  describe(`the processes of a store (${name})`, () => {
    const open = Effect.fnUntraced(function*(client: Layer.Layer<SqlClient | Health, StoreError>) {
      const context = yield* Layer.build(Layer.fresh(Layer.provideMerge(Ports.layer, client)))
      const sql = Context.get(context, SqlClient)
      return {
        store: Context.get(context, Store),
        processes: Context.get(context, Processes),
        isFleet: sql.onDialectOrElse({ pg: () => true, orElse: () => false }),
        forward: (millis: number) =>
          sql`UPDATE processes SET started_at = started_at - ${millis}, seen_at = seen_at - ${millis}`
      }
    })

    /** Two processes that have the store open. */
    const both = Effect.flatMap(place, (client) => Effect.all([open(client), open(client)]))
    const test = testsIn(Layer.empty, both, it.live)

    test("are listed in the order of their starts, with what they report", function*([one, other]) {
      assert.notStrictEqual(one.processes.self, other.processes.self)
      assert.isEmpty(yield* one.processes.list)
      yield* one.processes.report(report)
      yield* one.forward(1000)
      const before = Date.now()
      const at = yield* other.processes.report({ ...report, host: "two", pid: 8 })
      assert.isTrue(before - 5000 < at && at < Date.now() + 5000)
      const problems = [{ name: "kafka", reason: "no 'broker' answers" }]
      yield* one.processes.report({ ...report, address: "http://one:8477", clockOffset: -12, problems })
      const list = yield* other.processes.list
      assert.deepStrictEqual(
        list.map((process) => Struct.omit(process, ["startedAt", "seenAt", "silence"])),
        [
          { ...report, id: one.processes.self, address: "http://one:8477", clockOffset: -12, problems },
          { ...report, id: other.processes.self, host: "two", pid: 8 }
        ].map((process) => ({ ...process, state: "alive" as const, scopes: [] }))
      )
      const [first, second] = list
      assert.isAbove(first?.seenAt ?? 0, first?.startedAt ?? 0)
      assert.deepStrictEqual([second?.startedAt, second?.seenAt], [at, at])
    })

    test("own the scopes that they took over last", function*([one, other]) {
      yield* one.processes.report(report)
      yield* one.forward(1000)
      yield* other.processes.report(report)
      yield* one.store.takeOwnerships(["capture/1", "capture/2", "relay"])
      yield* other.store.takeOwnership("capture/2")
      const scopes = Effect.map(one.processes.list, (list) => list.map(({ scopes }) => scopes))
      assert.deepStrictEqual(yield* scopes, [["capture/1", "relay"], ["capture/2"]])
      yield* other.processes.leave
      assert.deepStrictEqual(yield* scopes, [["capture/1", "relay"]])
      yield* one.store.takeOwnership("capture/2")
      assert.deepStrictEqual(yield* scopes, [["capture/1", "capture/2", "relay"]])
    })

    test(
      "are silent without heartbeats, and then have no problems, because what they reported may be over",
      function*([one, other]) {
        yield* one.processes.report({ ...report, problems: [{ name: "kafka", reason: "no broker answers" }] })
        yield* one.forward(10 * 60_000)
        yield* other.processes.report(report)
        const states = (processes: Processes["Service"]) =>
          Effect.map(processes.list, (list) => list.map(({ state }) => state))
        assert.deepStrictEqual(yield* states(other.processes), ["silent", "alive"])
        assert.isEmpty((yield* other.processes.list)[0]?.problems)
        // a process is never silent for itself
        assert.deepStrictEqual(yield* states(one.processes), ["alive", "alive"])
        assert.lengthOf((yield* one.processes.list)[0]?.problems ?? [], 1)
        assert.isAtLeast((yield* other.processes.list)[0]?.silence ?? 0, 10 * 60_000)
        yield* one.processes.report(report)
        assert.deepStrictEqual(yield* states(other.processes), ["alive", "alive"])
      }
    )

    test(
      "are silent on SQLite, which has one process, if they sent no heartbeat since a later one started",
      function*([one, other]) {
        yield* one.processes.report(report)
        yield* one.forward(1000)
        yield* other.processes.report(report)
        const states = (yield* other.processes.list).map(({ state }) => state)
        assert.deepStrictEqual(states, [other.isFleet ? "alive" : "silent", "alive"])
      }
    )

    test("are removed after a day without a heartbeat, and added again by the next one", function*([one, other]) {
      const hosts = Effect.map(one.processes.list, (list) => list.map(({ host }) => host))
      yield* one.processes.report(report)
      yield* one.forward(23 * 3_600_000)
      yield* other.processes.report({ ...report, host: "two" })
      yield* other.processes.prune
      assert.deepStrictEqual(yield* hosts, ["one", "two"])
      yield* one.forward(3_600_000)
      yield* other.processes.prune
      assert.deepStrictEqual(yield* hosts, ["two"])
      yield* one.processes.report(report)
      assert.deepStrictEqual(yield* hosts, ["two", "one"])
    })

    test(
      "are removed although the clock was set back since they ended, by more than a day (W4)",
      function*([one, other]) {
        yield* one.processes.report(report)
        yield* one.forward(-25 * 3_600_000)
        yield* other.processes.report({ ...report, host: "two" })
        yield* other.processes.prune
        assert.deepStrictEqual((yield* other.processes.list).map(({ host }) => host), ["two"])
      }
    )
  })
