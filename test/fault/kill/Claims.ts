/**
 * Compares the completeness that a running service claims with the world: a record that was in a list by `complete_to`, and was never
 * deleted in the world or in the log, has an event at or before the `position` of that claim.
 *
 * Gotchas
 * - Which records existed when is read from the world itself, not from the timestamps that the API shows.
 */
import { readModels } from "../../../src/domain/BuiltInModels.ts"
import type { StreamView } from "../../../src/http/contract/StreamApi.ts"
import type * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import type { Event } from "./Follower.ts"
import { keyOf } from "./Oracle.ts"

type World = Pick<Sandbox.SandboxHandle, "integrations" | "world">

const positionOf = (position: string): number => Number(position.split("-")[2])

/** `Date` has a resolution of one second. */
const dateResolution = 1_000

export class Claims {
  readonly #seen: Array<{ readonly at: number; readonly keys: ReadonlySet<string> }> = []
  /** Records that were deleted and restored: they may have been published as deleted in between, or not. */
  readonly #restored = new Set<string>()
  readonly #claims: Array<{ readonly stream: string; readonly to: number; readonly position: number }> = []

  /** Number of claims that were read. */
  get size(): number {
    return this.#claims.length
  }

  /** Notes which records exist now. */
  noteRecords({ integrations, world }: World): void {
    const at = Date.now()
    const keys = integrations.flatMap((integration) =>
      readModels.filter((model) => world.hasModel(integration, model)).flatMap((model) =>
        [...world.truth(integration, model).keys()].map((id) => keyOf({ integration, model, id }))
      )
    )
    this.#seen.push({ at, keys: new Set(keys) })
    for (const mutation of world.log) if (mutation.kind.includes("restore")) this.#restored.add(keyOf(mutation))
  }

  add(streams: ReadonlyArray<StreamView>): void {
    for (const { complete_to, position, stream } of streams) {
      if (complete_to === null) continue
      this.#claims.push({ stream, to: Date.parse(complete_to), position: positionOf(position) })
    }
  }

  /** Claims that were wrong, in words. `world`: the records that exist at the end. */
  broken(events: ReadonlyArray<Event>, world: ReadonlyMap<string, unknown>): ReadonlyArray<string> {
    const firstPositions = new Map<string, number>()
    const deleted = new Set<string>()
    for (const event of events) {
      const key = keyOf(event.data)
      if (event.data.kind === "deleted") deleted.add(key)
      if (!firstPositions.has(key)) firstPositions.set(key, positionOf(event.position))
    }
    return this.#claims.flatMap(({ position, stream, to }) => {
      const seen = this.#seen.findLast(({ at }) => at <= to - dateResolution)
      const missing = [...seen?.keys ?? []].filter((key) =>
        key.startsWith(`${stream}/`) && world.has(key) && !deleted.has(key) && !this.#restored.has(key) &&
        (firstPositions.get(key) ?? Infinity) > position
      )
      return missing.length === 0
        ? []
        : [
          `${stream} was complete to ${new Date(to).toISOString()} at ${position} without ${missing.length} records [${
            missing.slice(0, 3).join(" ")
          }]`
        ]
    })
  }
}
