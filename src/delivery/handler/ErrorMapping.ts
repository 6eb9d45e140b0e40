/** Maps errors of the API and of the store to the four handler errors: `Transient`, `RateLimited`, `Blocked` and `Permanent`. */
import * as Duration from "effect/Duration"
import { provesNoEffect, refusesEveryRequest } from "../../api/ErrorClassification.ts"
import type { WriteName } from "../../api/Writes.ts"
import { logMark } from "../../domain/FailureCause.ts"
import {
  Blocked,
  BlockReason,
  type HandlerError,
  Permanent,
  RateLimited,
  Refusal,
  Transient
} from "../../plugin/Failure.ts"
import type { Plugin } from "../../plugin/Plugin.ts"
import type { Invalid, SourceError, WriteError } from "../../source/Source.ts"
import type { StoreError } from "../../store/Store.ts"

/** How long the delivery waits if a rate-limit response has no `Retry-After`. `RequestScheduler` decides how long the account pauses. */
const defaultRetryAfter = Duration.minutes(1)

const isRefusal = (name: string): name is Refusal => (Refusal.literals as ReadonlyArray<string>).includes(name)
const isBlockReason = (name: string): name is BlockReason =>
  (BlockReason.literals as ReadonlyArray<string>).includes(name)

/**
 * Why the account or the integration accepts no requests now; null if it does. A 409 with an unknown code is `NotReady` too, but may be a
 * conflict of this request alone. So it does not block.
 */
const blockReasonOf = (reason: (SourceError | WriteError)["reason"]): BlockReason | null => {
  if ("intercepted" in reason && reason.intercepted === true && refusesEveryRequest(reason.status ?? 0)) {
    return "Intercepted"
  }
  const { _tag, code } = reason
  return isBlockReason(_tag) && (_tag !== "NotReady" || provesNoEffect(code)) ? _tag : null
}

/**
 * A write that failed with any reason other than `OutcomeUnknown` had no effect, or can be sent again safely. `OutcomeUnknown` becomes `Blocked` if something between
 * Rollcall and the API refused the write, and otherwise `Transient`. The next attempt finds the write in its journal, and decides what to do
 * (`WriteBack`).
 */
export const fromApi = (what: string, error: SourceError | WriteError | Invalid, account: string): HandlerError => {
  if (error._tag === "Invalid") {
    return new Permanent({ message: `${what}: ${error.message}`, refusal: "Invalid", faults: error.faults })
  }
  const { reason } = error
  if (reason._tag === "RateLimited") {
    return new RateLimited({
      retryAfter: reason.retryAfter === null ? defaultRetryAfter : Duration.millis(reason.retryAfter)
    })
  }
  const log = reason.logUrl === undefined ? "" : `${logMark}${reason.logUrl}`
  const blockedBy = blockReasonOf(reason)
  if (blockedBy !== null) {
    return new Blocked({
      // without the address of the log, which differs for each request: `rollcall status` has one line for each message
      message: `${what}: ${error.message}`,
      refusal: blockedBy,
      account: blockedBy === "Unauthorized" ? account : null
    })
  }
  const message = `${what}: ${reason.message}${log}`
  if (reason._tag === "OutcomeUnknown" || !isRefusal(reason._tag)) return new Transient({ message })
  return new Permanent({ message, refusal: reason._tag })
}

export const fromStore = ({ reason }: StoreError): HandlerError =>
  new Transient({
    message: reason._tag === "Fenced"
      ? "this attempt is over: another process or a later attempt has claimed the delivery"
      : reason.hint
  })

/** The plugin does not declare the write. The message contains the line that declares it. */
export const undeclared = ({ definition: { needs }, name }: Plugin<unknown>, write: WriteName): Permanent => {
  const list = (names: ReadonlyArray<string>) => `[${names.map((one) => `"${one}"`).join(", ")}]`
  const reads = needs?.reads === undefined ? "" : `, reads: ${list(needs.reads)}`
  const line = `needs: { writes: ${list([...needs?.writes ?? [], write])}${reads} }`
  return new Permanent({
    message: `plugin "${name}" does not declare the write ${write}: write ${line} in its definition`,
    refusal: "Undeclared"
  })
}

/** The handler uses an integration that is not configured. */
export const integrationRemoved = (integration: string): Permanent =>
  new Permanent({
    message: `the integration ${integration} is not configured: add it to the configuration or with ` +
      "`rollcall integrations add`, or correct the id in the plugin's configuration; then redrive",
    refusal: "Inactive"
  })

/**
 * The delay until a delivery is due again if the integration of its event was removed during the attempt. Once due, the delivery waits
 * until the integration is added again.
 */
export const removedRetryDelay = Duration.minutes(1)

/** The outcome of a request, of this or an earlier attempt, is unknown, and cannot be determined: an operator decides. */
export const unresolved = (what: string): Permanent =>
  new Permanent({
    message: `${what} was started before, and its outcome is unknown`,
    refusal: "OutcomeUnknown"
  })

/** An operator has reported the outcome of a write with different content, and must report one for this write too. */
export const reportNeeded = (write: string): Permanent =>
  new Permanent({
    message:
      `${write} was not sent: an operator reported that the same write with different content happened. Resolve this write too`,
    refusal: "OutcomeUnknown"
  })
