/**
 * A consumer of the event stream that outlives the service: it resumes where it stopped, and remembers every event.
 *
 * Gotchas
 * - It keeps a hash of each event, to detect that a later read returns another content.
 */
import { hash } from "node:crypto"

/** An event as the HTTP API returns it. */
export interface Event {
  readonly id: string
  readonly position: string
  readonly data: {
    readonly integration: string
    readonly model: string
    readonly id: string
    readonly version: number
    readonly kind: "created" | "updated" | "deleted"
    readonly before: unknown
    readonly after: unknown
  }
}

/** A hash of the whole event. */
export const digest = (event: Event): string => hash("sha256", JSON.stringify(event), "base64url")

export class Follower {
  /** Position → digest of the event there. */
  readonly seen = new Map<string, string>()
  /** Violations that a consumer must never see, in words. */
  readonly complaints: Array<string> = []
  #last: string | undefined

  /** Follows the service at this address until the connection ends, however it ends. */
  async follow(url: string, signal: AbortSignal): Promise<void> {
    try {
      const response = await fetch(`${url}/v1/events?limit=1000`, {
        signal,
        headers: { accept: "text/event-stream", ...(this.#last !== undefined && { "last-event-id": this.#last }) }
      })
      if (response.status !== 200) {
        this.complaints.push(`continuing from ${this.#last} returned ${response.status}: ${await response.text()}`)
        return
      }
      let rest = ""
      for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
        const blocks = (rest + text).split("\n\n")
        rest = blocks.pop()!
        for (const block of blocks) this.#take(block)
      }
    } catch (cause) {
      // a killed process breaks the connection (TypeError); the end of a life aborts it (DOMException)
      if (!(cause instanceof TypeError || cause instanceof DOMException)) throw cause
    }
  }

  #take(block: string): void {
    let id: string | undefined
    let data: string | undefined
    for (const line of block.split("\n")) {
      if (line.startsWith("id: ")) id = line.slice(4)
      if (line.startsWith("data: ")) data = line.slice(6)
    }
    if (id !== undefined) this.#last = id
    if (id === undefined || data === undefined) return
    if (this.seen.has(id)) this.complaints.push(`position ${id} was sent twice`)
    this.seen.set(id, digest(JSON.parse(data)))
  }
}
