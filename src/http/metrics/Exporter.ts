/**
 * Decides which process of a fleet exports a gauge whose value is in the store, so that a sum over all processes counts it once: the
 * owner, or the process that started first if no living process is the owner.
 *
 * Gotchas
 * - For a moment after a takeover both processes may export a gauge, or neither. A process that cannot read the list exports all.
 */
import { captureScopeOf, captureScopes } from "../../domain/Shard.ts"
import type { FleetProcess } from "../../store/Processes.ts"

export interface Exporter {
  /** Gauges of the streams of an integration. */
  readonly ofIntegration: (integration: string) => boolean
  /** Gauges of plugins. */
  readonly ofDeliveries: boolean
  /** Gauges of the whole fleet. */
  readonly ofFleet: boolean
  /** How many processes are alive. */
  readonly alive: number
  /** How many shards this process owns. */
  readonly shards: number
}

/** `self`: the id of this process. `processes`: in the order of their starts. */
export const make = (self: string, processes: ReadonlyArray<FleetProcess>): Exporter => {
  const alive = processes.filter(({ state }) => state === "alive")
  const first = alive[0]?.id ?? self
  const isExportedHere = (isOwned: (scope: string) => boolean): boolean =>
    (alive.find(({ scopes }) => scopes.some(isOwned))?.id ?? first) === self
  const shards = new Set(captureScopes)
  return {
    ofIntegration: (integration) => isExportedHere((scope) => scope === captureScopeOf(integration)),
    ofDeliveries: isExportedHere((scope) => scope === "delivery" || scope.startsWith("delivery/")),
    ofFleet: first === self,
    alive: Math.max(1, alive.length),
    shards: processes.find(({ id }) => id === self)?.scopes.filter((scope) => shards.has(scope)).length ?? 0
  }
}
