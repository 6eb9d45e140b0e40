/**
 * Looks for problems that would keep Rollcall from working, before the start or while it is running, and explains how to fix them.
 *
 * Invariants
 * 1. The checks write nothing and do not take ownership of the store
 *
 * Gotchas
 * - An account that does not answer or refuses the key is reported once, and its integrations are not checked.
 * - For each model, changes since now are requested. That is the smallest request that shows whether the model is permitted and supported.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { existsSync } from "node:fs"
import { statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { kafkaOptions, loadKafka, resolveConfig, storeInspector } from "../../app/Composition.ts"
import { discoverModels } from "../../capture/schedule/ModelDiscovery.ts"
import * as Config from "../../config/Config.ts"
import type { Integration } from "../../config/IntegrationSettings.ts"
import type { KafkaSettings } from "../../config/KafkaSettings.ts"
import type { Fault, RawConfig } from "../../config/RawConfig.ts"
import type { StoreLocation } from "../../config/StoreSettings.ts"
import { isStreamModel, type StreamModel, streamModels } from "../../domain/Model.ts"
import { findDivergence } from "../../publish/ResumePoint.ts"
import { findPublishedElsewhere } from "../../publish/Sink.ts"
import { type Page, Source } from "../../source/Source.ts"
import type { Inspection } from "../../store/Inspection.ts"
import { findExposed } from "../../store/sqlite/FilePermissions.ts"
import type { StoreError } from "../../store/Store.ts"
import { oneLine, paint } from "../../telemetry/TerminalText.ts"
import { CommandError, print } from "../Process.ts"
import { checkAddress, type OwnProcess } from "./AddressCheck.ts"
import { accountErrors, checkRequest, type CheckResult, harmlessErrors, ok, problem, warning } from "./CheckResult.ts"
import { checkFleet } from "./FleetChecks.ts"
import * as PluginChecks from "./PluginChecks.ts"
import { checkTelemetry } from "./TelemetryChecks.ts"

/** The configuration to check, with the integrations in which each plugin is on. */
interface DoctorInput extends Config.Settings {
  /** Unknown variables that are probably meant for Rollcall, and redaction rules of unknown fields. */
  readonly unknown: ReadonlyArray<Fault>
  readonly rawConfig: RawConfig
  readonly uses: ReadonlyArray<Config.PluginUse>
}

const noticeableSkew = Duration.seconds(5)
const mebibyte = 1024 * 1024
const freeSpace = { enough: 1024 * mebibyte, least: 100 * mebibyte }

// ---- configuration ------------------------------------------------------------------------------------------------

const faultResult = ({ hint, message, where }: Fault): CheckResult =>
  problem("configuration", `${where} ${message}`, hint)

const unknownResult = ({ hint, message, where }: Fault): CheckResult =>
  warning("configuration", `${where} ${message}`, hint)

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
  const catalog = yield* checkRequest(
    check,
    read({ account: name, integration: null, read: "tools", params: { category: "ats" }, priority: "poll" }).pipe(
      Effect.catchTag("Invalid", Effect.die)
    ),
    (tag) => accountErrors.has(tag) ? "problem" : "warning"
  )
  return Result.getOrElse(Result.map(catalog, () => ok(check, `${url} answers and accepts the key`)), identity)
})

/** How far this machine's clock is ahead of the API's, in ms. Adds 500 ms because the header `Date` is cut to whole seconds. */
const skewOf = ({ duration, requestedAt, serverTime }: Page): number | null =>
  serverTime === null ? null : requestedAt + duration / 2 - (serverTime + 500)

