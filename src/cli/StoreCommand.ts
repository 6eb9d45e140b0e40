/**
 * `rollcall store adopt`: shows what adopting the store would do, asks for confirmation, and adopts it.
 *
 * Gotchas
 * - The command refuses to run while a process answers at the configured address. Any other process of the store is fenced: it can no
 *   longer commit, but its responses have the old generation until it notices.
 */
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import {
  kafkaOptions,
  loadKafka,
  processingByStream,
  storeInspector,
  storeLayer,
  withSettings
} from "../app/Composition.ts"
import type { Plan } from "../capture/rewrite/StoreAdoption.ts"
import * as Config from "../config/Config.ts"
import { loadRawConfig } from "../config/RawConfig.ts"
import type { SinkCheckpoint } from "../publish/Sink.ts"
import { connect } from "./client/ClientCommand.ts"
import { config, json, yes } from "./terminal/Flags.ts"
import { confirm, print, progressPrinter, refuse, withTerminalErrors } from "./terminal/Process.ts"
import { formatPlural, progressLine } from "./terminal/Tables.ts"

const planText = (store: string, plan: Plan, published: SinkCheckpoint | null): string =>
  [
    `store         ${store}`,
    `generation    ${plan.from} becomes ${plan.to}`,
    ...(published === null
      ? []
      : [`in Kafka      generation ${published.generation} up to position ${published.position}`]),
    `republished   ${formatPlural(plan.live, "live record")} of ${
      formatPlural(plan.streams, "stream")
    }, each as created, version 1`,
    `kept          watermarks, ${formatPlural(plan.pending, "pending row")}, ${
      formatPlural(plan.quarantined, "quarantined row")
    }`,
    `discarded     the event log up to position ${plan.newest}; readers with a position in it must start over`
  ].join("\n")

const adopt = Command.make("adopt", { config, yes, json }, ({ config, json, yes }) =>
  Effect.gen(function*() {
    const StoreAdoption = yield* Effect.promise(() => import("../capture/rewrite/StoreAdoption.ts"))
    const settings = yield* Effect.fromResult(Config.check(yield* loadRawConfig(config)))
    const { kafka, store } = settings
    const { log } = yield* Effect.flatMap(storeInspector(store), ({ inspect }) => inspect)
    if (log === null) {
      return yield* refuse(`there is no store at ${store.name}`, "Set ROLLCALL_STORE to the URL of the store to adopt.")
    }
    const { readiness, url } = yield* connect(config)
    yield* Effect.gen(function*() {
      if (yield* Effect.isSuccess(readiness)) {
        return yield* refuse(
          `a Rollcall process is running at ${url}; nothing was changed`,
          "Stop it and every other process that uses this store."
        )
      }
      const published = kafka === null
        ? null
        : (yield* (yield* loadKafka).inspect(kafkaOptions(kafka, []), log)).published
      const plan = yield* StoreAdoption.plan(published?.generation ?? 0)
      yield* confirm({
        yes,
        json,
        shown: planText(store.name, plan, published),
        question: "Adopt this store?",
        hint: "Pass --yes to adopt the store."
      })
      const startedAt = yield* Clock.currentTimeMillis
      let republished = 0
      const show = progressPrinter(json)
      const report = (records: number) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          republished += records
          return show(progressLine("adopt", republished, plan.live, (now - startedAt) / 1_000))
        })
      yield* Effect.ensuring(StoreAdoption.adopt(plan, processingByStream(settings), report), show(""))
      yield* print(
        json
          ? JSON.stringify({ store: store.name, published, ...plan })
          : `the store is adopted: start Rollcall, which publishes generation ${plan.to}`
      )
    }).pipe(
      Effect.provide(storeLayer(store, { patient: false, keys: settings.encryptionKeys })),
      withSettings(settings)
    )
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription(
      "Accept a restored or replaced store: publish every live record again, in a new generation"
    )
  )

export const store = Command.make("store").pipe(
  Command.withDescription("Commands for the whole store; stop Rollcall before you use them"),
  Command.withSubcommands([adopt])
)
