/**
 * Finds out, before anything is started or while it runs, what would keep Rollcall from working, and says what to do.
 * Hides in which order things are asked and what each answer means for an operator.
 *
 * Invariants
 * 1. Nothing is written, and nobody's ownership is taken
 *
 * Gotchas
 * - An account that does not answer, or refuses the key, is told once: its integrations are not asked then.
 * - Each model is asked for what changed since now: the smallest question that shows permission and support.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { existsSync } from "node:fs"
import { statfs } from "node:fs/promises"
import { createServer } from "node:net"
import { dirname, resolve } from "node:path"
import { discoverModels } from "../../capture/schedule/ModelDiscovery.ts"
import { isStreamModel, type Model, type StreamModel, streamModels } from "../../domain/Model.ts"
import type { SinkError } from "../../publish/Sink.ts"
import { type Page, Source } from "../../source/Source.ts"
import type { StoreError } from "../../store/Store.ts"
import { print } from "../Flags.ts"
import { paint } from "../terminal/Terminal.ts"
import { accountErrors, checkRequest, type CheckResult, harmlessErrors, ok, problem, warning } from "./CheckResult.ts"
import * as PluginChecks from "./PluginChecks.ts"

interface Integration {
  readonly id: string
  readonly account: string
  readonly models: "auto" | ReadonlyArray<Model>
}

export interface KafkaInspection {
  /** Topics that are missing and can be made. */
  readonly missing: ReadonlyArray<string>
  /** Topics of which some partitions stay unused. */
  readonly unusedPartitions: ReadonlyArray<
    { readonly topic: string; readonly partitions: number; readonly used: number }
  >
  /** Why this store would not be let to publish, and what to do; null when it would. */
  readonly blocker: { readonly message: string; readonly hint: string } | null
  /** Why what Kafka holds cannot be of this store; null when it is. */
  readonly divergence: string | null
}

export interface DoctorInput {
  /** Names and base addresses. */
  readonly accounts: Readonly<Record<string, { readonly url: string }>>
  readonly integrations: ReadonlyArray<Integration>
  readonly store: {
    readonly name: string
    /** Absent where it is not on this machine's disk. */
    readonly file?: string
    readonly inspect: Effect.Effect<{ readonly exists: boolean; readonly locked: boolean }, StoreError>
  }
  /** Where the operating API listens. */
  readonly http: { readonly host: string; readonly port: number }
  /** null without Kafka. */
  readonly kafka: {
    readonly brokers: ReadonlyArray<string>
    readonly inspect: Effect.Effect<KafkaInspection, SinkError | StoreError, Source>
  } | null
  readonly plugins: PluginChecks.Plugins
}

const noticeableSkew = Duration.seconds(5)
const mebibyte = 1024 * 1024
const freeSpace = { enough: 1024 * mebibyte, least: 100 * mebibyte }

// ---- configuration ------------------------------------------------------------------------------------------------

interface ConfigurationFault {
  readonly where: string
  readonly message: string
  readonly hint: string
}

const faultResult = ({ hint, message, where }: ConfigurationFault): CheckResult =>
  problem("configuration", `${where} ${message}`, hint)

const checkConfiguration = ({ accounts, integrations }: DoctorInput): CheckResult =>
  integrations.length === 0
    ? warning(
      "configuration",
      "no integration is configured, so nothing is read",
      "Set ROLLCALL_INTEGRATIONS to ids such as greenhouse:acme, or list them in the configuration file"
    )
    : ok("configuration", `accounts: ${Object.keys(accounts).length}, integrations: ${integrations.length}`)

// ---- accounts and integrations ------------------------------------------------------------------------------------

const checkAccountAccess = Effect.fnUntraced(function*(name: string, url: string) {
  const { read } = yield* Source
  const check = `account ${name}`
  const catalogue = yield* checkRequest(
    check,
    read({ account: name, integration: null, read: "tools", params: { category: "ats" }, priority: "poll" }).pipe(
      Effect.catchTag("Invalid", Effect.die)
    ),
    (tag) => accountErrors.has(tag) ? "problem" : "warning"
  )
  return Result.getOrElse(Result.map(catalogue, () => ok(check, `${url} answers and takes the key`)), identity)
})

/** How far this machine's clock is ahead of the API's, ms; `Date` names the second that is running. */
const skewOf = ({ duration, requestedAt, serverTime }: Page): number | null =>
  serverTime === null ? null : requestedAt + duration / 2 - (serverTime + 500)

