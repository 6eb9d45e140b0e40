/** Runs a handler for one delivery or for the members of a batch, claimed or in a dry run. */
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { formatPosition, type LogIdentity } from "../../domain/ChangeEvent.ts"
import { toDuration } from "../../domain/DurationText.ts"
import { nextDepth } from "../../domain/Echo.ts"
import type { Capabilities } from "../../plugin/Capabilities.ts"
import { envelopeOf, eventFor, type PublishedEvent, unfiltered } from "../../plugin/EventMatching.ts"
import type { HandlerError } from "../../plugin/Failure.ts"
import type { AttemptJournal } from "../../store/AttemptJournal.ts"
import { dedupKeysOf, keysWithoutBatch } from "../../store/Delivery.ts"
import type { Claimed } from "../../store/DeliveryClaims.ts"
import type { Owner } from "../../store/State.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import * as Attempt from "./Attempt.ts"
import * as HandlerContext from "./HandlerContext.ts"
import type { Subscription } from "./Subscription.ts"

export interface Job {
  readonly members: readonly [Claimed, ...ReadonlyArray<Claimed>]
  /** Empty for a tick. */
  readonly events: ReadonlyArray<PublishedEvent>
}

const defaultTimeout = Duration.seconds(30)

const inputOf = (
  identity: LogIdentity,
  { handler, plugin }: Subscription,
  { events, members: [first] }: Job
): unknown => {
  if (first.subject._tag === "Tick") {
    const { from, scheduledAt, to } = first.subject
    return {
      integration: first.integration,
      scheduledAt: new Date(scheduledAt),
      from: formatPosition(identity, from),
      to: formatPosition(identity, to)
    }
  }
  // an event that was dispatched is delivered, even if the handler's triggers no longer match it
  const { activation } = handler
  // the handler's filters were applied when the event was dispatched
  const input = events.map((event) =>
    eventFor(plugin.name, { activation, options: unfiltered }, event) ?? envelopeOf(event)
  )
  return activation._tag === "Batch" ? input : input[0]
}

export const attemptOf = (
  subscription: Subscription,
  { events, members: [first] }: Job,
  owner: Owner,
  journal: Pick<AttemptJournal, "check">
): Attempt.Attempt => {
  const [event] = events
  return Attempt.make({
    subscription,
    fence: { owner, delivery: first.id, claim: first.claim },
    integration: first.integration,
    dedupKeys: subscription.handler.activation._tag === "Batch" ? dedupKeysOf(first) : keysWithoutBatch(first),
    record: event === undefined ? "tick" : events.length > 1 ? null : { model: event.model, id: event.recordId },
    depth: nextDepth(events.map(({ cause }) => cause))
  }, journal)
}

export const timeoutOf = ({ options }: Subscription["handler"]): Duration.Duration =>
  toDuration(options.timeout ?? defaultTimeout)

/** Continues the trace of the job's events, or begins one for a tick. */
export const inDeliverySpan = ({ handler, plugin }: Subscription, { events, members: [first] }: Job) => {
  const attributes = {
    "rollcall.plugin": plugin.name,
    "rollcall.handler": handler.name,
    "rollcall.integration": first.integration,
    "rollcall.delivery": first.id,
    "rollcall.attempt": first.claim,
    "rollcall.events": events.length
  }
  return first.subject._tag === "Tick"
    ? Tracing.inTrace("delivery", attributes)
    : Tracing.inTraceOf(events.map(({ traceparent }) => traceparent), "delivery", attributes)
}

/** Runs the handler with these capabilities, without a time limit. */
export const runWith = (
  capabilities: Context.Context<Capabilities>,
  identity: LogIdentity,
  { subscription }: Attempt.Attempt,
  job: Job,
  configuration: unknown
): Effect.Effect<void, HandlerError> =>
  Effect.suspend(() => subscription.handler.run(inputOf(identity, subscription, job), configuration)).pipe(
    Effect.provideContext(capabilities)
  )

/** Runs the handler with the capabilities of the attempt, without a time limit. */
export const runHandler = (
  services: HandlerContext.Services,
  attempt: Attempt.Attempt,
  job: Job,
  configuration: unknown
): Effect.Effect<void, HandlerError> =>
  runWith(HandlerContext.contextOf(services, attempt), services.store.identity, attempt, job, configuration)
