/**
 * Decides when an isolated delivery runs. A delivery that was running when the process ended several times must run alone (see
 * `isolateAfterCrashes`).
 *
 * Gotchas
 * - An isolated delivery starts only after all running attempts have ended. Until then no new delivery starts, for at most a minute.
 *   If an attempt still runs after that, all deliveries continue for ten minutes before isolation is tried again.
 * - The other deliveries run between two isolated deliveries.
 * - The timer of a handler is paused while one of its requests waits for a slot at the API. An isolated delivery stops waiting
 *   when its time-out has passed, and is tried again ten minutes later.
 */

/** `wait`: how long no delivery starts. `cooldown`: how long all deliveries run after a wait that did not succeed. In ms. */
export const limits = { wait: 60_000, cooldown: 600_000 }

/** Which deliveries may be claimed now. */
export type ClaimMode = "nothing" | "isolated" | "others"

/** Times are our clock, in ms. `isFree`: no attempt is running. */
export const make = () => {
  // the previous process may have left an isolated delivery
  let state: "none" | "waits" | "runs" = "waits"
  let until = Infinity
  let from = 0
  /** False if the clock was set back: isolation must not wait until the clock has caught up   (W4). */
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
    /**
     * Takes the result of a claim. `claimed`: a delivery was claimed. `isolatedDue`: an isolated delivery is due. Returns whether to
     * claim again at once.
     */
    onClaimed: (now: number, mode: ClaimMode, claimed: boolean, isolatedDue: boolean, isFree: boolean): boolean => {
      if (mode === "nothing") return false
      if (mode === "isolated") {
        state = claimed ? "runs" : "none"
        return !claimed
      }
      state = isolatedDue && (isFree || !isCoolingDown(now)) ? "waits" : "none"
      until = now + limits.wait
      return state === "waits" && isFree
    },
    wakeAt: (now: number): number => state === "waits" ? until : isCoolingDown(now) ? from : Infinity
  }
}

export type CrashIsolation = ReturnType<typeof make>
