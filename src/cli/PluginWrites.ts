/** Records the writes of plugins, so that a command can show them. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { WriteName } from "../api/Writes.ts"
import { Source } from "../source/Source.ts"
import type { PluginWrite } from "./terminal/EventLines.ts"

/** The writes of all plugins, oldest first. */
export type PluginWrites = Array<PluginWrite>

/** Wraps the source so that every write is recorded with the plugin that sent it, as soon as it has a result. */
export const recordWrites = (record: (write: PluginWrite) => void, pluginOf: (write: WriteName) => string) =>
  Layer.effect(
    Source,
    Effect.map(Source, (source) => ({
      ...source,
      write: (request, hooks) =>
        Effect.tap(source.write(request, hooks), () =>
          Effect.map(Clock.currentTimeMillis, (at) => {
            record({ at, plugin: pluginOf(request.write), request })
          }))
    }))
  )
