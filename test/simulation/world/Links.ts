/** The records that other records embed: candidates with their tags, jobs and scales. Changing one changes what others show. */
import type { Json, Linked } from "./Table.ts"

const year = 365 * 86_400_000

export class Links {
  readonly #start: number
  /** By integration and number. */
  readonly candidates = new Map<string, Linked>()
  readonly jobs = new Map<string, Linked>()
  readonly scales = new Map<string, Linked>()
  /** Names of tags by integration and candidate; only plugins write them. */
  readonly #tags = new Map<string, Array<string>>()

  constructor(start: number) {
    this.#start = start
  }

  /** The linked record with this number. */
  get(links: Map<string, Linked>, integration: string, number: Json | undefined): Linked {
    const key = `${integration}/${String(number)}`
    const known = links.get(key)
    if (known !== undefined) return known
    const fresh = { name: `named ${key}`, changedAt: this.#start - year }
    links.set(key, fresh)
    return fresh
  }

  /** Changes its time and perhaps its name. Two contents of one candidate never have the same time. */
  change(
    links: Map<string, Linked>,
    integration: string,
    number: Json | undefined,
    at: number,
    name?: string
  ): Linked {
    const before = this.get(links, integration, number)
    const linked = { name: name ?? before.name, changedAt: Math.max(at, before.changedAt + 1) }
    links.set(`${integration}/${String(number)}`, linked)
    return linked
  }

  tagsOf(integration: string, id: string): ReadonlyArray<Json> {
    return (this.#tags.get(`${integration}/${id}`) ?? []).map((name) => ({ id: `t-${name}`, name }))
  }

  /** Adds a tag to a candidate or removes it. */
  tag(integration: string, id: string, name: string, present: boolean): void {
    const others = (this.#tags.get(`${integration}/${id}`) ?? []).filter((other) => other !== name)
    this.#tags.set(`${integration}/${id}`, present ? [...others, name] : others)
  }
}
