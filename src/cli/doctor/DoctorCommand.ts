/** `rollcall doctor`: gives the checks of `Doctor.ts` the configuration and the adapters that it names. */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { kafkaOptions, loadKafka, resolveConfig, sourceLayer, storeInspector } from "../../app/Composition.ts"
import * as Config from "../../config/Config.ts"
import type { KafkaSettings } from "../../config/DeploymentSettings.ts"
import { loadRawConfig, type RawConfig } from "../../config/RawConfig.ts"
import { findDivergence } from "../../publish/ResumePoint.ts"
import { findPublishedElsewhere } from "../../publish/Sink.ts"
import { config, json } from "../Flags.ts"
import { withTerminalErrors } from "../Process.ts"

/** Short, because an operator waits for the result. */
const doctorTimeouts = { retryBase: "20 millis", timeout: "5 seconds" } as const

/** Compares the topics in Kafka with the store. Reads only the log state and one chain value from the store. */
const inspectKafka = (settings: Config.Settings, input: RawConfig, own: KafkaSettings) =>
  Effect.gen(function*() {
    const kafka = yield* loadKafka
    const { chainAt, inspect } = yield* storeInspector(settings.store)
    const log = yield* Effect.option(Effect.map(inspect, ({ log }) => log))
    const { published, ...topics } = yield* kafka.inspect(
      kafkaOptions(own, (yield* resolveConfig(settings, input)).streams),
      Option.getOrElse(log, () => "unknown" as const)
    )
    if (Option.isNone(log) || log.value === null || topics.blocker !== null) return { ...topics, divergence: null }
    // a store that is not migrated yet has no chain; the comparison is made after its migration
    const chain = yield* Effect.option(chainAt(published?.position ?? 0))
    const diverged = Option.isNone(chain) ? null : findDivergence(published, { ...log.value, chain: chain.value })
    return { ...topics, divergence: diverged ?? findPublishedElsewhere(log.value, published, log.value) }
  })

const needsOf = ({ definition: { needs }, name }: Config.Settings["plugins"][number]) => ({
  plugin: name,
  reads: needs?.reads ?? [],
  writes: needs?.writes ?? []
})

export const doctor = Command.make("doctor", { config, json }, ({ config, json }) =>
  Effect.gen(function*() {
    const Doctor = yield* Effect.promise(() => import("./Doctor.ts"))
    const input = yield* loadRawConfig(config)
    const checked = Config.check(input)
    if (Result.isFailure(checked)) return yield* Doctor.reportInvalidConfig(checked.failure.faults, { json })
    const settings = checked.success
    const { kafka, store } = settings
    const doctorInput = {
      ...settings,
      store: { ...store, ...(yield* storeInspector(store)) },
      kafka: kafka === null ? null : { brokers: kafka.brokers, inspect: inspectKafka(settings, input, kafka) },
      plugins: { used: yield* Config.findPluginUses(settings), needs: settings.plugins.map(needsOf) }
    }
    yield* Effect.provide(Doctor.runChecks(doctorInput, { json }), sourceLayer({ ...settings, ...doctorTimeouts }))
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription(
      "Check configuration, accounts, integrations, plugins, store, Kafka and clock, and show how to fix each problem"
    )
  )
