/**
 * A consumer of the event stream that lives longer than the service: it resumes where it stood, and remembers all it saw.
 *
 * Gotchas
 * - Of each event it keeps a hash: enough to tell that it never reads otherwise later.
 */
import { hash } from "node:crypto"

/** An event as the HTTP API gives it. */
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

/** Of all that it says. */
export const digest = (event: Event): string => hash("sha256", JSON.stringify(event), "base64url")

export class Follower {
  /** Position → digest of the event there. */
  readonly seen = new Map<string, string>()
  /** What a consumer must never meet, in words. */
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
        this.complaints.push(`continuing from ${this.#last} was answered ${response.status}: ${await response.text()}`)
        return
      }
      let rest = ""
      for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
        const blocks = (rest + text).split("\n\n")
        rest = blocks.pop()!
        for (const block of blocks) this.#take(block)
      }
    } catch (cause) {
      // a killed process breaks the connection (TypeError), the end of a life aborts it (DOMException)
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
    if (this.seen.has(id)) this.complaints.push(`position ${id} came twice`)
    this.seen.set(id, digest(JSON.parse(data)))
  }
}
