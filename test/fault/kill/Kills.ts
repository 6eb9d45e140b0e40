/**
 * The long versions of the kill tests. `npm run kills -- --count 500` kills at random moments and exits with 1 if anything was lost,
 * invented or reordered, or if a recovery took longer than `slowest`. `npm run kills -- --every-step` kills before and after every
 * durable step of short runs. Without `--seed` the seed is random, and printed at the start.
 */
import * as Effect from "effect/Effect"
import { availableParallelism, loadavg } from "node:os"
import { table } from "../../../bench/Table.ts"
import { switchFlag, withFallback } from "../../../src/cli/terminal/Flags.ts"
import * as CommandLine from "../../support/CommandLine.ts"
import * as Home from "./Home.ts"
import * as Lives from "./Lives.ts"
import { everyStep } from "./Scenarios.ts"

const flags = await CommandLine.read({
  command: "npm run kills --",
  about: "Kills real processes, and checks that nothing is lost, invented or reordered. Exit code 1 on a violation.",
  options: {
    count: withFallback(CommandLine.whole("count"), "kills at random moments", 500),
    minutes: withFallback(CommandLine.whole("minutes"), "no further kill after this time", 30),
    seed: CommandLine.optional(
      CommandLine.whole("seed", 0),
      "determines the moments and the world (default: random)"
    ),
    everyStep: switchFlag("every-step", "kill before and after every durable step of short runs instead"),
    json: switchFlag("json", "print the result as JSON")
  }
})
const { count: kills, seed = Home.seed } = flags

/** ms from the start of a process to its first committed page. */
const slowest = 5000

/** Progress goes to stderr; the result goes to stdout. */
const say = (text: string) => process.stderr.write(`${text}\n`)

const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

const reportOf = ({ claims, digests, events, exitCode, findings, follower, oracle, pending, world }: Lives.Outcome) => {
  const differences = oracle.differences(world, pending)
  const recoveries = findings.lives.flatMap(({ recovery }) => recovery ?? []).sort((one, other) => one - other)
  const where = Map.groupBy(findings.lives, ({ after }) => after)
  const rewritten = [...follower.seen].filter(([position, seen]) => digests.get(position) !== seen).length
  const count = (pattern: RegExp) => oracle.breaches.filter((breach) => pattern.test(breach)).length
  const report = {
    seed,
    kills: findings.lives.length,
    where: Object.fromEntries(
      [...where].sort(([, one], [, other]) => other.length - one.length).map(([after, lives]) => [
        after,
        { kills: lives.length, inTransaction: lives.filter(({ isWriting }) => isWriting).length }
      ])
    ),
    approvalsKilled: findings.approvals,
    records: world.size,
    events: events.length,
    pending: pending.size,
    lost: differences.filter(({ why }) => why !== "not in the world").length,
    ghosts: differences.filter(({ why }) => why === "not in the world").length,
    doubles: count(/event id was used before|nothing changed/) + follower.complaints.length + rewritten,
    outOfOrder: count(/follows version|follows position|previous|did not exist|already existed/),
    claims: claims.read,
    falseClaims: claims.broken.length,
    breaches: [...oracle.breaches.slice(0, 5), ...claims.broken.slice(0, 5)],
    recovery: {
      starts: recoveries.length,
      p50: quantile(recoveries, 0.5),
      p95: quantile(recoveries, 0.95),
      max: recoveries.at(-1) ?? 0
    },
    exitCode,
    // of the last 15 minutes: on a busy machine every recovery is slow
    loadPerCore: Math.round((loadavg()[2] ?? 0) * 10 / availableParallelism()) / 10
  }
  const { doubles, falseClaims, ghosts, lost, outOfOrder, recovery } = report
  const faults = lost + ghosts + doubles + outOfOrder + falseClaims + oracle.breaches.length
  return { ...report, ok: faults === 0 && recovery.max < slowest && exitCode === 0 }
}

