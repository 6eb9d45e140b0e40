/** An event that the author of a plugin chooses: reads it from a file, and runs the handlers that receive it, in a dry run. */
import * as Effect from "effect/Effect"
import { HttpClient } from "effect/http/HttpClient"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as DryRun from "../../delivery/admin/DryRun.ts"
import * as IntegrationAccounts from "../../delivery/handler/IntegrationAccounts.ts"
import { batchWindowOf, matchEvent } from "../../delivery/handler/Subscription.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import type { JsonObject } from "../../domain/Canonical.ts"
import { genesis, type LogEntry } from "../../domain/ChangeEvent.ts"
import { diff } from "../../domain/Diff.ts"
import { isModel } from "../../domain/Model.ts"
import { defaultProcessing } from "../../domain/Processing.ts"
import { transitionsOf } from "../../domain/Transition.ts"
import { toPublishedEvent } from "../../plugin/EventMatching.ts"
import type { Plugin } from "../../plugin/Plugin.ts"
import { EventData } from "../../publish/EventSchema.ts"
import { Source } from "../../source/Source.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { Store } from "../../store/Store.ts"
import { CommandError, refuse } from "../terminal/Process.ts"

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ id: Schema.String, data: EventData })))

/**
 * The row of the log for an event in the form in which `rollcall tail --json` prints it, in another integration. Its changes and transitions
 * follow from `before` and `after`, which may have been edited.
 */
export const entryOf = Effect.fnUntraced(function*(
  text: string,
  integration: string
): Effect.fn.Return<LogEntry, CommandError> {
  const models = yield* CurrentModels
  const event = Option.getOrNull(decode(text))
  const model = event?.data.model
  if (event === null || model === undefined || !isModel(models, model)) {
    return yield* refuse(
      "the file does not contain an event",
      "Write it as `rollcall tail --json` prints it: a JSON object with `id` and `data`."
    )
  }
  const { data } = event
  // the content of a record is JSON
  const [before, after] = [data.before, data.after] as ReadonlyArray<JsonObject | null>
  const { entry, shape } = defaultProcessing(model, models)
  return {
    eventId: event.id,
    model,
    integration,
    id: data.id,
    remoteId: data.remote_id,
    generation: data.generation,
    version: data.version,
    kind: data.kind,
    // by default a handler gets no event of a backfill, and the author has chosen this one
    origin: "poll",
    reason: null,
    restored: data.restored,
    before: before == null ? null : JSON.stringify(before),
    after: after == null ? null : JSON.stringify(after),
    changes: JSON.stringify(before == null || after == null ? [] : diff(shape, before, after)),
    transitions: JSON.stringify(after == null ? [] : transitionsOf(entry, before ?? null, after)),
    changedAt: data.changed_at,
    detectedAt: Date.parse(data.detected_at),
    cause: null,
    position: 1,
    chain: genesis,
    traceparent: null
  }
})

/** Runs every handler that receives the event once, and returns the requests that it would send. */
export const tryEvent = Effect.fnUntraced(function*(plugin: Plugin<unknown>, entry: LogEntry) {
  const store = yield* Store
  const services: DryRun.Services = {
    store,
    deliveries: yield* Deliveries,
    source: yield* Source,
    http: yield* HttpClient,
    accounts: IntegrationAccounts.make(store)
  }
  const event = toPublishedEvent(store.identity, entry)
  const { integration, position } = entry
  const subscriptions = plugin.handlers
    .map((handler) => ({ key: 0, plugin, handler, batchWindow: batchWindowOf(handler) }))
    .filter((subscription) => matchEvent(subscription, event) === "yes")
  return yield* Effect.forEach(subscriptions, (subscription) =>
    DryRun.tryDelivery(
      services,
      subscription,
      { integration, events: [event], batch: null, from: position, to: position },
      true
    ))
})
