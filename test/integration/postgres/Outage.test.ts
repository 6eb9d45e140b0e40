/** The whole service while its database is silent, unavailable, closed or read-only: its answers, its log and its exit. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Home from "../../fault/kill/Home.ts"
import { contentsOf, judge, quiet } from "../../fault/kill/Lives.ts"
import { until } from "../../fault/kill/Patience.ts"
import { launch, type Service } from "../../fault/kill/Service.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"
import { type SilentProxy, silentProxy } from "./SilentProxy.ts"

const { database } = Server.ofFile()

/** A service with its own database and its own user, behind a proxy. */
const begin = Effect.gen(function*() {
  const url = yield* database
  const name = new URL(url).pathname.slice(1)
  yield* Effect.acquireRelease(
    Server.say(url, `CREATE ROLE ${name} LOGIN PASSWORD 's3cret'`),
    () => Effect.ignore(Effect.andThen(Server.say(url, `DROP OWNED BY ${name}`), Server.say(url, `DROP ROLE ${name}`)))
  )
  yield* Server.say(url, `GRANT CREATE ON DATABASE ${name} TO ${name}`)
  const proxy = yield* silentProxy(Object.assign(new URL(url), { username: name, password: "s3cret" }).href)
  const { sandbox, settings: { ROLLCALL_STORE: _, ...settings } } = yield* Home.make({ speed: 400 })
  const service = yield* launch({ ...settings, DATABASE_URL: proxy.url })
  const api = yield* service.url
  yield* quiet(api)
  return { url, name, proxy, sandbox, service, api }
})

interface Answer {
  readonly status: number
  readonly text: string
  readonly millis: number
}

/** An HTTP response, and how long it took. */
const get = (url: string) =>
  Effect.promise(async (): Promise<Answer> => {
    const since = Date.now()
    const response = await fetch(url, { signal: AbortSignal.timeout(10_000) })
    return { status: response.status, text: await response.text(), millis: Date.now() - since }
  })

const occurrences = (log: string, text: string) => log.split(`"message":"${text}"`).length - 1

/** Every record of the world was published once. */
const isComplete = Effect.fnUntraced(function*(api: string, sandbox: Home.Home["sandbox"]) {
  yield* sandbox.freeze
  yield* quiet(api)
  const { differences, oracle } = yield* judge(api, contentsOf(sandbox, Home.models))
  assert.deepStrictEqual(oracle.breaches, [])
  assert.deepStrictEqual(differences, [])
})

const assertLog = (service: Service, cause: RegExp) => {
  const log = service.log()
  assert.strictEqual(occurrences(log, "store unavailable"), 1, log)
  assert.strictEqual(occurrences(log, "store available again"), 1, log)
  assert.strictEqual(occurrences(log, "request failed: store error"), 0, log)
  assert.match(log, cause)
}

/** Runs SQL in another database of the server, because the service's database may refuse the connection. */
const administer = (url: string, sql: string) =>
  Server.say(Object.assign(new URL(url), { pathname: "/postgres" }).href, sql)

interface Faulty {
  readonly url: string
  readonly name: string
  readonly proxy: SilentProxy
}

const closeSessions = ({ name, url }: Faulty) =>
  administer(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)

const altering = (of: "DATABASE" | "ROLE", change: string, back: string) => ({
  begin: (all: Faulty) => Effect.andThen(administer(all.url, `ALTER ${of} ${all.name} ${change}`), closeSessions(all)),
  end: ({ name, url }: Faulty) => administer(url, `ALTER ${of} ${name} ${back}`)
})

/** Faults of a database, with the cause and remedy that the service reports. */
const outages = [
  {
    what: "is read-only",
    cause: "the database is read-only",
    remedy: "set to read-only transactions",
    ...altering("DATABASE", "SET default_transaction_read_only = on", "RESET default_transaction_read_only")
  },
  {
    what: "refuses the login",
    cause: "the database refuses the login",
    remedy: "check the user and the password",
    ...altering("ROLE", "PASSWORD 'another'", "PASSWORD 's3cret'")
  },
  {
    what: "has no free connection",
    cause: "the database server has no free connection",
    remedy: "max_connections",
    ...altering("ROLE", "CONNECTION LIMIT 0", "CONNECTION LIMIT -1")
  },
  {
    what: "is down",
    cause: "the database server cannot be reached",
    remedy: "check that it runs",
    begin: ({ proxy }: Faulty) => Effect.sync(proxy.close),
    end: ({ proxy }: Faulty) => Effect.sync(proxy.open)
  }
]

