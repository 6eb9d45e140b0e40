/** The whole service on a PostgreSQL database: killed, frozen, inspected and adopted. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Follower } from "../../fault/kill/Follower.ts"
import * as Home from "../../fault/kill/Home.ts"
import { contentsOf, following, judge, quiet } from "../../fault/kill/Lives.ts"
import { until } from "../../fault/kill/Patience.ts"
import { launch, type Service } from "../../fault/kill/Service.ts"
import { run } from "../cli/Program.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

/** A sandbox world that changes, and the settings of a service that stores it in a database. */
const home = Effect.gen(function*() {
  const url = yield* database
  const { sandbox, settings: { ROLLCALL_STORE: _, ...settings } } = yield* Home.make({ speed: 400 })
  return { sandbox, settings: { ...settings, DATABASE_URL: url }, password: new URL(url).password }
})

/** Every record of the world is published once. */
const assertComplete = Effect.fnUntraced(function*(service: Service, sandbox: Home.Home["sandbox"]) {
  const url = yield* service.url
  yield* sandbox.freeze
  yield* quiet(url)
  const { differences, digests, oracle } = yield* judge(url, contentsOf(sandbox, Home.models))
  assert.deepStrictEqual(oracle.breaches, [])
  assert.deepStrictEqual(differences, [])
  return digests
})

onServer("a service on PostgreSQL", () => {
  it.live(`killed repeatedly and cut off from its database, it publishes the world's content, and events that a reader saw never change (seed ${Home.seed}) (X1, X2, X10)`, () =>
    Effect.gen(function*() {
      const { password, sandbox, settings } = yield* home
      const once = yield* launch(settings, { command: ["start", "--once"] })
      assert.strictEqual(yield* once.ended, 0, once.log())
      const follower = new Follower()
      for (const life of ["900 millis", "1300 millis", "600 millis"] as const) {
        yield* Effect.scoped(Effect.gen(function*() {
          const service = yield* launch(settings)
          yield* following(follower, yield* service.url)
          yield* until("a reader to see events", Effect.sync(() => follower.seen.size), (size) => size > 60)
          yield* Effect.sleep(life)
          assert.isTrue(service.alive(), service.log())
          assert.notInclude(service.log(), password)
          yield* service.end("SIGKILL")
        }))
      }
      const service = yield* launch(settings)
      yield* service.url
      for (let times = 0; times < 5; times++) {
        yield* Effect.sleep("200 millis")
        yield* Server.say(
          settings.DATABASE_URL,
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rollcall' AND datname = current_database()"
        )
      }
      const digests = yield* assertComplete(service, sandbox)
      assert.deepStrictEqual(follower.complaints, [])
      assert.deepStrictEqual([...follower.seen].filter(([position, seen]) => digests.get(position) !== seen), [])
      assert.strictEqual(yield* service.end("SIGTERM"), 0)
      assert.notInclude(service.log(), password)
    }))

  it.live("frozen once it has shards, its work is taken over within seconds, and after it wakes it takes part again (X9, X21)", () =>
    Effect.gen(function*() {
      const { sandbox, settings } = yield* home
      const frozen = yield* launch(settings)
      yield* frozen.says("shards taken")
      yield* frozen.signal("SIGSTOP")
      const heir = yield* launch(settings)
      yield* assertComplete(heir, sandbox)
      yield* frozen.signal("SIGCONT")
      yield* frozen.says("shards handed over")
      assert.strictEqual(yield* heir.end("SIGTERM"), 0, heir.log())
      yield* assertComplete(frozen, sandbox)
      assert.strictEqual(yield* frozen.end("SIGTERM"), 0, frozen.log())
    }))

  it.live("is inspected without changes, adopted while it is stopped, shares its request slots, and never shows its password", () =>
    Effect.gen(function*() {
      const { password, sandbox, settings } = yield* home
      yield* sandbox.freeze
      const port = { ROLLCALL_HTTP_PORT: "0", ROLLCALL_LOG_FORMAT: "json" }
      const rollcall = (...command: ReadonlyArray<string>) =>
        Effect.map(Effect.promise(() => run(command, { ...settings, ...port })), ({ code, stderr, stdout }) => {
          assert.notInclude(stdout + stderr, password)
          return { code, text: stdout + stderr }
        })
      const { host, pathname } = new URL(settings.DATABASE_URL)
      const before = yield* rollcall("doctor")
      assert.include(before.text, `there is no store at postgres://${host}${pathname} yet; it will be created`)
      assert.strictEqual(
        (yield* Server.say(settings.DATABASE_URL, "SELECT to_regnamespace('rollcall') IS NULL AS untouched")).rows[0]
          ?.["untouched"],
        true
      )
      assert.strictEqual((yield* rollcall("start", "--once")).code, 0)
      assert.include((yield* rollcall("doctor")).text, "can be read and written")
      const adopted = yield* rollcall("store", "adopt", "--yes")
      assert.strictEqual(adopted.code, 0, adopted.text)
      assert.match(adopted.text, /generation +1 becomes \d+/)
      const service = yield* launch(settings)
      const { events } = yield* judge(yield* service.url, contentsOf(sandbox, Home.models))
      assert.isTrue(events.every(({ data }) => data.version === 1))
      const url = yield* service.url
      yield* quiet(url)
      const metrics = yield* Effect.promise(async () => await (await fetch(`${url}/metrics`)).text())
      assert.match(metrics, /^rollcall_api_slots [1-9]/m)
    }))
})
