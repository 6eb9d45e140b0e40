/**
 * The share of this process in the state of the fleet. Its readiness depends on the streams of its share, and it exports the gauges of
 * its share, so that a sum over all processes counts a value of the store once. The share contains all scopes that the process owns. The
 * share of the process that started first also contains the scopes that no living process with an operating API owns.
 *
 * Gotchas
 * - For a moment after a takeover a stream may be in two shares, or in none. A process
 *   that cannot read the list, or is not listed because it cannot write to the store, has everything in its share.
 */
import { captureScopeOf, captureScopes, dispatchScope } from "../../domain/Shard.ts"
import { relayReader } from "../../store/EventLog.ts"
import type { FleetProcess } from "../../store/Processes.ts"

export interface Share {
  /** True if the streams of the integration are in the share. */
  readonly ofIntegration: (integration: string) => boolean
  /** True if publishing is in the share. */
  readonly ofRelay: boolean
  /** True if the numbers of deliveries, of all shards together, are in the share. */
  readonly ofDeliveries: boolean
  /** True if the state of the fleet is in the share. */
  readonly ofFleet: boolean
  /** How many processes are alive. */
  readonly alive: number
  /** How many shards of the streams this process owns. */
  readonly shards: number
  /** How many shards of the streams no living process owns. */
  readonly unowned: number
}

/** `self`: the id of this process. `processes`: in the order in which they started. */
export const make = (self: string, processes: ReadonlyArray<FleetProcess>): Share => {
  const alive = processes.filter(({ state }) => state === "alive")
  const isListed = processes.some(({ id }) => id === self)
  // a process without an operating API cannot be queried
  const asked = alive.filter(({ address, id }) => address !== null || id === self)
  const first = asked[0]?.id
  const isHere = (isOwned: (scope: string) => boolean): boolean =>
    !isListed || (asked.find(({ scopes }) => scopes.some(isOwned))?.id ?? first) === self
  const shards = new Set(captureScopes)
  const owned = new Set(alive.flatMap(({ scopes }) => scopes.filter((scope) => shards.has(scope))))
  return {
    ofIntegration: (integration) => isHere((scope) => scope === captureScopeOf(integration)),
    ofRelay: isHere((scope) => scope === relayReader),
    ofDeliveries: isHere((scope) => scope === dispatchScope),
    ofFleet: !isListed || first === self,
    alive: Math.max(1, alive.length),
    shards: processes.find(({ id }) => id === self)?.scopes.filter((scope) => shards.has(scope)).length ?? 0,
    unowned: isListed ? shards.size - owned.size : 0
  }
}
