/**
 * The pages of the origin's list. Every page is built once and kept until something changes, and the pages of the full list are
 * built again at once after each change.
 */
import { type Applications, oldestChange } from "./Applications.ts"

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
  /** Indexes of the applications that changed since a time. */
  readonly #lists = new Map<number, ReadonlyArray<number>>()
  readonly #pages = new Map<string, Page>()
  /** Page sizes that were requested. */
  readonly #sizes = new Set([maxSize])

  constructor(applications: Applications) {
    this.#applications = applications
    this.#prepare()
  }

  change(count: number): number {
    const changed = this.#applications.change(count, Date.now())
    this.#lists.clear()
    this.#pages.clear()
    this.#prepare()
    return changed
  }

  /** The page of a request; null if the request is malformed, or asks for records by id. */
  read(query: URLSearchParams): Page | null {
    const size = Number(query.get("page_size") ?? 100)
    if (!Number.isInteger(size) || size < 1 || size > maxSize) return null
    const after = query.get("updated_after")
    if (after !== null && !time.test(after) || query.has("ids") || query.has("remote_ids")) return null
    const since = after === null ? -Infinity : Date.parse(after)
    const cursor = query.get("cursor")
    const offset = cursor === null ? 0 : Number(Buffer.from(cursor, "base64url").toString())
    if (!Number.isInteger(offset) || offset < 0) return null
    this.#sizes.add(size)
    return this.#page(since < oldestChange ? -Infinity : since, size, offset)
  }

  #list(since: number): ReadonlyArray<number> {
    const known = this.#lists.get(since)
    if (known !== undefined) return known
    const list: Array<number> = []
    for (let index = 0; index < this.#applications.count; index++) {
      if (this.#applications.changedAt[index]! >= since) list.push(index)
    }
    this.#lists.set(since, list)
    return list
  }

  #page(since: number, size: number, offset: number): Page {
    const key = `${since}|${size}|${offset}`
    const known = this.#pages.get(key)
    if (known !== undefined) return known
    const list = this.#list(since)
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
      for (let offset = 0; offset < this.#applications.count; offset += size) this.#page(-Infinity, size, offset)
    }
  }
}
