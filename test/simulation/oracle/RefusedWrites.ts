/**
 * The rules for attempts that end because the API refuses all writes: they use up no attempt of the delivery, count nothing for the
 * handler's circuit, and leave no intent (C4).
 */
import type { AttemptOutcome, ClaimResult } from "../../../src/store/DeliveryClaims.ts"
import type { ReportViolation } from "./ObservedStream.ts"

export class RefusedWrites {
  readonly #code: string | null
  readonly #hasIntent: (delivery: number, claim: number) => boolean
  /** By delivery and claim: the failed attempts of the delivery when it was claimed. */
  readonly #attempts = new Map<string, number>()

  /** `code`: the error code of the refusals; null if the API never refuses all writes. */
  constructor(code: string | null, hasIntent: (delivery: number, claim: number) => boolean) {
    this.#code = code
    this.#hasIntent = hasIntent
  }

  /** Called after a transaction that settled these attempts and then claimed deliveries. */
  settledAndClaimed(
    outcomes: ReadonlyArray<AttemptOutcome>,
    { claimed }: ClaimResult,
    report: ReportViolation
  ): void {
    if (this.#code === null) return
    for (const outcome of outcomes) {
      if (!("failedAttempt" in outcome) || !outcome.failedAttempt.failure.message.includes(this.#code)) continue
      const { number } = outcome.failedAttempt
      const [delivery = 0] = outcome.deliveries
      const refused = `delivery ${delivery}, whose write was refused,`
      if (outcome._tag !== "Retry") report("C4", `${refused} became ${outcome._tag}`)
      else if (outcome.attempts !== this.#attempts.get(`${delivery}.${number}`)) {
        report("C4", `${refused} has used up an attempt`)
      }
      if (outcome.result !== undefined) report("C4", `${refused} counts for the circuit of its handler`)
      if (this.#hasIntent(delivery, number)) report("C4", `${refused} left an intent`)
    }
    for (const { attempts, claim, id } of claimed) this.#attempts.set(`${id}.${claim}`, attempts)
  }
}
