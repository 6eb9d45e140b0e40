/** The owner of each scope, and the rules for its writes: none once it was taken over, and none while writes are stopped (X16). */
import type { Owner } from "../../../src/store/State.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { ReportAt } from "./ObservedStream.ts"

/** Time between the check of a write and its sending, in ms: the remaining window that docs/delivery.md describes. */
const maxSendDelay = 10_000

export class Ownership {
  readonly #time: VirtualTime
  readonly #reportAt: ReportAt
  readonly #epochs = new Map<string, number>()
  /** The latest takeover of each scope, with its time. */
  readonly #takeovers = new Map<string, { readonly epoch: number; readonly at: number }>()
  #stoppedAt: number | null = null

  constructor(time: VirtualTime, reportAt: ReportAt) {
    this.#time = time
    this.#reportAt = reportAt
  }

  ownerClaimed({ epoch, scope }: Owner): void {
    this.#epochs.set(scope, epoch)
    this.#takeovers.set(scope, { epoch, at: this.#time.now })
  }

  isLatestOwner({ epoch, scope }: Owner): boolean {
    return this.#epochs.get(scope) === epoch
  }

  /** Called when the store was replaced or adopted: its epochs may be lower than before. */
  forget(): void {
    this.#epochs.clear()
  }

  writeAllowed({ epoch, scope }: Owner): void {
    if (this.isLatestOwner({ epoch, scope })) return
    this.#reportAt(scope)("X16", `a write was allowed for a fenced owner (epoch ${epoch})`)
  }

  /** Called when all writes are stopped or resumed. */
  writesSwitched(on: boolean): void {
    this.#stoppedAt = on ? null : this.#time.now
  }

  /** Called when a write is sent: the conditions of its check must have held a moment ago. */
  writeSent({ epoch, scope }: Owner): void {
    const report = this.#reportAt(scope)
    const { now } = this.#time
    const latest = this.#takeovers.get(scope)
    const isPast = (at: number) => now - at > maxSendDelay
    if (latest !== undefined && latest.epoch !== epoch && isPast(latest.at)) {
      report("X16", `a write was sent for epoch ${epoch}, which was taken over ${now - latest.at} ms ago`)
    }
    if (this.#stoppedAt !== null && isPast(this.#stoppedAt)) {
      report("X16", `a write was sent ${now - this.#stoppedAt} ms after all writes were stopped`)
    }
  }
}