const verdictOf = ({ breaches, exitCode, ok, recovery, ...report }: ReturnType<typeof reportOf>): string => {
  if (ok) return "no violation"
  const faults = [
    ...breaches,
    ...(["lost", "ghosts", "doubles", "outOfOrder"] as const).filter((name) => report[name] > 0),
    ...(recovery.max < slowest ? [] : [`a recovery took ${recovery.max} ms, more than ${slowest}`]),
    ...(exitCode === 0 ? [] : [`the last process ended with ${exitCode}`])
  ]
  return `violations: ${faults.join("; ")}`
}

const text = (report: ReturnType<typeof reportOf>): string =>
  [
    table(["last durable step before the kill", "kills", "inside a transaction"], [
      ...Object.entries(report.where).map(([after, { inTransaction, kills }]) => [
        after,
        String(kills),
        String(inTransaction)
      ]),
      ["**all**", String(report.kills), ""]
    ]),
    "",
    table(["", ""], [
      ["events", String(report.events)],
      ["records at the end", String(report.records)],
      ["of these pending", String(report.pending)],
      ["holds approved right before a kill", String(report.approvalsKilled)],
      ["lost", String(report.lost)],
      ["ghosts", String(report.ghosts)],
      ["doubles", String(report.doubles)],
      ["versions out of order", String(report.outOfOrder)],
      ["`complete_to` read from a running process / of these wrong", `${report.claims} / ${report.falseClaims}`],
      ["starts that reached a page", String(report.recovery.starts)],
      [
        "recovery, process start to first page committed: p50 / p95 / max",
        `${report.recovery.p50} / ${report.recovery.p95} / ${report.recovery.max} ms`
      ],
      ["load per core, last 15 minutes", String(report.loadPerCore)]
    ]),
    "",
    `seed ${report.seed}: ${verdictOf(report)}`
  ].join("\n")

const startedAt = Date.now()
say(`seed ${flags.everyStep ? Home.seed : seed}`)
const isEnough = () => Date.now() - startedAt > flags.minutes * 60_000
const elapsed = () => `after ${Math.round((Date.now() - startedAt) / 1000)} s`

const atRandom = Effect.gen(function*() {
  const report = reportOf(
    yield* Lives.run({
      seed,
      kills,
      integrations: 3,
      speed: 150,
      lifetime: [300, 1200],
      isEnough,
      onDeath: ({ after, recovery }, number) =>
        say(
          `${number + 1}/${kills} ${elapsed()}: ${after}${recovery === null ? "" : `, first page after ${recovery} ms`}`
        )
    })
  )
  console.log(flags.json ? JSON.stringify(report, null, 2) : text(report))
  return report.ok
})

const atEveryStep = Effect.gen(function*() {
  const deaths: Array<{ readonly scenario: string; readonly at: string; readonly problems: ReadonlyArray<string> }> = []
  yield* everyStep((scenario, { n, side }, { diedAt, problems }) => {
    if (diedAt !== null || problems.length > 0) deaths.push({ scenario, at: diedAt ?? "the end", problems })
    say(`${elapsed()}: ${scenario}, ${side} step ${n} ${diedAt ?? "(not reached)"}: ${problems[0] ?? "ok"}`)
  }, isEnough)
  const rows = [...Map.groupBy(deaths, ({ scenario }) => scenario)].map(([scenario, own]) => ({
    scenario,
    kinds: Object.fromEntries([...Map.groupBy(own, ({ at }) => at)].map(([at, some]) => [at, some.length])),
    kills: own.length,
    violations: own.filter(({ problems }) => problems.length > 0).length
  }))
  const shown = table(
    ["scenario", "killed before and after", "kills", "violations"],
    rows.map(({ kills, kinds, scenario, violations }) => [
      scenario,
      Object.entries(kinds).map(([kind, count]) => `${kind} ${count}`).join(", "),
      String(kills),
      String(violations)
    ])
  )
  console.log(flags.json ? JSON.stringify(rows, null, 2) : shown)
  return rows.every(({ violations }) => violations === 0)
})

const ok = await Effect.runPromise(Effect.scoped(flags.everyStep ? atEveryStep : atRandom))
process.exitCode = ok ? 0 : 1
