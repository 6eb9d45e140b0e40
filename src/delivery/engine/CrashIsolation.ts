/**
 * When a delivery that must run alone gets its turn: one with which the process has ended before (see `aloneAfter`). Hides that
 * the others wait for it, and that it waits for them.
 *
 * Gotchas
 * - An attempt may take as long as its handler's time-out says: the others do not wait longer than a minute for it to end.
 *   Then all go on for ten, and it is tried again.
 * - Between two that run alone the others have a turn.
 * - The time of a handler stands still while a request waits for its turn at the API. One that runs alone stops waiting after
 *   its time-out, and is tried again ten minutes later.
 */

/** For how long nothing is begun, and for how long everything is if that was in vain; ms. */
export const limits = { wait: 60_000, cooldown: 600_000 }

/** What is to be claimed now. */
export type ClaimMode = "nothing" | "isolated" | "others"

/** Times are our clock, ms. `isFree`: nothing runs. */
export const make = () => {
  // the process before this one may have left one
  let state: "none" | "waits" | "runs" = "waits"
  let until = Infinity
  let from = 0
  /** Not until a clock that was set back has caught up   (W4). */
  const isCoolingDown = (now: number) => now < from && from - now <= limits.cooldown

  return {
    nextMode: (now: number, isFree: boolean): ClaimMode => {
      if (isFree) {
        if (state === "runs") state = "none"
      } else if (state === "waits" && (now >= until || until - now > limits.wait)) {
        state = "none"
        from = now + limits.cooldown
      }
      return state === "none" ? "others" : isFree ? "isolated" : "nothing"
    },
    /** What came of it: whether any was claimed, and one is due that must run alone. Gives whether to ask again at once. */
    onClaimed: (now: number, mode: ClaimMode, claimed: boolean, found: boolean, isFree: boolean): boolean => {
      if (mode === "nothing") return false
      if (mode === "isolated") {
        state = claimed ? "runs" : "none"
        return !claimed
      }
      state = found && (isFree || !isCoolingDown(now)) ? "waits" : "none"
      until = now + limits.wait
      return state === "waits" && isFree
    },
    wakeAt: (now: number): number => state === "waits" ? until : isCoolingDown(now) ? from : Infinity
  }
}

export type CrashIsolation = ReturnType<typeof make>
