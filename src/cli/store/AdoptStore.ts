/**
 * `store adopt`: shows what adopting the store would do, asks for confirmation, and adopts it.
 *
 * Gotchas
 * - The command refuses to run while a process answers at the configured address. A process that it cannot see is fenced:
 *   it can no longer commit, but until it notices, its responses carry the old generation.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as StoreAdoption from "../../capture/commit/StoreAdoption.ts"
import type { SinkCheckpoint, SinkError } from "../../publish/Sink.ts"
import { confirm } from "../Confirmation.ts"
import { print } from "../Process.ts"
import { formatPlural } from "../terminal/Terminal.ts"

/** The store was not adopted; nothing was changed. */
export class NotAdopted extends Schema.TaggedError<NotAdopted>()("NotAdopted", {
  message: Schema.String,
  hint: Schema.String
}) {}

export interface AdoptOptions {
  /** Name of the store, without secrets. */
  readonly store: string
  /** The last position that Kafka has from this store; null if Kafka is not configured. */
  readonly published: Effect.Effect<SinkCheckpoint | null, SinkError> | null
  /** URL of a running process that answers at the configured address; null if none answers. */
  readonly running: Effect.Effect<string | null>
  readonly processingOf: StoreAdoption.ProcessingOf
  readonly yes: boolean
  readonly json: boolean
}

const planText = (store: string, plan: StoreAdoption.Plan, published: SinkCheckpoint | null): string =>
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

export const adopt = Effect.fn("Adopt.run")(
  function*({ json, processingOf, running, store, yes, ...options }: AdoptOptions) {
    const url = yield* running
    if (url !== null) {
      return yield* new NotAdopted({
        message: `a Rollcall process is running at ${url}; nothing was changed`,
        hint: "Stop it and every other process that uses this store."
      })
    }
    const published = options.published === null ? null : yield* options.published
    const plan = yield* StoreAdoption.plan(published?.generation ?? 0)
    if (!json) yield* print(planText(store, plan, published))
    yield* confirm({ yes, json, question: "Adopt this store?", hint: "Pass --yes to adopt the store." })
    yield* StoreAdoption.adopt(plan, processingOf)
    yield* print(
      json
        ? JSON.stringify({ store, published, ...plan })
        : `the store is adopted: start Rollcall, which publishes generation ${plan.to}`
    )
  }
)
