/** `rollcall schema`: the AsyncAPI document of the events in Kafka. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Config from "../config/Config.ts"
import { loadRawConfig } from "../config/RawConfig.ts"
import { recordEntryOf } from "../domain/Model.ts"
import { version } from "../http/contract/Version.ts"
import { checkModel, config, json as jsonFlag, textFlag } from "./terminal/Flags.ts"
import { print, withTerminalErrors } from "./terminal/Process.ts"

export const schema = Command.make("schema", {
  config,
  connect: textFlag("connect", "Print the Kafka Connect schemas of this model's keys and values instead", "model"),
  json: jsonFlag.pipe(Flag.withDescription("Print the document, which is JSON, on one line"))
}, ({ config, connect, json }) =>
  Effect.gen(function*() {
    const input = yield* loadRawConfig(config)
    const models = yield* Effect.fromResult(Config.checkModels(input))
    const show = (document: object) => print(JSON.stringify(document, null, json ? 0 : 2))
    if (Option.isSome(connect)) {
      const { connectSchemasOf } = yield* Effect.promise(() => import("../publish/kafka/ConnectForm.ts"))
      return yield* show(connectSchemasOf(recordEntryOf(models, yield* checkModel(models, connect.value))))
    }
    const { asyncApiOf } = yield* Effect.promise(() => import("../publish/kafka/AsyncApi.ts"))
    const kafka = yield* Effect.fromResult(Config.checkKafka(input))
    const { format, state, topic } = kafka ??
      { format: "cloudevents", state: false, topic: "rollcall.{model}" } as const
    const registered = kafka !== null && kafka.schemaRegistry !== null
    yield* show(asyncApiOf({ version, models: models.entries, topic, state, format, registered }))
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription("Print the AsyncAPI document of the events in Kafka, with the configured topics")
  )
