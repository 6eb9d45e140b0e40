/** `rollcall schema`: the AsyncAPI document of the events in Kafka. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Config from "../config/Config.ts"
import { loadRawConfig } from "../config/RawConfig.ts"
import { version } from "../http/contract/Version.ts"
import { config, json as jsonFlag } from "./terminal/Flags.ts"
import { print, withTerminalErrors } from "./terminal/Process.ts"

export const schema = Command.make("schema", {
  config,
  json: jsonFlag.pipe(Flag.withDescription("Print the document, which is JSON, on one line"))
}, ({ config, json }) =>
  Effect.gen(function*() {
    const { asyncApiOf } = yield* Effect.promise(() => import("../publish/kafka/AsyncApi.ts"))
    const input = yield* loadRawConfig(config)
    const kafka = yield* Effect.fromResult(Config.checkKafka(input))
    const { format, state, topic } = kafka ??
      { format: "cloudevents", state: false, topic: "rollcall.{model}" } as const
    const { entries } = yield* Effect.fromResult(Config.checkModels(input))
    const registered = kafka !== null && kafka.schemaRegistry !== null
    yield* print(
      JSON.stringify(asyncApiOf({ version, models: entries, topic, state, format, registered }), null, json ? 0 : 2)
    )
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription("Print the AsyncAPI document of the events in Kafka, with the configured topics")
  )
