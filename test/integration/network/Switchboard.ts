/**
 * A server that forwards each request to one of several servers, and keeps what it received. The first segment of the path names the
 * server; the requests of other paths go to the server `others`.
 */
import { createServer, type IncomingHttpHeaders, request } from "node:http"
import type { AddressInfo } from "node:net"

export interface Received {
  /** The name of the server. */
  readonly to: string
  readonly headers: IncomingHttpHeaders
}

export class Switchboard {
  /** The origin of each server. */
  readonly servers: Record<string, string> = {}
  readonly received: Array<Received> = []
  #changed: () => void = () => {}
  readonly #server = createServer((incoming, response) => {
    const { headers, method, url: path = "/" } = incoming
    const [, first = "", rest = ""] = /^\/([^/]*)(.*)$/.exec(path) ?? []
    const to = first in this.servers ? first : "others"
    this.received.push({ to, headers })
    this.#changed()
    const onward = request(`${this.servers[to]}${to === first ? rest : path}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on("error", () => response.destroy())
    incoming.pipe(onward)
  })

  static async start(): Promise<Switchboard> {
    const board = new Switchboard()
    await new Promise<void>((resolve) => board.#server.listen(0, "127.0.0.1", resolve))
    return board
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Waits until each of these servers had a request. */
  async untilReceived(names: ReadonlyArray<string>): Promise<void> {
    while (!names.every((name) => this.received.some(({ to }) => to === name))) {
      await new Promise<void>((resolve) => this.#changed = resolve)
    }
  }

  [Symbol.dispose](): void {
    this.#server.close().closeAllConnections()
  }
}
