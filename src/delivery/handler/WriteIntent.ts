/**
 * The identity of a write in the journal, and the intent that is committed before the write is sent. Pure.
 *
 * Details
 * The step of a write is named `<path><write>:<target>:<body>`. The part before the body is the identity of the request: two writes
 * with the same target and different content have the same one.
 */
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"
import { type WriteBody, type WriteName, writes, writeSchemas } from "../../api/Writes.ts"
import { expectationsOf } from "../../domain/Expectation.ts"
import type { OnUnknown } from "../../plugin/Capabilities.ts"
import type { Intent, StepKey } from "../../store/AttemptJournal.ts"
import type { Attempt } from "./Attempt.ts"
import type { RequestedWrite } from "./WriteVerification.ts"

/** How a write of unknown outcome is resolved if the handler does not specify it. `ResendPolicy` explains the four policies. */
const defaultOnUnknown: Readonly<Record<(typeof writes)[WriteName]["resendPolicy"], OnUnknown>> = {
  safe: "repeat",
  look: "verify",
  find: "verify",
  never: "deadLetter"
}

const defaultBudget = 1_000

const digest = (content: unknown): string => hash("sha256", JSON.stringify(content), "base64url").slice(0, 22)

export const onUnknownOf = <W extends WriteName>({ options, write }: RequestedWrite<W>): OnUnknown =>
  options.onUnknown ?? defaultOnUnknown[writes[write].resendPolicy]

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

/** False for a tick, and for a batch with several records. */
export const isForOneRecord = ({ record }: Attempt): boolean => record !== null && record !== "tick"

/** In a named step for one record, two writes of the same kind to the same target are the same write, even if their content differs. */
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
