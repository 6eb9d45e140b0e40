/**
 * The identity of a write in the journal, and the intent that is committed before the write is sent. Pure.
 *
 * Details
 * | identity      | is made of                          | two writes have the same one if                                     |
 * | ------------- | ----------------------------------- | ------------------------------------------------------------------- |
 * | step name     | `<path><write>:<target>:<body>`     | they are in the same step, and nothing differs                      |
 * | request       | `<write>:<target>:`                 | they have the same target; their content may differ                 |
 *
 * A later attempt may send the same request with other content. In a named step for one record it is still the same write: an outcome that an
 * operator reported for the first request applies to the second one too (`isSameRequest`).
 */
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"
import { type WriteBody, type WriteName, writes, writeSchemas } from "../../api/Writes.ts"
import { expectationsOf } from "../../domain/Expectation.ts"
import type { OnUnknown } from "../../plugin/Capabilities.ts"
import type { Intent, StepKey } from "../../store/AttemptJournal.ts"
import type { Attempt } from "./Attempt.ts"
import type { RequestedWrite } from "./WriteVerification.ts"

/** How a write of unknown outcome is resolved if the handler does not specify it. `ResolutionPolicy` explains the four policies. */
const defaultOnUnknown: Readonly<Record<(typeof writes)[WriteName]["resolutionPolicy"], OnUnknown>> = {
  safe: "repeat",
  look: "verify",
  find: "verify",
  never: "deadLetter"
}

const defaultBudget = 1_000

const digest = (content: unknown): string => hash("sha256", JSON.stringify(content), "base64url").slice(0, 22)

export const onUnknownOf = <W extends WriteName>({ options, write }: RequestedWrite<W>): OnUnknown =>
  options.onUnknown ?? defaultOnUnknown[writes[write].resolutionPolicy]

/** Request identity: write, target and parameters, without the body. */
const requestIdentityOf = <W extends WriteName>({ integration, params, write }: RequestedWrite<W>): string =>
  `${write}:${digest([integration, params])}:`

/** `path`: the names of the enclosing steps. */
export const stepNameOf = <W extends WriteName>(path: string, wanted: RequestedWrite<W>): string =>
  path + requestIdentityOf(wanted) + digest(wanted.body)

/** The same for all writes of an attempt that have the same request identity in the same scope. */
export const scopedIdentityOf = <W extends WriteName>(
  { dedupKeys: [dedupKey] }: StepKey,
  wanted: RequestedWrite<W>
): string => `${dedupKey} ${requestIdentityOf(wanted)}`

/** False for a tick, and for a batch of several records. */
export const isForOneRecord = ({ record }: Attempt): boolean => record !== null && record !== "tick"

/**
 * Whether a write with the same request identity is this write, even if its content differs. That is so if all of these hold:
 * - the write is in a named step
 * - the attempt is for one record
 * - the step runs once for this record, or once for this event
 */
const isSameRequest = (
  attempt: Attempt,
  { keepForever, dedupKeys: [dedupKey], step }: StepKey,
  requestIdentity: string
): boolean => {
  const isInNamedStep = !step.startsWith(requestIdentity)
  const isOncePerRecord = keepForever
  // see `dedupKeysOf`
  const isOncePerEvent = dedupKey.startsWith("e")
  return isInNamedStep && isForOneRecord(attempt) && (isOncePerRecord || isOncePerEvent)
}

/** An invalid body is refused before it is sent, so it gets no expectations. */
const isValidBody = <W extends WriteName>(write: W, body: unknown): body is WriteBody<W> =>
  Schema.is(writeSchemas[write].body)(body)

/** `counted`: whether an earlier try of the same request was counted in the hour's budget. */
export const intentOf = <W extends WriteName>(
  attempt: Attempt,
  key: StepKey,
  wanted: RequestedWrite<W>,
  { allowRepeat, counted }: { readonly allowRepeat: boolean; readonly counted: boolean }
): Intent => {
  const { plugin } = attempt.subscription
  const { body, integration, params, write } = wanted
  const onUnknown = onUnknownOf(wanted)
  return {
    ...key,
    ...(onUnknown === "deadLetter" && {
      sameRequestPrefix: key.step.slice(0, key.step.lastIndexOf(":") + 1),
      isSameRequest: isSameRequest(attempt, key, requestIdentityOf(wanted))
    }),
    onUnknown,
    integration,
    write: {
      name: write,
      // the call is typed, but the values are checked only when the write is sent
      params: Object.fromEntries(
        Object.entries<unknown>(params).flatMap(([name, id]) => typeof id === "string" ? [[name, id]] : [])
      ),
      plugin: plugin.name,
      perHour: counted ? null : plugin.definition.writesPerHour ?? defaultBudget,
      depth: attempt.depth,
      expected: isValidBody(write, body) ? expectationsOf(write, params, body) : []
    },
    allowRepeat
  }
}
