/**
 * Three processes that share one PostgreSQL database, while they are killed and frozen, their connections are cut, and the server
 * restarts.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ReadModel } from "../../../src/domain/BuiltInModels.ts"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import { restartable, say } from "../../integration/postgres/Server.ts"
import type { Event } from "../kill/Follower.ts"
import { seed } from "../kill/Home.ts"
import { contentsOf, judge, mildFaults, quiet, undecided } from "../kill/Lives.ts"
import { until, type Waiting } from "../kill/Patience.ts"
import { approveAll, launch, type Service } from "../kill/Service.ts"

/** The number of times that each trouble happens, in random order. */
export interface Troubles {
  readonly kill: number
  readonly stop: number
  readonly freeze: number
  readonly cut: number
  readonly restart: number
}

export interface Options {
  readonly processes: number
  readonly integrations: number
  /** Omitted = every model of each integration. */
  readonly models?: ReadonlyArray<ReadModel>
  readonly records: number
  readonly troubles: Troubles
  /** Activity of the world. */
  readonly speed: number
  readonly settings?: Readonly<Record<string, string>>
  /** For the first backfills, and for three polls and two sweeps of every stream at the end. */
  readonly patience?: Waiting
}

/** Time until all shards are owned by living processes again, in ms, by kind of trouble. */
export type Takeovers = Readonly<Record<keyof Troubles, ReadonlyArray<number>>>

/** How many shards each process owns, by pid. */
const shardsOf = (url: string) =>
  Effect.map(
    say(
      url,
      `SELECT p.pid::integer AS pid, count(*)::integer AS shards FROM rollcall.ownership o JOIN rollcall.processes p ON p.id = o.process
       WHERE o.scope LIKE 'capture/%' GROUP BY p.pid`
    ),
    ({ rows }) => new Map(rows.map((row) => [Number(row["pid"]), Number(row["shards"])]))
  ).pipe(
    // the tables may not exist yet, and the server may be restarting
    Effect.orElseSucceed(() => new Map<number, number>())
  )

const owned = (shards: ReadonlyMap<number, number>, members: ReadonlyArray<Service>): number =>
  members.reduce((sum, { pid }) => sum + (shards.get(pid) ?? 0), 0)

const shardCount = 64
/** A fair share, plus 20 %. */
const most = (processes: number) => Math.floor(1.2 * shardCount / processes)

/** The times of takeovers as text: how many, the median, the 99th percentile and the longest, in ms. */
export const describe = (takeovers: Takeovers): string =>
  Object.entries(takeovers).flatMap(([kind, times]) => {
    if (times.length === 0) return []
    const sorted = [...times].sort((a, b) => a - b)
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]
    return [
      `${kind}: ${sorted.length} takeovers, median ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${sorted.at(-1)} ms`
    ]
  }).join("\n")

