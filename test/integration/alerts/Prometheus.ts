/**
 * A real Prometheus server that scrapes real processes and evaluates the alerts of `deploy/prometheus/rules.yml`.
 *
 * Invariants
 * 1. The server belongs to its scope: its process and its data are removed when the scope closes
 * 2. Every wait ends after at most its time limit, with an error that names the alerts that fire
 *
 * Gotchas
 * - The expressions are those of the file. Only times are shorter: `for`, ranges, and thresholds that are seconds of waiting.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { freePort } from "../../support/services/FreePort.ts"
import { temporaryFolder } from "../../support/TemporaryFolder.ts"

const rulesFile = new URL("../../../deploy/prometheus/rules.yml", import.meta.url)

/** Why this machine cannot run Prometheus; null if it can. With `CI=true` a missing program is a failure. */
export const missing: string | null = (() => {
  try {
    for (const program of ["prometheus", "promtool"]) execFileSync(program, ["--version"], { stdio: "ignore" })
    return null
  } catch {
    return "no prometheus"
  }
})()
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need Prometheus: ${missing}`)

/** The rules with shorter times. */
export const quickRules = (): string => {
  const text = readFileSync(rulesFile, "utf8")
  return text
    .replaceAll(/^( +for:) \d+[mh]$/gm, "$1 1s")
    .replaceAll(/\[\d+m\]/g, "[10s]")
    .replaceAll(/(_seconds\)) > (?:30|300|900)$/gm, "$1 > 2")
}

interface Alert {
  readonly state: "pending" | "firing"
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

export interface Prometheus {
  /** Waits until these alerts fire, and returns one of each. */
  readonly fires: (...names: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<Alert>>
  /** Waits until none of these alerts fires. */
  readonly clears: (...names: ReadonlyArray<string>) => Effect.Effect<void>
  /** Waits until every target was scraped and no alert fires. */
  readonly quiet: Effect.Effect<void>
}

const limitMillis = 180_000
const pause = () => new Promise((resolve) => setTimeout(resolve, 200))

const configuration = (targets: ReadonlyArray<string>): string =>
  JSON.stringify({
    global: { scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" },
    rule_files: ["rules.yml"],
    scrape_configs: [{
      job_name: "rollcall",
      static_configs: [{ targets: targets.map((url) => new URL(url).host) }]
    }]
  })

/** `targets`: URLs of processes. */
export const start = (targets: ReadonlyArray<string>): Effect.Effect<Prometheus, never, Scope.Scope> =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    writeFileSync(join(folder, "rules.yml"), quickRules())
    // JSON is YAML
    writeFileSync(join(folder, "prometheus.yml"), configuration(targets))
    const port = yield* Effect.promise(freePort)
    const url = `http://127.0.0.1:${port}`
    let log = ""
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        const child = spawn("prometheus", [
          `--config.file=${join(folder, "prometheus.yml")}`,
          `--storage.tsdb.path=${join(folder, "data")}`,
          `--web.listen-address=127.0.0.1:${port}`,
          "--query.lookback-delta=5s",
          "--log.level=warn"
        ], { stdio: ["ignore", "ignore", "pipe"] })
        child.stderr.on("data", (chunk) => log += chunk)
        return child
      }),
      (child) =>
        Effect.promise(async () => {
          if (child.exitCode !== null) return
          const ended = once(child, "exit")
          child.kill("SIGKILL")
          await ended
        })
    )
    const get = async (path: string) => (await (await fetch(`${url}${path}`)).json() as { readonly data: never }).data
    const firing = async (): Promise<ReadonlyArray<Alert>> => {
      const { alerts } = await get("/api/v1/alerts") as { readonly alerts: ReadonlyArray<Alert> }
      return alerts.filter(({ state }) => state === "firing")
    }
    const namesOf = (alerts: ReadonlyArray<Alert>) => alerts.map(({ labels }) => labels["alertname"] ?? "")
    const until = (what: string, isReached: (names: ReadonlyArray<string>) => boolean) =>
      Effect.promise(async () => {
        const deadline = Date.now() + limitMillis
        for (;;) {
          const alerts = await firing().catch(() => null)
          if (alerts !== null && isReached(namesOf(alerts))) return alerts
          if (Date.now() > deadline) {
            throw new Error(`waited for ${what}; firing: ${JSON.stringify(alerts, null, 1)}\n${log}`)
          }
          await pause()
        }
      })
    const scraped = Effect.promise(async () => {
      const deadline = Date.now() + limitMillis
      for (;;) {
        const data = await get("/api/v1/targets").catch(() => null) as null | {
          readonly activeTargets: ReadonlyArray<{ readonly health: string }>
        }
        if (data?.activeTargets.every(({ health }) => health === "up") === true) return
        if (Date.now() > deadline) throw new Error(`the targets were not scraped: ${JSON.stringify(data)}\n${log}`)
        await pause()
      }
    })
    return {
      fires: (...names) =>
        Effect.map(
          until(`${names.join(", ")} to fire`, (firing) => names.every((name) => firing.includes(name))),
          (alerts) => names.map((name) => alerts.find(({ labels }) => labels["alertname"] === name)!)
        ),
      clears: (...names) =>
        Effect.asVoid(until(`${names.join(", ")} to end`, (firing) => !names.some((name) => firing.includes(name)))),
      quiet: Effect.andThen(scraped, Effect.asVoid(until("no alert to fire", (firing) => firing.length === 0)))
    }
  })
