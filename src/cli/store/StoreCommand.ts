/** `rollcall store adopt`: gives the adoption the configured store and Kafka. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { kafkaOptions, loadKafka, processingByStream, storeInspector, storeLayer } from "../../app/Composition.ts"
import * as Config from "../../config/Config.ts"
import { loadRawConfig } from "../../config/RawConfig.ts"
import { connect } from "../ClientCommand.ts"
import { config, json, yes } from "../Flags.ts"
import { withTerminalErrors } from "../Process.ts"

const adopt = Command.make("adopt", {
  config,
  yes,
  json
}, ({ config, json, yes }) =>
  Effect.gen(function*() {
    const Adopt = yield* Effect.promise(() => import("./AdoptStore.ts"))
    const settings = yield* Effect.fromResult(Config.check(yield* loadRawConfig(config)))
    const { name } = settings.store
    const { log } = yield* Effect.flatMap(storeInspector(settings.store), ({ inspect }) => inspect)
    if (log === null) {
      return yield* new Adopt.NotAdopted({
        message: `there is no store at ${name}`,
        hint: "Set ROLLCALL_STORE to the URL of the store to adopt."
      })
    }
    const { kafka } = settings
    const published = kafka === null ? null : loadKafka.pipe(
      Effect.flatMap(({ inspect }) => inspect(kafkaOptions(kafka, []), log)),
      Effect.map(({ published }) => published)
    )
    const { readiness, url } = yield* connect(config)
    const running = Effect.match(readiness, { onSuccess: () => url, onFailure: () => null })
    yield* Adopt.adopt({ store: name, published, running, processingOf: processingByStream(settings), yes, json }).pipe(
      Effect.provide(storeLayer(settings.store, { patient: false }))
    )
  }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp), withTerminalErrors)).pipe(
    Command.withDescription(
      "Accept a restored or replaced store: publish every live record again, in a new generation"
    )
  )

export const store = Command.make("store").pipe(
  Command.withDescription("Commands for the whole store; stop Rollcall before you use them"),
  Command.withSubcommands([adopt])
)