/** `last` runs at the end of the quiet phase, while the processes still run. */
export const run = Effect.fnUntraced(function*(
  { integrations, models, patience, processes, records, settings, speed, troubles }: Options,
  last: (events: ReadonlyArray<Event>) => Effect.Effect<void, unknown>
): Effect.fn.Return<
  {
    readonly takeovers: Takeovers
    readonly judged: Effect.Success<ReturnType<typeof judge>>
    readonly exitCodes: ReadonlyArray<number | null>
  },
  unknown,
  Scope.Scope
> {
  const random = new SeededRandom(seed)
  const server = yield* restartable
  const sandbox = yield* Sandbox.serve({ seed, integrations, records, speed })
  const environment = {
    ROLLCALL_API_URL: sandbox.url,
    ROLLCALL_API_KEY: sandbox.key,
    DATABASE_URL: server.url,
    ROLLCALL_INTEGRATIONS: sandbox.integrations.join(),
    ...models !== undefined && { ROLLCALL_MODELS: models.join() },
    ROLLCALL_INTERVAL: "1 second",
    ROLLCALL_SWEEP_INTERVAL: "3 seconds",
    ROLLCALL_CONFIRM_INTERVAL: "1 second",
    ROLLCALL_OVERLAP_MIN: "3 seconds",
    ROLLCALL_RETRY_BASE: "20 millis",
    ...settings
  }
  yield* sandbox.setFaults({ faults: mildFaults })
  let members: Array<Service> = []
  for (let count = 0; count < processes; count++) members.push(yield* launch(environment))
  const logs = () => members.map((member) => `process ${member.pid}:\n${member.log()}`).join("\n\n")
  const shared = (among: ReadonlyArray<Service>, waiting?: Waiting) =>
    until(
      `${among.length} processes to own all shards`,
      shardsOf(server.url),
      (shards) => owned(shards, among) === shardCount && among.every(({ pid }) => (shards.get(pid) ?? 0) > 0),
      waiting
    ).pipe(Effect.tapDefect(() => Effect.sync(() => process.stderr.write(logs()))))
  const balanced = Effect.suspend(() =>
    until(
      "no process to own more than its share",
      shardsOf(server.url),
      (shards) => owned(shards, members) === shardCount && Math.max(...shards.values()) <= most(processes)
    ).pipe(Effect.tapDefect(() => Effect.sync(() => process.stderr.write(logs()))))
  )
  const takeovers: Record<keyof Troubles, Array<number>> = { kill: [], stop: [], freeze: [], cut: [], restart: [] }
  const exitCodes: Array<number | null> = []

  const timed = Effect.fnUntraced(function*(kind: keyof Troubles, among: ReadonlyArray<Service>) {
    const before = Date.now()
    yield* shared(among)
    takeovers[kind].push(Date.now() - before)
  })

  const replace = Effect.fnUntraced(function*(kind: "kill" | "stop", victim: Service) {
    exitCodes.push(yield* kind === "kill" ? Effect.as(victim.end("SIGKILL"), 0) : victim.end("SIGTERM"))
    members = members.filter((member) => member !== victim)
    yield* timed(kind, members)
    members.push(yield* launch(environment))
  })

  const happen: Readonly<Record<keyof Troubles, (victim: Service) => Effect.Effect<void, unknown, Scope.Scope>>> = {
    kill: (victim) => replace("kill", victim),
    stop: (victim) => replace("stop", victim),
    freeze: Effect.fnUntraced(function*(victim) {
      yield* victim.signal("SIGSTOP")
      yield* timed("freeze", members.filter((member) => member !== victim))
      yield* Effect.sleep(random.int(0, 2_000))
      yield* victim.signal("SIGCONT")
    }),
    cut: Effect.fnUntraced(function*() {
      yield* say(
        server.url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rollcall' AND random() < 0.7"
      )
      yield* timed("cut", members)
    }),
    restart: Effect.fnUntraced(function*() {
      yield* server.restart
      yield* timed("restart", members)
    })
  }

  // the first process starts with the backfills of all streams
  yield* shared(members, patience)
  const agenda = random.shuffled(
    (Object.keys(troubles) as ReadonlyArray<keyof Troubles>).flatMap((kind) =>
      Array.from({ length: troubles[kind] }, () => kind)
    )
  )
  for (const [index, kind] of agenda.entries()) {
    process.stderr.write(`${new Date().toISOString()} trouble ${index + 1} of ${agenda.length}: ${kind}\n`)
    yield* Effect.sleep(random.int(200, 2_000))
    yield* happen[kind](random.pick(members))
    yield* balanced
    for (const member of members) {
      if (!member.alive()) throw new Error(`process ${member.pid} ended by itself after ${kind}:\n${member.log()}`)
    }
  }

  yield* sandbox.setFaults({})
  yield* sandbox.freeze
  const url = yield* members[0]!.url
  do yield* quiet(url, patience)
  while (yield* approveAll(url))
  const judged = yield* judge(
    url,
    contentsOf(sandbox, models),
    true,
    (published) => models === undefined ? new Set(undecided(sandbox, published, new Set())) : new Set()
  )
  process.stderr.write(
    `${judged.events.length} events, ${judged.differences.length} differences, ${judged.oracle.breaches.length} breaches\n`
  )
  const readiness = Effect.promise(() => fetch(`${url}/health/ready`).then((response) => response.text()))
  yield* last(judged.events).pipe(
    Effect.tapDefect(() => Effect.map(readiness, (ready) => process.stderr.write(`${ready}\n${logs()}`)))
  )
  for (const member of members) exitCodes.push(yield* member.end("SIGTERM"))
  return { takeovers, judged, exitCodes }
})
