/** A process while a replica is promoted at the address of its database, one that lacks commits or one that lacks none; and while it waits for a replica. */
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as StoreAdoption from "../../../src/capture/rewrite/StoreAdoption.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import type { RelayStatus } from "../../../src/publish/RelayStatus.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import type { Owner } from "../../../src/store/State.ts"
import { Store } from "../../../src/store/Store.ts"
import { all, created, stateOf, tags } from "../../conformance/StoreSamples.ts"
import { patience, until } from "../../fault/kill/Patience.ts"
import * as MemorySink from "../../support/publish/MemorySink.ts"
import { append } from "../publish/Log.ts"
import { address } from "./Address.ts"
import { cuttable } from "./Cut.ts"
import { onServer, open as openedAt } from "./Opened.ts"
import * as Server from "./Server.ts"

const open = (url: string) =>
  Effect.map(
    Layer.build(Layer.fresh(Postgres.layer({ url: Redacted.make(url), name: "postgres://test" }))),
    Context.get(Store)
  )

const relayOf = (store: Store["Service"], broker: MemorySink.MemoryBroker) =>
  Effect.map(
    Layer.build(
      Layer.fresh(Relay.layerWith("100 millis")).pipe(
        Layer.provide(MemorySink.layer(broker)),
        Layer.provide(Layer.succeed(Store, store))
      )
    ),
    Context.get(Relay)
  )

const ids = (broker: MemorySink.MemoryBroker) => broker.events.map(({ eventId }) => eventId)
const expected = (first: number, last: number, mark = "event") =>
  Array.from({ length: last - first + 1 }, (_, index) => `${mark}-${first + index}`)

const once = (relay: Relay["Service"], is: (status: RelayStatus) => boolean) =>
  until("the status of the relay", relay.status, is)

const newest = (store: Store["Service"]) => Effect.map(store.logRange, ({ newest }) => newest)

/** Appends events to this store. */
const appendTo = (store: Store["Service"], ...args: Parameters<typeof append>) =>
  Effect.provideService(append(...args), Store, store)

