/**
 * The cause in the message of a failure: the part that is equal for all failures with the same cause; and the remedy.
 *
 * Gotchas
 * - Numbers with up to seven characters, such as a status, are part of the cause. Longer words with a digit are ids or times.
 */

/** Precedes the address of the API's own page about the request, at the end of a message. */
export const logMark = "; the API's log of the request: "

/** The message without the address of the log, and the address; null if the message has none. */
export const splitLog = (message: string): { readonly text: string; readonly log: string | null } => {
  const at = message.lastIndexOf(logMark)
  const url = at < 0 ? "" : message.slice(at + logMark.length)
  return URL.canParse(url) && new URL(url).protocol === "https:"
    ? { text: message.slice(0, at), log: url }
    : { text: message, log: null }
}

const differing = [/https?:\/\/\S*[^\s:.,;)]/g, /\S+@\S+/g, /(?=[\w:.+-]*\d)[\w:.+-]{8,}/g]

/** The message with `…` in place of addresses, ids and times, which differ for each record. */
export const causeOf = (message: string): string =>
  differing.reduce((text, pattern) => text.replaceAll(pattern, "…"), splitLog(message).text)

/** A remedy is for one dead letter and for several. */
export const remedies: Readonly<Record<string, string>> = {
  Transient: "The API or a receiver did not answer for longer than the handler retries. When it is back, send again.",
  TimedOut: "The API or a receiver did not answer for longer than the handler retries. When it is back, send again.",
  RateLimited: "The request budget of the account was used up. Send again, spread over time.",
  Permanent:
    "The handler, or the other system, refuses this until the cause of the message is gone. Remove the cause, then send again; or do it by " +
    "hand, then discard.",
  Forbidden: "Enable the permission in the account's scope configuration, then send again.",
  Inactive:
    "The handler writes to an integration that is not configured. Add it, or correct its id in the plugin's configuration, then send again.",
  Invalid: "The write does not match the form or the schema. Correct the record or the mapping, then send again.",
  Undeclared:
    "The plugin does not declare the write, so it was not sent. Add the line of the message, deploy, then send again.",
  OutcomeUnknown:
    "A write was sent, and its outcome is unknown. Look in the other system, then report for each write whether it happened.",
  Defect: "A mistake in the handler. If it goes on, switch the plugin off; deploy a correction, then send again.",
  LoopDetected: "Plugins respond to one another in a loop. Switch one of them off, then discard.",
  ProcessEnded:
    "The process ended four times while this delivery ran. Look at the end of the log before each start, deploy a correction, then send again."
}

/** The remedy for the reason or refusal with which a delivery was given up. */
export const remedyOf = (reason: string, refusal: string | null): string =>
  remedies[refusal ?? ""] ?? remedies[reason] ?? remedies["Permanent"]!

/** Whether sending again is the whole remedy once the other side answers, without a correction or a report before it. */
export const isTemporary = (reason: string, refusal: string | null): boolean =>
  refusal === null && ["Transient", "TimedOut", "RateLimited"].includes(reason)
