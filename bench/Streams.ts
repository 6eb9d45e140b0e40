/**
 * The cost of many quiet streams on PostgreSQL: processor time and memory of the service while each stream is polled once a minute.
 *
 * `node bench/Streams.ts [integrations] [minutes]`, default 100 and 2: eleven streams for each integration.
 */
import * as Effect from "effect/Effect"
import { say } from "../test/integration/postgres/Server.ts"
import { server } from "./Postgres.ts"
import { Process } from "./Process.ts"

const integrations = Number(process.argv[2] ?? 100)
const minutes = Number(process.argv[3] ?? 2)

const pause = (seconds: number) => Effect.sleep(seconds * 1000)

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const url = yield* server
  const number = (sql: string) => Effect.map(say(url, sql), ({ rows }) => Number(Object.values(rows[0] ?? {})[0]))
  const launch = (...args: ConstructorParameters<typeof Process>) =>
    Effect.acquireRelease(Effect.sync(() => new Process(...args)), (process) => Effect.promise(() => process.stop()))
  const world = ["sandbox", "--json", "--port", "0", "--speed", "0", "--records", "20"]
  const sandbox = yield* launch("bin/rollcall.js", [...world, "--integrations", String(integrations)], "stdout")
  const info = JSON.parse((yield* Effect.promise(() => sandbox.line("{"))).text)
  const service = yield* launch("bin/rollcall.js", ["start"], "stderr", {
    DATABASE_URL: url,
    ROLLCALL_API_URL: info.url,
    ROLLCALL_API_KEY: info.key,
    ROLLCALL_INTEGRATIONS: info.integrations.join(),
    ROLLCALL_HTTP_PORT: "0",
    ROLLCALL_LOG_FORMAT: "json"
  })
  yield* Effect.promise(() => service.line("started"))
  const streams = yield* number("SELECT count(*)::integer FROM rollcall.streams")
  const filling =
    "SELECT count(*)::integer FROM rollcall.streams WHERE state::json ->> 'phase' = 'backfilling' OR state::json ->> 'phase' = 'starting'"
  while ((yield* number(filling)) > 0) yield* pause(2)
  yield* pause(30)
  const commits = "SELECT xact_commit::integer FROM pg_stat_database WHERE datname = 'postgres'"
  const before = { cpu: service.cpuSeconds, commits: yield* number(commits), at: Date.now() }
  yield* pause(minutes * 60)
  const seconds = (Date.now() - before.at) / 1000
  const per = (value: number, digits: number) => value.toFixed(digits)
  console.log([
    `${streams} streams`,
    `${per((100 * (service.cpuSeconds - before.cpu)) / seconds, 1)} % of a core`,
    `${per(service.peakMegabytes, 0)} MB at most`,
    `${per(((yield* number(commits)) - before.commits) / seconds, 1)} commits/s`,
    `${
      per(yield* number("SELECT sum(pg_column_size(s.*))::integer / count(*) FROM rollcall.streams s"), 0)
    } bytes per row of streams`
  ].join(", "))
})))
