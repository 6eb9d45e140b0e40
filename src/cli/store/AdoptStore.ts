/**
 * `store adopt`: shows what adopting the store would do, asks, does it. Hides how one makes sure that it is meant.
 *
 * Gotchas
 * - A process that still runs is refused, and fenced if it could not be seen: it cannot commit any more, but what it
 *   serves until then carries the identity that it knew.
 */
import * as Prompt from "effect/cli/Prompt"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as StoreAdoption from "../../capture/commit/StoreAdoption.ts"
import type { SinkCheckpoint, SinkError } from "../../publish/Sink.ts"
import { print } from "../Flags.ts"

/** Adopting was not begun. */
export class NotAdopted extends Schema.TaggedError<NotAdopted>()("NotAdopted", {
  message: Schema.String,
  hint: Schema.String
}) {}

export interface AdoptOptions {
  /** What it is called. */
  readonly store: string
  /** What Kafka holds of this store; null without Kafka. */
  readonly published: Effect.Effect<SinkCheckpoint | null, SinkError> | null
  /** Where a process answers that uses the store; null if none does. */
  readonly running: Effect.Effect<string | null>
  readonly processingOf: StoreAdoption.ProcessingOf
  readonly yes: boolean
  readonly json: boolean
}

const count = (number: number, one: string, many = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`

const planText = (store: string, plan: StoreAdoption.Plan, published: SinkCheckpoint | null): string =>
  [
    `store        ${store}`,
    `generation      ${plan.from} becomes ${plan.to}`,
    ...(published === null
      ? []
      : [`in kafka     generation ${published.generation} up to position ${published.position}`]),
    `anew         ${count(plan.live, "live record")} of ${count(plan.streams, "stream")}, each as created, version 1`,
    `kept         watermarks, ${count(plan.pending, "pending row")}, ${count(plan.quarantined, "quarantined row")}`,
    `given up     the log up to position ${plan.newest}: readers that stand there are told to begin anew`
  ].join("\n")

const askConfirmation = Prompt.run(Prompt.Confirm({ message: "Adopt this store?", initial: false })).pipe(
  Effect.catch(() => Effect.succeed(false))
)

export const adopt = Effect.fn("Adopt.run")(
  function*({ json, processingOf, running, store, yes, ...options }: AdoptOptions) {
    const url = yield* running
    if (url !== null) {
      return yield* new NotAdopted({
        message: `a Rollcall answers at ${url}`,
        hint: "Stop it, and every other one that uses this store; nothing was changed."
      })
    }
    const published = options.published === null ? null : yield* options.published
    const plan = yield* StoreAdoption.plan(published?.generation ?? 0)
    if (!json) yield* print(planText(store, plan, published))
    const meant = yes || (!json && process.stdin.isTTY && (yield* askConfirmation))
    if (!meant) {
      return yield* new NotAdopted({ message: "nothing was changed", hint: "Say --yes to do it." })
    }
    yield* StoreAdoption.adopt(plan, processingOf)
    yield* print(
      json
        ? JSON.stringify({ store, published, ...plan })
        : `adopted: start Rollcall, which publishes generation ${plan.to}`
    )
  }
)
