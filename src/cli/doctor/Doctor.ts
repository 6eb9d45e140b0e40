/**
 * Looks for problems that would keep Rollcall from working, before the start or while it is running, and explains how to fix them.
 *
 * Invariants
 * 1. The checks write nothing and do not take ownership of the store
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { existsSync } from "node:fs"
import { statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import {
  kafkaOptions,
  loadKafka,
  resolveConfig,
  sourceLayer,
  storeInspector,
  withSettings
} from "../../app/Composition.ts"
import * as Config from "../../config/Config.ts"
import type { KafkaSettings } from "../../config/KafkaSettings.ts"
import type { Fault, RawConfig } from "../../config/RawConfig.ts"
import { findIneffective, findUnknownVariables } from "../../config/UnknownNames.ts"
import { describe, type Proxies, proxyFor } from "../../network/Proxies.ts"
import { findDivergence } from "../../publish/ResumePoint.ts"
import { findPublishedElsewhere } from "../../publish/Sink.ts"
import type { Source } from "../../source/Source.ts"
import type { Inspection } from "../../store/sql/Inspection.ts"
import { findExposed } from "../../store/sqlite/FilePermissions.ts"
import { missingKeys, type StoreError } from "../../store/Store.ts"
import { checkAccountAndIntegrations } from "./AccountChecks.ts"
import { checkAddress, type OwnProcess } from "./AddressCheck.ts"
import { type CheckResult, ok, problem, report, warning } from "./CheckResult.ts"
import { checkFleet } from "./FleetChecks.ts"
import * as PluginChecks from "./PluginChecks.ts"
import { checkTelemetry } from "./TelemetryChecks.ts"

/** The configuration to check, with the integrations in which each plugin is on. */
interface DoctorInput extends Config.Settings {
  /** Settings that have no effect: unknown variables, redaction rules of unknown fields, and unknown integrations of plugins. */
  readonly unknown: ReadonlyArray<Fault>
  readonly rawConfig: RawConfig
  readonly uses: ReadonlyArray<Config.PluginUse>
}

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

// ---- proxies ------------------------------------------------------------------------------------------------------

interface Way {
  readonly name: string
  readonly url: string
  readonly proxies: Proxies
}

/** Which way the requests to each configured server go. Nothing if no proxy is configured. */
const checkProxies = ({ accounts, kafka, proxies, telemetry }: DoctorInput): ReadonlyArray<CheckResult> => {
  const servers = {
    "the schema registry": kafka?.schemaRegistry?.url,
    "the token endpoint": kafka?.sasl?.mechanism === "oauthbearer" ? kafka.sasl.endpoint?.url : undefined,
    traces: telemetry?.traces?.url,
    metrics: telemetry?.metrics?.url
  }
  const ways: ReadonlyArray<Way> = [
    ...Object.entries(accounts).map(([name, { proxies: own, url }]) => ({
      name: `account ${name}`,
      url,
      proxies: own ?? proxies
    })),
    ...Object.entries(servers).flatMap(([name, url]) => url === undefined ? [] : [{ name, url, proxies }])
  ]
  const isConfigured = [proxies, ...ways.map((way) => way.proxies)].some(({ http, https }) => (http ?? https) !== null)
  if (!isConfigured) return []
  return ways.map(({ name, proxies, url }) => {
    const proxy = proxyFor(url, proxies)
    const way = proxy === null ? "directly" : `through the proxy ${describe(proxy)}`
    return ok("proxy", `requests of ${name} go to ${new URL(url).origin} ${way}`)
  })
}

// ---- store, disk, address, Kafka -------------------------------------------------------------------------------------

const checkStore = (
  { encryptionKeys, store }: DoctorInput,
  inspected: Result.Result<Inspection, StoreError>,
  own: OwnProcess | null
) => {
  const unusable = ({ reason }: StoreError) => problem("store", `${store.name} cannot be used`, reason.hint)
  return Result.match(inspected, {
    onFailure: unusable,
    onSuccess: ({ exists, keys, locked, log }) => {
      const missing = keys.filter((key) => !encryptionKeys.some(({ id }) => id === key))
      if (missing.length > 0) return unusable(missingKeys(missing))
      if (Number(log?.otherWorlds ?? 0) > 0) {
        return problem(
          "store",
          "the API's data is a different world than the one in this store",
          "The sandbox was started again: start Rollcall with a new store"
        )
      }
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
}

/** The store and the address of the operating API, together: a running process explains why both are in use. */
const checkStoreAndAddress = Effect.fnUntraced(function*(input: DoctorInput) {
  const { http, store } = input
  const inspected = yield* Effect.result(Effect.flatMap(storeInspector(store), ({ inspect }) => inspect))
  const { own, results } = yield* checkAddress(http, Result.isSuccess(inspected) ? inspected.success.log : null)
  const { fleet, openCircuits } = Result.getOrElse(inspected, () => ({ fleet: null, openCircuits: [] }))
  return [
    checkStore(input, inspected, own),
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
      kafkaOptions(own, (yield* resolveConfig(input, input.rawConfig)).certainStreams),
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
  Effect.succeed(checkProxies(input)),
  ...Object.entries(input.accounts).map(([name, { url }]) => checkAccountAndIntegrations(input, name, url)),
  checkStoreAndAddress(input),
  ...(input.store._tag === "Sqlite" ? checkFile(input.store.file) : []),
  ...(input.kafka === null ? [] : [checkKafka(input, input.kafka)]),
  checkTelemetry(input.telemetry)
]

/** Short, because an operator waits for the result. */
const timeouts = { retryBase: "20 millis", timeout: "5 seconds" } as const

/** Runs all checks. The faults of an invalid configuration are reported alone, because they make all other checks impossible. */
export const examine = Effect.fnUntraced(function*(rawConfig: RawConfig, json: boolean) {
  const variables = yield* findUnknownVariables(rawConfig, process.env)
  const checked = Config.check(rawConfig)
  if (Result.isFailure(checked)) {
    const faults = checked.failure.faults.map(faultResult)
    return yield* report([Effect.succeed([...faults, ...variables.map(unknownResult)])], json)
  }
  const settings = checked.success
  const unknown = [...variables, ...findIneffective(rawConfig, settings)]
  const uses = yield* Config.findPluginUses(settings)
  yield* report(checkGroups({ ...settings, rawConfig, unknown, uses }), json).pipe(
    Effect.provide(sourceLayer({ ...settings, ...timeouts })),
    withSettings(settings)
  )
})
