/** How soon the other processes of a fleet own the shards of a process that ended. */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { setTimeout } from "node:timers/promises"
import { shardCount } from "../../src/domain/Shard.ts"
import { RunningOrigin } from "../origin/RunningOrigin.ts"
import type { Options, Run, Section } from "../Section.ts"
import { Service, settingsFor } from "../Service.ts"
import { formatted, quantile, table, type Value, valueOf } from "../Table.ts"

const processes = 3
const integrations = 24
/** A fair share, plus 20 %. */
const most = Math.floor(1.2 * shardCount / processes)
const lookEvery = 20

const shardsByProcess = `
  SELECT p.pid::integer AS pid, count(*)::integer AS shards
  FROM rollcall.ownership o JOIN rollcall.processes p ON p.id = o.process
  WHERE o.scope LIKE 'capture/%' GROUP BY p.pid`

/** Looks at the database until the condition holds; returns after how many ms it did. */
const makeWatch = async (url: string, scope: Scope.Scope) => {
  const connection = await Effect.runPromise(Scope.provide(PgConnection.make({ url: Redacted.make(url) }), scope))
  return async (holds: (shardsOf: (service: Service) => number) => boolean): Promise<number> => {
    const from = Date.now()
    for (;;) {
      const { rows } = await Effect.runPromise(connection.query(shardsByProcess, [], false))
      const shards = new Map(rows.map((row) => [Number(row["pid"]), Number(row["shards"])]))
      if (holds(({ process }) => shards.get(process.pid) ?? 0)) return Date.now() - from
      await setTimeout(lookEvery)
    }
  }
}

/** `runs`: how many processes are killed, and how many are stopped. */
const measure = async ({ postgres, runs = 60 }: Options) => {
  await using origin = await RunningOrigin.start(100)
  const url = await (await postgres()).database()
  const settings = {
    ...settingsFor(url, origin.url),
    ROLLCALL_INTEGRATIONS: Array.from({ length: integrations }, (_, index) => `greenhouse:bench-${index}`).join(),
    ROLLCALL_INTERVAL: "2 seconds"
  }
  let members: Array<Service> = []
  await using stack = new AsyncDisposableStack()
  stack.defer(async () => void await Promise.all(members.map(({ process }) => process.stop())))
  const scope = Scope.makeUnsafe()
  stack.defer(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  const join = async () => void members.push(await Service.start(settings))
  for (let count = 0; count < processes; count++) await join()
  const watch = await makeWatch(url, scope)
  const isComplete = (shardsOf: (service: Service) => number) =>
    members.reduce((sum, member) => sum + shardsOf(member), 0) === shardCount
  const balanced = () => watch((shardsOf) => isComplete(shardsOf) && Math.max(...members.map(shardsOf)) <= most)

  /** One process ends and another one starts in its place. */
  const replace = async (name: string, signal: "SIGKILL" | "SIGTERM", victim: Service): Promise<Run> => {
    members = members.filter((member) => member !== victim)
    const ended = victim.process.stop(signal)
    const takeover = await watch(isComplete)
    await ended
    await join()
    return { [`${name}.takeover`]: takeover, [`${name}.balance`]: await balanced() }
  }

  await balanced()
  const measured: Array<Run> = []
  for (let run = 0; run < runs; run++) {
    // every second time the oldest process, which has the relay and creates the deliveries
    const killed = await replace("kill", "SIGKILL", members[run % 2]!)
    measured.push({ ...killed, ...await replace("stop", "SIGTERM", members[run % 2]!) })
  }
  return { takeover: measured }
}

const millisOf = (runs: ReadonlyArray<Run>, part: number, value: Value) => quantile(runs.map(value), part)
export const takeover: Section = {
  name: "takeover",
  title: "A process of a fleet ends",
  measure,
  table: (runs) =>
    table(
      ["ms", "p50", "p99", "max"],
      [
        ["`kill -9`: all shards owned", "kill.takeover"],
        ["SIGTERM: all shards owned", "stop.takeover"],
        ["`kill -9`: fair shares", "kill.balance"],
        ["SIGTERM: fair shares", "stop.balance"]
      ].map(([title = "", value = ""]) => [
        title,
        ...[0.5, 0.99, 1].map((part) => formatted(millisOf(runs, part, valueOf(value))))
      ])
    ),
  explanation: `
One of ${processes} processes on a PostgreSQL database ends, and another one starts in its place. Times run from the signal until each of the ${shardCount} shards has a
living owner, and from the start of the new process until no process has more than ${most} shards.`
}
