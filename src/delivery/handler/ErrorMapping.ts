/** What a failure of the API or of the store means for a handler: which of its three ways to fail. */
import * as Duration from "effect/Duration"
import { type HandlerError, Permanent, RateLimited, Refusal, Transient } from "../../plugin/Failure.ts"
import type { Invalid, SourceError, WriteError } from "../../source/Source.ts"
import type { StoreError } from "../../store/Store.ts"

/** Where the API does not say how long. */
const defaultRetryAfter = Duration.minutes(1)

const isRefusal = (name: string): name is Refusal => (Refusal.literals as ReadonlyArray<string>).includes(name)

/** Of a write: everything but an unknown outcome left nothing behind. */
export const fromApi = (what: string, error: SourceError | WriteError | Invalid): HandlerError => {
  if (error._tag === "Invalid") {
    return new Permanent({ message: `${what}: ${error.message}`, refusal: "Invalid", faults: error.faults })
  }
  const { reason } = error
  if (reason._tag === "RateLimited") {
    return new RateLimited({
      retryAfter: reason.retryAfter === null ? defaultRetryAfter : Duration.millis(reason.retryAfter)
    })
  }
  const message = `${what}: ${reason.message}`
  if (reason._tag === "OutcomeUnknown" || !isRefusal(reason._tag)) return new Transient({ message })
  return new Permanent({ message, refusal: reason._tag })
}

export const fromStore = ({ reason }: StoreError): HandlerError =>
  new Transient({
    message: reason._tag === "Fenced" ? "this attempt is over: the delivery is another one's now" : reason.hint
  })

/** The handler asks for an integration that Rollcall does not have. */
export const integrationRemoved = (integration: string): Permanent =>
  new Permanent({
    message: `the integration ${integration} is not configured (any more): add it to the configuration, or with ` +
      "`rollcall integrations add`, or correct the id in the plugin's configuration; then redrive",
    refusal: "Inactive"
  })

/** How soon a delivery is due again whose own integration was removed under way; it waits until the integration is back. */
export const removedRetryDelay = Duration.minutes(1)

export const outcomeUnknown = (what: string): Permanent =>
  new Permanent({
    message: `${what} was begun by an earlier attempt, and nobody knows whether it took effect`,
    refusal: "OutcomeUnknown"
  })

export const outcomeUnclear = (write: string): Permanent =>
  new Permanent({
    message:
      `${write} was not sent: an operator said that such a write happened, with other content. Answer for this one too`,
    refusal: "OutcomeUnknown"
  })
