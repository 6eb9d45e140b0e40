/**
 * Checks that the event log describes the world, without any code of the service.
 *
 * Gotchas
 * - A change of `changed_at` or `remote_updated_at` alone is not counted, `remote_data` is dropped, and the order of arrays is irrelevant
 *   except in `ordered_options`: comparisons with the world ignore all of them.
 */
import type { Event } from "./Follower.ts"

/** `<integration>/<model>/<id>` → content. */
export type Contents = ReadonlyMap<string, unknown>

export const keyOf = ({ id, integration, model }: Pick<Event["data"], "id" | "integration" | "model">): string =>
  `${integration}/${model}/${id}`

interface Last {
  readonly version: number
  readonly after: string
}

const gone = JSON.stringify(null)

/** Receives the whole log in order. */
export class Oracle {
  readonly contents = new Map<string, unknown>()
  /** Violations of lifecycle, versions, positions and identity, in words. */
  readonly breaches: Array<string> = []
  readonly #last = new Map<string, Last>()
  readonly #ids = new Set<string>()
  readonly #gapless: boolean
  #position = 0

  /** `gapless: false` for a log that starts later or lacks erased events. */
  constructor({ gapless = true }: { readonly gapless?: boolean } = {}) {
    this.#gapless = gapless
  }

  add(event: Event): void {
    const { after, before, kind, version } = event.data
    const key = keyOf(event.data)
    const last = this.#last.get(key) ?? { version: 0, after: gone }
    const breach = (why: string) => this.breaches.push(`${event.position} ${key} v${version} ${kind}: ${why}`)

    const position = Number(event.position.split("-")[2])
    if (this.#gapless ? position !== this.#position + 1 : position <= this.#position) {
      breach(`follows position ${this.#position}`)
    }
    if (this.#ids.has(event.id)) breach("its event id was used before")
    if (version !== last.version + 1) breach(`follows version ${last.version}`)
    if ((kind === "created") !== (last.after === gone)) {
      breach(`the record ${last.after === gone ? "did not exist" : "already existed"}`)
    }
    if ((kind === "deleted") !== (after === null)) breach("has the wrong `after`")
    if (JSON.stringify(before) !== last.after) breach("`before` is not the previous `after`")
    if (kind === "updated" && comparable(before) === comparable(after)) breach("nothing changed")

    this.#position = position
    this.#ids.add(event.id)
    this.#last.set(key, { version, after: JSON.stringify(after) })
    if (after === null) this.contents.delete(key)
    else this.contents.set(key, after)
  }

  /** Where the fold and the world differ, outside `pending`. */
  differences(
    world: Contents,
    pending: ReadonlySet<string>
  ): ReadonlyArray<{ readonly key: string; readonly why: string }> {
    const keys = [...new Set([...this.contents.keys(), ...world.keys()])].filter((key) => !pending.has(key))
    return keys.flatMap((key) => {
      if (!world.has(key)) return [{ key, why: "not in the world" }]
      if (!this.contents.has(key)) return [{ key, why: "not in the events" }]
      const [ours, theirs] = [comparable(this.contents.get(key)), comparable(world.get(key))]
      return ours === theirs ? [] : [{ key, why: `the events have ${ours}, the world has ${theirs}` }]
    })
  }
}

const ignored: ReadonlySet<string> = new Set(["changed_at", "remote_updated_at", "remote_data"])

const comparable = (value: unknown, name = ""): string => {
  if (Array.isArray(value)) {
    const members = value.map((member) => comparable(member))
    return `[${(name === "ordered_options" ? members : members.sort()).join()}]`
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const members = Object.entries(value).filter(([key]) => !ignored.has(key))
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${comparable(member, key)}`).sort().join()}}`
}
