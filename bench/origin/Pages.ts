/**
 * The pages of the origin's list. Every page is built once and kept until something changes, and the pages of the full list are
 * built again at once after each change.
 */
import { type Applications, type ChangeMode, oldestChange } from "./Applications.ts"

export interface Page {
  readonly count: number
  readonly body: Buffer
}

const maxSize = 250
const time = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?)?Z?$/
const comma = Buffer.from(",")
const end = Buffer.from(`]},"warnings":[]}`)

export class Pages {
  readonly #applications: Applications
  /** Indexes of the applications of a list, by its filter. */
  readonly #lists = new Map<string, ReadonlyArray<number>>()
  readonly #pages = new Map<string, Page>()
  /** Page sizes that were requested. */
  readonly #sizes = new Set([maxSize])
  #hasDeleted = false

  constructor(applications: Applications) {
    this.#applications = applications
    this.#prepare()
  }

  change(count: number, mode: ChangeMode, seed: number): number {
    const changed = this.#applications.change(count, mode, seed, Date.now())
    this.#hasDeleted ||= mode === "delete"
    this.#lists.clear()
    this.#pages.clear()
    this.#prepare()
    return changed
  }

  /** The page of a request; null if the request is malformed. */
  read(query: URLSearchParams): Page | null {
    const size = Number(query.get("page_size") ?? 100)
    if (!Number.isInteger(size) || size < 1 || size > maxSize) return null
    const after = query.get("updated_after")
    if (after !== null && !time.test(after)) return null
    const since = after === null ? -Infinity : Date.parse(after)
    const withDeleted = query.get("include_deleted") === "true"
    const ids = query.get("ids") ?? query.get("remote_ids")
    if (ids !== null) return this.#byIds(ids.split(","), query.has("ids"), since, withDeleted, size)
    const cursor = query.get("cursor")
    const offset = cursor === null ? 0 : Number(Buffer.from(cursor, "base64url").toString())
    if (!Number.isInteger(offset) || offset < 0) return null
    this.#sizes.add(size)
    return this.#page(since < oldestChange ? -Infinity : since, withDeleted, size, offset)
  }

  #isListed(index: number, since: number, withDeleted: boolean): boolean {
    const { changedAt, deletedAt } = this.#applications
    return (withDeleted || deletedAt[index] === 0) && changedAt[index]! >= since
  }

  #byIds(ids: ReadonlyArray<string>, own: boolean, since: number, withDeleted: boolean, size: number): Page {
    const { byId, byRemoteId } = this.#applications
    const found = ids.flatMap((id) => (own ? byId : byRemoteId).get(id) ?? []).filter((index) =>
      this.#isListed(index, since, withDeleted)
    ).slice(0, size)
    return { count: found.length, body: this.#body(found, null) }
  }

  #list(key: string, since: number, withDeleted: boolean): ReadonlyArray<number> {
    const known = this.#lists.get(key)
    if (known !== undefined) return known
    const list: Array<number> = []
    for (let index = 0; index < this.#applications.count; index++) {
      if (this.#isListed(index, since, withDeleted)) list.push(index)
    }
    this.#lists.set(key, list)
    return list
  }

  #page(since: number, withDeleted: boolean, size: number, offset: number): Page {
    const listKey = `${since}|${withDeleted && this.#hasDeleted}`
    const key = `${listKey}|${size}|${offset}`
    const known = this.#pages.get(key)
    if (known !== undefined) return known
    const list = this.#list(listKey, since, withDeleted)
    const shown = list.slice(offset, offset + size)
    const next = offset + size < list.length ? Buffer.from(String(offset + size)).toString("base64url") : null
    const page = { count: shown.length, body: this.#body(shown, next) }
    this.#pages.set(key, page)
    return page
  }

  #body(indexes: ReadonlyArray<number>, next: string | null): Buffer {
    const parts: Array<Uint8Array> = [
      Buffer.from(`{"status":"success","data":{"next":${JSON.stringify(next)},"results":[`)
    ]
    indexes.forEach((index, place) => {
      if (place > 0) parts.push(comma)
      parts.push(this.#applications.bodies[index]!)
    })
    return Buffer.concat([...parts, end])
  }

  #prepare(): void {
    for (const size of this.#sizes) {
      for (const withDeleted of [false, true]) {
        for (let offset = 0; offset < this.#applications.count; offset += size) {
          this.#page(-Infinity, withDeleted, size, offset)
        }
      }
    }
  }
}