const checkStream = Effect.fnUntraced(function*({ account, id: integration }: Integration, model: StreamModel) {
  const { page } = yield* Source
  const check = `stream ${integration}/${model}`
  const updatedAfter = yield* Clock.currentTimeMillis
  const answer = yield* checkRequest(
    check,
    page({ account, integration, model, priority: "poll", cursor: null, updatedAfter, ids: null }),
    (tag) => harmlessErrors.has(tag) ? "warning" : "problem"
  )
  return Result.match(answer, {
    onFailure: (finding) => ({ finding, skew: null }),
    onSuccess: (page) => ({ finding: ok(check, "can be read"), skew: skewOf(page) })
  })
})

const checkClock = (account: string, skews: ReadonlyArray<number>): ReadonlyArray<CheckResult> => {
  const [skew] = skews.toSorted((a, b) => Math.abs(a) - Math.abs(b))
  if (skew === undefined) return []
  const check = `clock ${account}`
  const size = Duration.millis(Math.round(Math.abs(skew) / 1000) * 1000)
  return [
    Duration.isLessThan(size, noticeableSkew)
      ? ok(check, "agrees with the API's")
      : warning(
        check,
        `is ${Duration.format(size)} ${skew > 0 ? "ahead of" : "behind"} the API's`,
        "Synchronise this machine's clock (NTP); nothing is lost by it, but times in events and delays are wrong"
      )
  ]
}

const checkIntegrations = Effect.fnUntraced(function*(patient: DoctorInput, name: string) {
  const integrations = patient.integrations.filter(({ account }) => account === name)
  const discovered = yield* discoverModels(integrations.filter(({ models }) => models === "auto"))
  const streams = integrations.flatMap((integration) => {
    const models = integration.models === "auto" ? discovered.get(integration.id) : integration.models
    return (models?.filter(isStreamModel) ?? streamModels).map((model) => ({ integration, model }))
  })
  const left = [...discovered].flatMap(([id, models]) => {
    const others = streamModels.filter((model) => !models.includes(model))
    return others.length === 0 ? [] : [ok(`integration ${id}`, `its tool does not offer ${others.join(", ")}`)]
  })
  const answers = yield* Effect.forEach(streams, ({ integration, model }) => checkStream(integration, model), {
    concurrency: 8
  })
  const skews = answers.map(({ skew }) => skew).filter((skew) => skew !== null)
  return [...left, ...answers.map(({ finding }) => finding), ...checkClock(name, skews)]
})

const checkAccountAndIntegrations = Effect.fnUntraced(function*(patient: DoctorInput, name: string, url: string) {
  const own = yield* checkAccountAccess(name, url)
  if (own.status === "problem") return [own]
  const ids = patient.integrations.flatMap(({ account, id }) => account === name ? [id] : [])
  const reads = yield* PluginChecks.checkReads(patient.plugins, name, ids)
  return [own, ...(yield* checkIntegrations(patient, name)), ...reads]
})

// ---- store, disk, port, Kafka -------------------------------------------------------------------------------------

const checkStore = ({ inspect, name }: DoctorInput["store"]) =>
  Effect.match(inspect, {
    onFailure: ({ reason }) => problem("store", `${name} cannot be used`, reason.hint),
    onSuccess: ({ exists, locked }) =>
      locked
        ? problem("store", `${name} is locked by another program`, "End what holds it, such as a shell or a backup")
        : ok("store", exists ? `${name} can be read and written` : `${name} holds no store yet, and one can be made`)
  })

const checkDisk = (file: string) =>
  Effect.promise(async (): Promise<ReadonlyArray<CheckResult>> => {
    const directory = dirname(resolve(file))
    if (!existsSync(directory)) return []
    const { bavail, bsize } = await statfs(directory)
    const free = bavail * bsize
    const message = `${Math.floor(free / mebibyte).toLocaleString("en")} MiB are free in ${directory}`
    const hint = "Make room: a store that cannot grow stops reading and publishing"
    if (free < freeSpace.least) return [problem("disk", message, hint)]
    return [free < freeSpace.enough ? warning("disk", message, hint) : ok("disk", message)]
  })

/** Listens for a moment. A running Rollcall has its port rightly, so that a taken one is no problem by itself. */
const checkPort = ({ host, port }: DoctorInput["http"]) =>
  Effect.callback<CheckResult>((resume) => {
    const server = createServer()
    server.once("error", (error) => {
      const taken = "code" in error && error.code === "EADDRINUSE"
      const address = `port ${port} on ${host}`
      const hint = "choose another with ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT, or http in the configuration file"
      resume(Effect.succeed(
        taken
          ? warning("http", `${address} is in use`, `If it is not by Rollcall itself, ${hint}`)
          : problem("http", `${address} cannot be listened on: ${error.message}`, hint)
      ))
    })
    server.listen(
      { host, port },
      () => server.close(() => resume(Effect.succeed(ok("http", `${host}:${port} is free`))))
    )
  })

