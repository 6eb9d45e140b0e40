/**
 * The share of this process in the state of the fleet. Its readiness depends on the streams of its share, and it exports the gauges of
 * its share, so that a sum over all processes counts a value of the store once. The share is what the process owns; the process that
 * started first also has what no living process with an operating API owns.
 *
 * Gotchas
 * - For a moment after a takeover a stream may be in two shares, or in none. A process
 *   that cannot read the list, or is not listed because it cannot write to the store, has everything in its share.
 */
import { captureScopeOf, captureScopes, dispatchScope } from "../../domain/Shard.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import { relayReader } from "../../store/Store.ts"

export interface Share {
  /** The streams of an integration. */
  readonly ofIntegration: (integration: string) => boolean
  /** Publishing. */
  readonly ofRelay: boolean
  /** The numbers of deliveries, of all shards together. */
  readonly ofDeliveries: boolean
  /** The fleet itself. */
  readonly ofFleet: boolean
  /** How many processes are alive. */
  readonly alive: number
  /** How many shards of the streams this process owns. */
  readonly shards: number
  /** How many shards of the streams no living process owns. */
  readonly unowned: number
}

/** `self`: the id of this process. `processes`: in the order of their starts. */
export const make = (self: string, processes: ReadonlyArray<FleetProcess>): Share => {
  const alive = processes.filter(({ state }) => state === "alive")
  const isListed = processes.some(({ id }) => id === self)
  // a process without an operating API can be asked for nothing
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
