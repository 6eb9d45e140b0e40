/**
 * The integrations in which the deliveries of a handler wait, because the API has just refused all requests there.
 *
 * Details
 * After a `Blocked` failure, the handler starts no delivery in the integration for a minute. Then its deliveries are tried, until one of
 * them fails with `Blocked` again. If the whole account refuses requests, one failure counts for all integrations that wait for the account.
 *
 * Gotchas
 * - The waits are not stored, because one process runs all deliveries of an integration: the owner of its shard. After a restart, or when
 *   the shard has moved, the deliveries are tried as soon as they are due.
 * - A handler that needs no request to the API never waits here.
 */
import type { Blocked } from "../../plugin/Failure.ts"
import { blockedWait } from "./Retry.ts"

export const make = () => {
  /** For each handler, what each integration waits for: its account, or only itself. */
  const waiting = new Map<number, Map<string, string>>()
  /** The end of each wait, our clock, in ms. */
  const ends = new Map<string, number>()

  /** If the clock was set back, the wait is over   (W4). */
  const isActive = (end: number | undefined, now: number): boolean =>
    end !== undefined && end > now && end - now <= blockedWait
  const endIn = (handler: number, integration: string) => ends.get(waiting.get(handler)?.get(integration) ?? "")

  return {
    /** The handler failed with `Blocked` in the integration. Returns whether this is new: there was no such failure in the last two minutes. */
    add: (handler: number, integration: string, { account }: Blocked, now: number): boolean => {
      const awaited = account === null ? `${handler} ${integration}` : `account ${account}`
      const isNew = now - (ends.get(awaited) ?? -Infinity) > blockedWait
      ends.set(awaited, now + blockedWait)
      const own = waiting.get(handler) ?? new Map<string, string>()
      waiting.set(handler, own.set(integration, awaited))
      return isNew
    },
    has: (handler: number, integration: string, now: number): boolean => isActive(endIn(handler, integration), now),
    of: (handler: number, now: number): ReadonlyArray<string> =>
      [...waiting.get(handler) ?? []].flatMap(([id, awaited]) => isActive(ends.get(awaited), now) ? [id] : []),
    /** When the next wait ends; `Infinity` if there is none. */
    wakeAt: (now: number): number => {
      let next = Infinity
      for (const [awaited, end] of ends) {
        if (isActive(end, now)) next = Math.min(next, end)
        else if (now - end > blockedWait) ends.delete(awaited)
      }
      return next
    }
  }
}

export type BlockedIntegrations = ReturnType<typeof make>