const adopt = "Bring back the store that published last, or stop Rollcall and run `rollcall store adopt`"
const widenedHint =
  "So each record's events stay in order. To use all of them, stop Rollcall and run `rollcall store adopt`, which publishes everything anew"

const checkKafka = ({ brokers, inspect }: NonNullable<DoctorInput["kafka"]>) =>
  Effect.match(inspect, {
    onFailure: ({ reason }): ReadonlyArray<CheckResult> => [problem("kafka", reason.message, reason.hint)],
    onSuccess: ({ divergence, missing, blocker, unusedPartitions }) => [
      missing.length === 0
        ? ok("kafka", `${brokers.join(",")} answers and has every topic`)
        : ok("kafka", `${brokers.join(",")} answers; topics that will be made: ${missing.join(", ")}`),
      ...unusedPartitions.map(({ partitions, topic, used }) =>
        warning("kafka", `topic ${topic} has ${partitions} partitions, of which ${used} are used`, widenedHint)
      ),
      ...(blocker === null ? [] : [problem("kafka", blocker.message, blocker.hint)]),
      ...(divergence === null
        ? []
        : [problem("kafka", `holds what this store did not publish: ${divergence}`, adopt)])
    ]
  })

// ---- the whole ----------------------------------------------------------------------------------------------------

/** The groups in which findings are told, each as soon as it is complete. */
const checkGroups = (patient: DoctorInput): ReadonlyArray<Effect.Effect<ReadonlyArray<CheckResult>, never, Source>> => [
  Effect.succeed([checkConfiguration(patient)]),
  Effect.succeed(PluginChecks.checkConfigurations(patient.plugins)),
  ...Object.entries(patient.accounts).map(([name, { url }]) => checkAccountAndIntegrations(patient, name, url)),
  Effect.map(checkStore(patient.store), (finding) => [finding]),
  ...(patient.store.file === undefined ? [] : [checkDisk(patient.store.file)]),
  Effect.map(checkPort(patient.http), (finding) => [finding]),
  ...(patient.kafka === null ? [] : [checkKafka(patient.kafka)])
]

/** Something is wrong; what has been told. */
export class ProblemsFound extends Schema.TaggedError<ProblemsFound>()("ProblemsFound", { problems: Schema.Number }) {
  override get message(): string {
    return this.problems === 1 ? "there is a problem" : `there are ${this.problems} problems`
  }
}

const colors = { ok: "green", warning: "yellow", problem: "red" } as const
const sentence = (text: string): string =>
  text.replace(/\.$/, "").replace(/^[a-z]+(?= )/, (word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)

/** `problem  account eu: status 401. Check the key` */
const resultLine = ({ check, hint, message, status }: CheckResult): string =>
  `${paint(colors[status], status.padEnd(7))}  ${check}: ${message}${hint === null ? "" : `. ${sentence(hint)}`}`

interface Options {
  readonly json: boolean
}

/** Tells line by line, or as one JSON object; fails if anything is wrong. */
const report = Effect.fnUntraced(function*<R>(
  groups: ReadonlyArray<Effect.Effect<ReadonlyArray<CheckResult>, never, R>>,
  { json }: Options
): Effect.fn.Return<void, ProblemsFound, R> {
  const findings: Array<CheckResult> = []
  for (const group of groups) {
    const found = yield* group
    findings.push(...found)
    if (!json && found.length > 0) yield* print(found.map(resultLine).join("\n"))
  }
  const problems = findings.filter(({ status }) => status === "problem").length
  if (json) yield* print(JSON.stringify({ ok: problems === 0, checks: findings }))
  if (problems > 0) yield* new ProblemsFound({ problems })
})

/** Asks for everything. */
export const runChecks = (patient: DoctorInput, options: Options): Effect.Effect<void, ProblemsFound, Source> =>
  report(checkGroups(patient), options)

/** With a faulty configuration nothing else can be asked for. */
export const reportInvalidConfig = (
  faults: ReadonlyArray<ConfigurationFault>,
  options: Options
): Effect.Effect<void, ProblemsFound> => report([Effect.succeed(faults.map(faultResult))], options)
