/**
 * What a living service claims of its completeness, held against the world: a record that was in a list by `complete_to`, and was never
 * deleted in the world or in the log, has an event at or before the `position` of that claim.
 *
 * Gotchas
 * - Who was there when is known from looking at the world itself, not from the timestamps that the API shows.
 */
import { streamModels } from "../../../src/domain/Model.ts"
import type { StreamView } from "../../../src/http/streams/StreamApi.ts"
import type * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import type { Event } from "./Follower.ts"
import { keyOf } from "./Oracle.ts"

type World = Pick<Sandbox.SandboxHandle, "integrations" | "world">

const placeOf = (position: string): number => Number(position.split("-")[2])

/** `Date` has whole seconds. */
const slack = 1_000

export class Claims {
  readonly #seen: Array<{ readonly at: number; readonly keys: ReadonlySet<string> }> = []
  /** Deleted, and brought back: they may have been told as deleted in between, or not at all. */
  readonly #restored = new Set<string>()
  readonly #claims: Array<{ readonly stream: string; readonly to: number; readonly position: number }> = []

  /** Claims that were heard. */
  get size(): number {
    return this.#claims.length
  }

  /** Notes which records are there now. */
  look({ integrations, world }: World): void {
    const at = Date.now()
    const keys = integrations.flatMap((integration) =>
      streamModels.filter((model) => world.hasModel(integration, model)).flatMap((model) =>
        [...world.truth(integration, model).keys()].map((id) => keyOf({ integration, model, id }))
      )
    )
    this.#seen.push({ at, keys: new Set(keys) })
    for (const mutation of world.log) if (mutation.kind.includes("restore")) this.#restored.add(keyOf(mutation))
  }

  hear(streams: ReadonlyArray<StreamView>): void {
    for (const { complete_to, position, stream } of streams) {
      if (complete_to === null) continue
      this.#claims.push({ stream, to: Date.parse(complete_to), position: placeOf(position) })
    }
  }

  /** Claims that were not true, in words. `world`: what is there in the end. */
  broken(events: ReadonlyArray<Event>, world: ReadonlyMap<string, unknown>): ReadonlyArray<string> {
    const told = new Map<string, number>()
    const deleted = new Set<string>()
    for (const event of events) {
      const key = keyOf(event.data)
      if (event.data.kind === "deleted") deleted.add(key)
      if (!told.has(key)) told.set(key, placeOf(event.position))
    }
    return this.#claims.flatMap(({ position, stream, to }) => {
      const seen = this.#seen.findLast(({ at }) => at <= to - slack)
      const missing = [...seen?.keys ?? []].filter((key) =>
        key.startsWith(`${stream}/`) && world.has(key) && !deleted.has(key) && !this.#restored.has(key) &&
        (told.get(key) ?? Infinity) > position
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