const checkStream = Effect.fnUntraced(function*({ account, id: integration }: Integration, model: StreamModel) {
  const { page } = yield* Source
  const check = `stream ${integration}/${model}`
  const updatedAfter = yield* Clock.currentTimeMillis
  const response = yield* checkRequest(
    check,
    page({ account, integration, model, priority: "poll", cursor: null, updatedAfter, ids: null }),
    (tag) => harmlessErrors.has(tag) ? "warning" : "problem"
  )
  return Result.match(response, {
    onFailure: (result) => ({ result, skew: null }),
    onSuccess: (page) => ({ result: ok(check, "can be read"), skew: skewOf(page) })
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
        "Synchronize this machine's clock (NTP); no change is lost, but times in events and measured delays are wrong"
      )
  ]
}

const checkIntegrations = Effect.fnUntraced(function*(input: DoctorInput, name: string) {
  const integrations = input.integrations.filter(({ account }) => account === name)
  const discovered = yield* discoverModels(integrations.filter(({ models }) => models === "auto"))
  const streams = integrations.flatMap((integration) => {
    const models = integration.models === "auto" ? discovered.get(integration.id)?.models : integration.models
    return (models?.filter(isStreamModel) ?? streamModels).map((model) => ({ integration, model }))
  })
  const unsupported = [...discovered].flatMap(([id, { models }]) => {
    const others = streamModels.filter((model) => !models.includes(model))
    return others.length === 0 ? [] : [ok(`integration ${id}`, `its tool does not offer ${others.join(", ")}`)]
  })
  const checked = yield* Effect.forEach(streams, ({ integration, model }) => checkStream(integration, model), {
    concurrency: 8
  })
  const skews = checked.map(({ skew }) => skew).filter((skew) => skew !== null)
  return [...unsupported, ...checked.map(({ result }) => result), ...checkClock(name, skews)]
})

const checkAccountAndIntegrations = Effect.fnUntraced(function*(input: DoctorInput, name: string, url: string) {
  const own = yield* checkAccountAccess(name, url)
  if (own.status === "problem") return [own]
  const ids = input.integrations.flatMap(({ account, id }) => account === name ? [id] : [])
  const reads = yield* PluginChecks.checkReads(input, name, ids)
  return [own, ...(yield* checkIntegrations(input, name)), ...reads]
})

// ---- store, disk, address, Kafka -------------------------------------------------------------------------------------

const checkStore = (store: StoreLocation, inspected: Result.Result<Inspection, StoreError>, own: OwnProcess | null) =>
  Result.match(inspected, {
    onFailure: ({ reason }) => problem("store", `${store.name} cannot be used`, reason.hint),
    onSuccess: ({ exists, locked }) => {
      // A running process locks the store only for moments, and its health check shows whether another program locks it.
      if (locked && own?.checks.find(({ name }) => name === "store")?.ok !== true) {
        return problem(
          "store",
          `${store.name} is locked by another program`,
          "Stop the program that locks it, such as a shell or a backup"
        )
      }
      return ok(
        "store",
        exists ? `${store.name} can be read and written` : `there is no store at ${store.name} yet; it will be created`
      )
    }
  })

/** The store and the address of the operating API, together: a running process explains why both are in use. */
const checkStoreAndAddress = Effect.fnUntraced(function*({ http, store }: DoctorInput) {
  const inspected = yield* Effect.result(Effect.flatMap(storeInspector(store), ({ inspect }) => inspect))
  const { own, results } = yield* checkAddress(http, Result.isSuccess(inspected) ? inspected.success.log : null)
  const { fleet, openCircuits } = Result.getOrElse(inspected, () => ({ fleet: null, openCircuits: [] }))
  return [
    checkStore(store, inspected, own),
    ...results,
    ...checkFleet(fleet),
    ...PluginChecks.checkCircuits(openCircuits)
  ]
})

const checkPermissions = (file: string): ReadonlyArray<CheckResult> =>
  findExposed(file).map(({ hint, message }) => warning("store", message, hint))

const checkDisk = (file: string) =>
  Effect.promise(async (): Promise<ReadonlyArray<CheckResult>> => {
    const directory = dirname(resolve(file))
    if (!existsSync(directory)) return []
    const { bavail, bsize } = await statfs(directory)
    const free = bavail * bsize
    const message = `${Math.floor(free / mebibyte).toLocaleString("en")} MiB are free in ${directory}`
    const hint = "Free disk space: if the store cannot grow, Rollcall stops reading and publishing"
    if (free < freeSpace.least) return [problem("disk", message, hint)]
    return [free < freeSpace.enough ? warning("disk", message, hint) : ok("disk", message)]
  })

const checkFile = (file: string) =>
  file === ":memory:" ? [] : [Effect.sync(() => checkPermissions(file)), checkDisk(file)]

/** Compares the topics in Kafka with the store. Reads only the log state and one chain value from the store. */
const inspectKafka = (input: DoctorInput, own: KafkaSettings) =>
  Effect.gen(function*() {
    const kafka = yield* loadKafka
    const { chainAt, inspect } = yield* storeInspector(input.store)
    const log = yield* Effect.option(Effect.map(inspect, ({ log }) => log))
    const { published, ...topics } = yield* kafka.inspect(
      kafkaOptions(own, (yield* resolveConfig(input, input.rawConfig)).streams),
      Option.getOrElse(log, () => "unknown" as const)
    )
    if (Option.isNone(log) || log.value === null || topics.blocker !== null) return { ...topics, divergence: null }
    // a store that is not migrated yet has no chain; the comparison is made after its migration
    const chain = yield* Effect.option(chainAt(published?.position ?? 0))
    const diverged = Option.isNone(chain) ? null : findDivergence(published, { ...log.value, chain: chain.value })
    return { ...topics, divergence: diverged ?? findPublishedElsewhere(log.value, published, log.value) }
  })

const adoptHint = "Restore the store that published last, or stop Rollcall and run `rollcall store adopt`"
const unusedPartitionsHint =
  "This keeps the events of each record in order. To use all partitions, stop Rollcall and run `rollcall store " +
  "adopt`, which publishes every record again"

const deviationHint =
  "The settings only apply to topics that Rollcall creates. Change the topic with Kafka's own tools, or change the setting; " +
  "partitions that you add are used after `rollcall store adopt`"

const checkKafka = (input: DoctorInput, own: KafkaSettings) =>
  Effect.match(inspectKafka(input, own), {
    onFailure: ({ reason }): ReadonlyArray<CheckResult> => [problem("kafka", reason.message, reason.hint)],
    onSuccess: ({ deviations, divergence, missing, blocker, unusedPartitions }) => [
      missing.length === 0
        ? ok("kafka", `${own.brokers.join(",")} answers and has every topic`)
        : ok("kafka", `${own.brokers.join(",")} answers; missing topics that will be created: ${missing.join(", ")}`),
      ...deviations.map(({ actual, setting, topic, wanted }) =>
        warning("kafka", `topic ${topic} has ${actual} for kafka.${setting}, which is set to ${wanted}`, deviationHint)
      ),
      ...unusedPartitions.map(({ partitions, topic, used }) =>
        warning("kafka", `topic ${topic} has ${partitions} partitions, of which ${used} are used`, unusedPartitionsHint)
      ),
      ...(blocker === null ? [] : [problem("kafka", blocker.message, blocker.hint)]),
      ...(divergence === null
        ? []
        : [problem("kafka", `has events that this store did not publish: ${divergence}`, adoptHint)])
    ]
  })

// ---- all checks ---------------------------------------------------------------------------------------------------

/** The groups in which results are reported, each as soon as it is complete. */
const checkGroups = (input: DoctorInput): ReadonlyArray<Effect.Effect<ReadonlyArray<CheckResult>, never, Source>> => [
  Effect.succeed([checkConfiguration(input), ...input.unknown.map(unknownResult)]),
  Effect.succeed(PluginChecks.checkConfigurations(input)),
  ...Object.entries(input.accounts).map(([name, { url }]) => checkAccountAndIntegrations(input, name, url)),
  checkStoreAndAddress(input),
  ...(input.store._tag === "Sqlite" ? checkFile(input.store.file) : []),
  ...(input.kafka === null ? [] : [checkKafka(input, input.kafka)]),
  checkTelemetry(input.telemetry)
]

const colors = { ok: "green", warning: "yellow", problem: "red" } as const
const sentence = (text: string): string =>
  text.replace(/\.$/, "").replace(/^[a-z]+(?= )/, (word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)

/** `problem  account eu: status 401. Check the key` */
const resultLine = ({ check, hint, message, status }: CheckResult): string =>
  oneLine(
    `${paint(colors[status], status.padEnd(7))}  ${check}: ${message}${hint === null ? "" : `. ${sentence(hint)}`}`
  )

const streamCheck = /^stream ([^/]+)\/(\S+)$/

/** Makes one result of the streams of an integration that have the same fault, so that the text stays short. */
const groupStreamFaults = (results: ReadonlyArray<CheckResult>): ReadonlyArray<CheckResult> =>
  [
    ...Map.groupBy(results, (result) => {
      const { check, hint, message, status } = result
      const [, integration] = streamCheck.exec(check) ?? []
      return status === "ok" || integration === undefined
        ? result
        : JSON.stringify([status, integration, message, hint])
    }).values()
  ].map((group) => {
    const first = group[0]!
    if (group.length === 1) return first
    const [, integration] = streamCheck.exec(first.check) ?? []
    const models = group.map(({ check }) => streamCheck.exec(check)?.[2])
    return { ...first, check: `integration ${integration} (${models.length} models: ${models.join(", ")})` }
  })

interface Options {
  readonly json: boolean
}

/** Prints the results line by line, or as one JSON object. Fails if there is a problem. */
const report = Effect.fnUntraced(function*<R>(
  groups: ReadonlyArray<Effect.Effect<ReadonlyArray<CheckResult>, never, R>>,
  { json }: Options
): Effect.fn.Return<void, CommandError, R> {
  const results: Array<CheckResult> = []
  for (const group of groups) {
    const finished = yield* group
    results.push(...finished)
    if (!json && finished.length > 0) yield* print(groupStreamFaults(finished).map(resultLine).join("\n"))
  }
  const isProblem = ({ status }: CheckResult) => status === "problem"
  const problems = groupStreamFaults(results).filter(isProblem).length
  if (json) yield* print(JSON.stringify({ ok: problems === 0, checks: results }))
  if (problems === 0) return
  const message = problems === 1 ? "1 check found a problem" : `${problems} checks found problems`
  return yield* new CommandError({ message })
})

/** Runs all checks. */
export const runChecks = Effect.fnUntraced(
  function*(
    settings: Config.Settings,
    rawConfig: RawConfig,
    unknown: ReadonlyArray<Fault>,
    options: Options
  ) {
    const uses = yield* Config.findPluginUses(settings)
    yield* report(checkGroups({ ...settings, rawConfig, unknown, uses }), options)
  }
)

/** Reports the faults of an invalid configuration, which make all other checks impossible. */
export const reportInvalidConfig = (
  faults: ReadonlyArray<Fault>,
  unknown: ReadonlyArray<Fault>,
  options: Options
): Effect.Effect<void, CommandError> =>
  report([Effect.succeed([...faults.map(faultResult), ...unknown.map(unknownResult)])], options)
