/** The whole service, its database behind an address that a failover moves, publishing to a real broker. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Home from "../../fault/kill/Home.ts"
import { contentsOf, judge, quiet } from "../../fault/kill/Lives.ts"
import { until } from "../../fault/kill/Patience.ts"
import { launch } from "../../fault/kill/Service.ts"
import { runCommand } from "../cli/Program.ts"
import { Broker, layer as broker, missing as noBroker } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const missing = Server.pairMissing ?? noBroker ?? Kcat.missing

const home = Effect.gen(function*() {
  const { brokers } = yield* Broker
  const servers = yield* Server.pair
  const { sandbox, settings: { ROLLCALL_STORE: _, ...settings } } = yield* Home.make({ speed: 400 })
  const topic = `failover-${randomUUID()}`
  return {
    sandbox,
    servers,
    settings: {
      ...settings,
      DATABASE_URL: servers.address.url,
      KAFKA_BROKERS: brokers.join(),
      ROLLCALL_TOPIC: `${topic}.{model}`
    },
    // the service is ready before the relay has created its topics
    published: Effect.gen(function*() {
      const there = yield* Kcat.topics(brokers)
      const topics = Home.models.map((model) => `${topic}.${model}`).filter((name) => there.has(name))
      const all = yield* Effect.forEach(topics, (name) => Kcat.read(brokers, name))
      return all.flat().map(({ headers, payload }) => {
        const { generation }: { readonly generation: number } = JSON.parse(payload ?? "")
        return { id: headers["ce_id"], generation }
      })
    })
  }
})

const ready = (url: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/health/ready`)
    return { status: response.status, text: await response.text() }
  })

const isReady = (url: string) => until("the service to be ready", ready(url), ({ status }) => status === 200)

onServer("the service in a failover of its database", () => {
  layer(broker, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
    it.effect(`stops publishing and is not ready, with the reason, on a replica that lacks commits, until the store is adopted (seed ${Home.seed}) (X14)`, () =>
      Effect.gen(function*() {
        const { published, sandbox, servers, settings } = yield* home
        const service = yield* launch(settings)
        const url = yield* service.url
        yield* isReady(url)
        yield* servers.caughtUp
        yield* servers.cutOff
        const before = (yield* published).length
        yield* until("more to be published", published, (all) => all.length > before + 20)
        yield* servers.promote
        servers.address.lead(servers.replica)
        // at first the reason may be that the connections were cut
        yield* until(
          "the service not to be ready because of the copy",
          ready(url),
          ({ status, text }) => status === 503 && text.includes("an older copy of the database answers")
        )
        const all = yield* published
        yield* Effect.sleep("2 seconds")
        assert.strictEqual((yield* ready(url)).status, 503)
        assert.strictEqual(yield* service.end("SIGTERM"), 0, service.log())
        assert.deepStrictEqual(yield* published, all)

        const next = yield* launch(settings)
        const stopped = yield* until("the relay to stop", ready(yield* next.url), ({ text }) => text.includes("adopt"))
        assert.strictEqual(stopped.status, 503)
        yield* Effect.sleep("2 seconds")
        assert.strictEqual(yield* next.end("SIGTERM"), 0, next.log())
        assert.deepStrictEqual(yield* published, all)

        const { code, stderr } = yield* Effect.promise(() =>
          runCommand(["store", "adopt", "--yes"], { ...settings, ROLLCALL_HTTP_PORT: "0" })
        )
        assert.strictEqual(code, 0, stderr)
        const adopted = yield* launch(settings)
        const last = yield* adopted.url
        yield* isReady(last)
        yield* sandbox.freeze
        yield* quiet(last)
        const { differences, events, oracle } = yield* judge(last, contentsOf(sandbox, Home.models), false)
        assert.deepStrictEqual([differences, oracle.breaches], [[], []])
        const republished = yield* until(
          "all records to be published again",
          Effect.map(published, (now) => now.filter(({ generation }) => generation > 1)),
          (now) => now.length >= events.length
        )
        assert.deepStrictEqual(
          republished.map(({ id }) => id).sort(),
          events.map(({ id }) => id).sort()
        )
      }))

    it.effect(`continues by itself on a replica that lacks no commit (seed ${Home.seed})`, () =>
      Effect.gen(function*() {
        const { published, sandbox, servers, settings } = yield* home
        const service = yield* launch(settings)
        const url = yield* service.url
        yield* isReady(url)
        yield* sandbox.freeze
        yield* quiet(url)
        // nothing is committed while the primary ends
        yield* service.signal("SIGSTOP")
        yield* servers.caughtUp
        yield* servers.promote
        servers.address.lead(servers.replica)
        yield* service.signal("SIGCONT")
        yield* quiet(url)
        yield* isReady(url)
        const { differences, events, oracle } = yield* judge(url, contentsOf(sandbox, Home.models))
        assert.deepStrictEqual([differences, oracle.breaches], [[], []])
        const all = yield* until("all to be published", published, (all) => all.length >= events.length)
        assert.deepStrictEqual(all.map(({ id }) => id).sort(), events.map(({ id }) => id).sort())
        assert.strictEqual(yield* service.end("SIGTERM"), 0)
      }))
  })
}, missing)