onServer("a service whose database fails", () => {
  it.live("answers within a second while the database is silent, reports not ready with the time, and continues once the database answers (X10)", () =>
    Effect.gen(function*() {
      const { api, proxy, sandbox, service } = yield* begin
      yield* get(`${api}/metrics`)
      const before = JSON.parse((yield* get(`${api}/v1/streams`)).text)
      const silentSince = Date.now()
      proxy.fail("lossy")
      yield* service.says("store unavailable")
      const reportedAt = Date.now()
      // long before a statement times out
      assert.isBelow(reportedAt - silentSince, 12_000)
      const rounds: Array<ReadonlyArray<Answer>> = []
      for (let times = 0; times < 3; times++) {
        const answers = yield* Effect.all(
          ["/health/live", "/health/ready", "/v1/streams", "/metrics"].map((path) => get(`${api}${path}`)),
          { concurrency: "unbounded" }
        )
        rounds.push(answers)
        const [live, ready, streams, metrics] = answers
        assert.deepStrictEqual([live?.status, ready?.status, streams?.status, metrics?.status], [
          200,
          503,
          200,
          200
        ])
        const since = Date.parse(/does not answer \([^)]*\), since (\S+?Z)/.exec(ready?.text ?? "")?.[1] ?? "")
        // when the first statement without an answer started, and it has waited for five seconds
        assert.isAtLeast(since, silentSince - 1_000)
        assert.isAtMost(since, reportedAt - 4_900)
        const { as_of, items } = JSON.parse(streams?.text ?? "")
        assert.isAtMost(Date.parse(as_of), silentSince + 1_000)
        assert.lengthOf(items, before.items.length)
        assert.isAbove(Number(/^rollcall_store_unavailable_seconds (\S+)$/m.exec(metrics?.text ?? "")?.[1]), 1)
        assert.include(metrics?.text, "rollcall_records_live{")
      }
      // a busy machine delays single answers; an answer that waits for the database is late in each round
      const fastest = rounds[0]!.map((_, path) => Math.min(...rounds.map((answers) => answers[path]!.millis)))
      for (const millis of fastest) assert.isBelow(millis, 1_000)
      yield* Effect.sleep("25 seconds")
      proxy.heal()
      const healedAt = Date.now()
      yield* service.says("store available again")
      assert.isBelow(Date.now() - healedAt, 30_000)
      yield* until("the service to be ready", get(`${api}/health/ready`), ({ status }) => status === 200)
      yield* isComplete(api, sandbox)
      assertLog(service, /the database does not answer \(postgres:/)
      assert.strictEqual(yield* service.end("SIGTERM"), 0)
    }))

  it.live(
    `names the cause, the database and the remedy if it ${
      outages.map(({ what }) => what).join(", ")
    }, logs each outage once, and continues (X10, I11)`,
    () =>
      Effect.gen(function*() {
        const { api, name, proxy, sandbox, service, url } = yield* begin
        const until = (status: number, text: string) =>
          get(`${api}/health/ready`).pipe(
            Effect.repeat({
              until: (ready) => ready.status === status && ready.text.includes(text),
              schedule: Schedule.spaced("300 millis")
            }),
            Effect.timeoutOrElse({
              duration: "45 seconds",
              orElse: () => Effect.die(new Error(`not ${status} with "${text}":\n${service.log()}`))
            })
          )
        for (const { begin, cause, end, remedy } of outages) {
          yield* begin({ name, proxy, url })
          const { text } = yield* until(503, cause)
          assert.include(text, remedy)
          assert.include(text, `${new URL(proxy.url).host}/${name}`)
          yield* Effect.sleep("3 seconds")
          yield* end({ name, proxy, url })
          yield* until(200, "")
        }
        yield* isComplete(api, sandbox)
        const log = service.log()
        assert.strictEqual(occurrences(log, "store unavailable"), outages.length, log)
        assert.strictEqual(occurrences(log, "store available again"), outages.length, log)
        for (const { cause } of outages) assert.strictEqual(log.split(`"why":"${cause}`).length - 1, 1, log)
        assert.notInclude(log, "s3cret")
        assert.strictEqual(yield* service.end("SIGTERM"), 0)
      }),
    240_000
  )
})
