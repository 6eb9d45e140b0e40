/** Alerts on the store and on the processes that share it: a real PostgreSQL that is cut off, locked, and refuses deletes. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Server from "../postgres/Server.ts"
import { silentProxy } from "../postgres/SilentProxy.ts"
import { createTags, make, test, watched } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const missing = Prometheus.missing ?? Server.missing
const { database } = Server.ofFile()

/** Locks a table for some seconds, like a transaction that another program has forgotten. */
const lock = (url: string, table: string, mode: string, seconds: number) =>
  Server.say(url, `DO $$ BEGIN LOCK TABLE rollcall.${table} IN ${mode} MODE; PERFORM pg_sleep(${seconds}); END $$`)

describe.skipIf(missing !== null)(`alerts on the store${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  test("RollcallStoreUnavailable fires while the database cannot be reached, and ends when it can", 5, function*() {
    const proxy = yield* silentProxy(yield* database)
    const service = yield* make({ store: proxy.url })
    const prometheus = yield* watched(service)
    proxy.close()
    const [alert] = yield* prometheus.fires("RollcallStoreUnavailable")
    assert.match(alert?.annotations["summary"] ?? "", /^The store has not answered 127\.0\.0\.1:\d+ for /)
    proxy.open()
    yield* prometheus.clears("RollcallStoreUnavailable")
    yield* prometheus.quiet
  })

  test(
    "RollcallStoreSlow fires while another transaction locks the event log again and again, and ends with it",
    5,
    function*() {
      const url = yield* database
      const service = yield* make({ store: url })
      const prometheus = yield* watched(service)
      const locking = yield* Effect.forkChild(Effect.forever(
        Effect.andThen(
          createTags(service, 1, "slow"),
          lock(url, "log_counter", "EXCLUSIVE", 3)
        )
      ))
      yield* prometheus.fires("RollcallStoreSlow")
      yield* Fiber.interrupt(locking)
      yield* prometheus.clears("RollcallStoreSlow")
      yield* prometheus.quiet
    }
  )

  test(
    "RollcallShardsUnowned fires while the shards of a killed process cannot be taken over, and ends when they can",
    6,
    function*() {
      const url = yield* database
      const one = yield* make({ store: url })
      const two = yield* make({ store: url, sandbox: one.sandbox })
      yield* one.start()
      yield* two.start()
      const prometheus = yield* Prometheus.start([one.url, two.url])
      yield* prometheus.quiet
      yield* Effect.forkChild(
        lock(url, "fleet_locks", "ACCESS EXCLUSIVE", 120)
      )
      yield* one.stop("SIGKILL")
      const [alert] = yield* prometheus.fires("RollcallShardsUnowned", "RollcallProcessDown")
      assert.match(alert?.annotations["summary"] ?? "", /^Shards that no process reads: \d+ of 64$/)
      yield* Server.say(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(120)%' AND pid <> pg_backend_pid()"
      )
      yield* prometheus.clears("RollcallShardsUnowned")
      yield* one.start()
      yield* prometheus.clears("RollcallProcessDown")
      yield* prometheus.quiet
    }
  )

  test("RollcallRetentionFailing fires while a trigger refuses the deletes, and ends without it", 5, function*() {
    const url = yield* database
    const service = yield* make({ store: url })
    yield* service.start()
    yield* service.stop()
    yield* Server.say(
      url,
      "CREATE FUNCTION rollcall.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no deletes'; END $$"
    )
    yield* Server.say(
      url,
      "CREATE TRIGGER refuse BEFORE DELETE ON rollcall.quarantine FOR EACH STATEMENT EXECUTE FUNCTION rollcall.refuse()"
    )
    yield* service.start()
    const prometheus = yield* Prometheus.start([service.url])
    yield* prometheus.fires("RollcallRetentionFailing")
    yield* Server.say(url, "DROP TRIGGER refuse ON rollcall.quarantine")
    // without a restart it would be tried again after five minutes
    yield* service.stop()
    yield* service.start()
    yield* prometheus.clears("RollcallRetentionFailing")
    yield* prometheus.quiet
  })
})