onServer("a replica promoted at the address of the database", () => {
  it.live("that lacks commits of the running process is neither read nor written, and nothing is published, until the right database is back (X14)", () =>
    Effect.gen(function*() {
      const servers = yield* Server.pair
      const broker = new MemorySink.MemoryBroker()
      const store = yield* open(servers.address.url)
      const relay = yield* relayOf(store, broker)
      yield* appendTo(store, 20)
      yield* relay.awaitPosition(20)
      yield* servers.caughtUp
      yield* servers.cutOff
      yield* appendTo(store, 10)
      yield* relay.awaitPosition(30)
      const progressBefore = new Map(broker.progress)
      yield* servers.promote
      servers.address.lead(servers.replica)

      const { reason } = yield* once(relay, ({ state }) => state === "waiting" || state === "stopped")
      assert.include(reason?.hint, "an older copy of the store took its place")
      assert.include(reason?.hint, "rollcall store adopt")
      for (
        const refused of [
          yield* Effect.flip(store.readLog(all)),
          yield* Effect.flip(appendTo(store, 1, "second")),
          yield* Effect.flip(store.streams)
        ]
      ) {
        assert.strictEqual(refused.reason._tag, "OlderCopy")
        assert.match(refused.message, /lacks (a commit|\d+ commits) of this process/)
      }
      assert.deepStrictEqual(ids(broker), expected(1, 30))
      assert.deepStrictEqual(broker.progress, progressBefore)
      const copy = yield* open(servers.replica)
      assert.strictEqual(yield* newest(copy), 20)

      servers.address.lead(servers.primary)
      yield* appendTo(store, 5)
      yield* once(relay, ({ position }) => position === 35)
      assert.deepStrictEqual(ids(broker), expected(1, 35))
      assert.isNull((yield* relay.status).reason)
    }))

  it.live("that lacks commits stops the relay of a new process, however far the log has grown, until the store is adopted (X14, X18)", () =>
    Effect.gen(function*() {
      const servers = yield* Server.pair
      const broker = new MemorySink.MemoryBroker()
      yield* Effect.scoped(Effect.gen(function*() {
        const store = yield* open(servers.address.url)
        const relay = yield* relayOf(store, broker)
        yield* appendTo(store, 20)
        yield* relay.awaitPosition(20)
        yield* servers.caughtUp
        yield* servers.cutOff
        yield* appendTo(store, 10)
        yield* relay.awaitPosition(30)
      }))
      yield* servers.promote
      servers.address.lead(servers.replica)
      for (const [count, message] of [[3, "the log ends at 23"], [20, "another event"]] as const) {
        yield* Effect.scoped(Effect.gen(function*() {
          const store = yield* open(servers.address.url)
          yield* appendTo(store, count, "second")
          const relay = yield* relayOf(store, broker)
          const { reason } = yield* once(relay, ({ state }) => state === "stopped")
          assert.include(reason?.message, message)
        }))
      }
      assert.deepStrictEqual(ids(broker), expected(1, 30))
      yield* Effect.scoped(Effect.gen(function*() {
        const store = yield* open(servers.address.url)
        const adoption = Effect.flatMap(StoreAdoption.plan(1), (plan) => StoreAdoption.adopt(plan, () => null))
        yield* Effect.provideService(adoption, Store, store)
      }))
      const store = yield* open(servers.address.url)
      const relay = yield* relayOf(store, broker)
      yield* once(relay, ({ position }) => position > 43)
      const republished = broker.events.slice(30)
      assert.strictEqual(republished.length, 10)
      assert.isTrue(
        republished.every(({ kind, generation, version }) => kind === "created" && generation > 1 && version === 1)
      )
    }))

  it.live("that lacks no commit is used automatically; then the old server counts as the older copy, although it still answers", () =>
    Effect.gen(function*() {
      const servers = yield* Server.pair
      const broker = new MemorySink.MemoryBroker()
      const store = yield* open(servers.address.url)
      const relay = yield* relayOf(store, broker)
      yield* appendTo(store, 20)
      yield* relay.awaitPosition(20)
      yield* servers.caughtUp
      yield* servers.promote
      servers.address.lead(servers.replica)
      yield* appendTo(store, 5)
      yield* once(relay, ({ position }) => position === 25)
      assert.deepStrictEqual(ids(broker), expected(1, 25))
      const [old, copy] = [yield* open(servers.primary), yield* open(servers.replica)]
      assert.deepStrictEqual([yield* newest(old), yield* newest(copy)], [20, 25])
      servers.address.lead(servers.primary)
      assert.include((yield* Effect.flip(store.readLog(all))).message, "an older copy")
    }))

  it.live("that lacks a commit whose answer was lost: the process runs the transaction again (I2)", () =>
    Effect.gen(function*() {
      const servers = yield* Server.pair
      const { cut, url } = yield* cuttable(servers.address.url)
      const store = yield* open(url)
      yield* store.ensureStreams([stateOf(tags)])
      const owner: Owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, tags, (tx) => tx.write([created("a")]))
      yield* servers.caughtUp
      yield* servers.cutOff
      yield* servers.promote
      const runs: Array<string> = []
      yield* store.transact(owner, tags, (tx) =>
        Effect.gen(function*() {
          runs.push(`r${runs.length}`)
          yield* tx.write([created(runs.at(-1) ?? "")])
          // the next message has the writes and the COMMIT
          const meanwhile = () => servers.address.lead(servers.replica)
          if (runs.length === 1) cut({ nth: 1, containing: "COMMIT", delivered: true, meanwhile })
        }))
      assert.deepStrictEqual(runs, ["r0", "r1"])
      const copy = yield* open(servers.replica)
      assert.deepStrictEqual((yield* copy.readLog(all)).map(({ id }) => id), ["a", "r1"])
    }))

  it.live("that lacks more than a commit whose answer was lost: the outcome is known once the right database is back (I2)", () =>
    Effect.gen(function*() {
      const servers = yield* Server.pair
      const { cut, url } = yield* cuttable(servers.primary)
      const before = yield* address(url)
      const store = yield* open(before.url)
      yield* store.ensureStreams([stateOf(tags)])
      const owner: Owner = yield* store.takeOwnership("capture")
      yield* servers.caughtUp
      yield* servers.cutOff
      yield* store.transact(owner, tags, (tx) => tx.write([created("a")]))
      yield* servers.promote
      const runs: Array<string> = []
      const writing = yield* Effect.forkChild(store.transact(owner, tags, (tx) =>
        Effect.gen(function*() {
          runs.push(`r${runs.length}`)
          yield* tx.write([created(runs.at(-1) ?? "")])
          const meanwhile = () => before.lead(servers.replica)
          if (runs.length === 1) cut({ nth: 1, containing: "COMMIT", delivered: true, meanwhile })
        })))
      yield* until("an outage", store.outage, (outage) => outage !== null)
      before.lead(url)
      yield* Fiber.join(writing).pipe(Effect.timeout(patience))
      assert.deepStrictEqual(runs, ["r0"])
      assert.deepStrictEqual((yield* store.readLog(all)).map(({ id }) => id), ["a", "r0"])
    }))
}, Server.pairMissing)

onServer("a commit that waits for a synchronous replica", () => {
  it.live("has not succeeded before the replica has it, however long that takes", () =>
    Effect.gen(function*() {
      const url = yield* Server.startServer
      const { store } = yield* openedAt(url, { limits: { statement: Duration.seconds(2) } })
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.takeOwnership("capture")
      const replicas = Effect.fnUntraced(function*(names: string) {
        yield* Server.say(url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`)
        yield* Server.say(url, "SELECT pg_reload_conf()")
        // new sessions have the names once the server has sent them to its processes
        yield* until(
          "the names to be read",
          Server.say(url, "SHOW synchronous_standby_names"),
          ({ rows: [row] }) => row?.["synchronous_standby_names"] === names
        )
        // the process that makes commits wait reads the names before it writes a checkpoint
        yield* Server.say(url, "CHECKPOINT")
      })
      yield* replicas("absent")
      const waiting = Effect.map(
        Server.say(url, "SELECT count(*)::integer AS count FROM pg_stat_activity WHERE wait_event = 'SyncRep'"),
        ({ rows: [row] }) => row?.["count"] === 1
      )
      const committing = yield* Effect.forkChild(store.transact(owner, tags, (tx) => tx.write([created("a")])))
      yield* until("the commit to wait", waiting, (is) => is)
      // three times the time limit of the commit
      yield* Effect.sleep("6 seconds")
      assert.deepStrictEqual([committing.pollUnsafe(), yield* waiting], [undefined, true])
      yield* replicas("")
      yield* Fiber.join(committing)
      assert.deepStrictEqual((yield* store.readLog(all)).map(({ id }) => id), ["a"])
    }))
}, Server.ownMissing)
