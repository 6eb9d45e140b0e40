/**
 * A server that forwards each request to one of several servers, and keeps what it received. It is a proxy, for which the first part of a
 * host's name is the name of the server. For requests to itself, the first segment of the path is that name, and the requests of other
 * paths go to the server `others`.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from "node:http"
import { type AddressInfo, connect } from "node:net"

export interface Received {
  /** The name of the server. */
  readonly to: string
  readonly headers: IncomingHttpHeaders
  /** Whether the client asked for a connection to the server. */
  readonly connects: boolean
}

export class Switchboard {
  /** The origin of each server. */
  readonly servers: Record<string, string> = {}
  readonly received: Array<Received> = []
  /** `user:password`; null: every client may use the proxy. */
  login: string | null = null
  #changed: () => void = () => {}
  readonly #server = createServer((incoming, response) => this.#forward(incoming, response))

  static async start(): Promise<Switchboard> {
    const board = new Switchboard()
    board.#server.on("connect", (incoming, client) => {
      if (!board.#isAllowed(incoming)) return client.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
      const to = board.#note(incoming, String(incoming.url).split(".", 1)[0] ?? "", true)
      const target = URL.parse(board.servers[to] ?? "")
      if (target === null) return client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n")
      const server = connect(Number(target.port), target.hostname, () => {
        client.write("HTTP/1.1 200 Connection Established\r\n\r\n")
        client.pipe(server).pipe(client)
      })
      server.on("error", () => client.destroy())
      client.on("error", () => server.destroy())
    })
    await new Promise<void>((resolve) => board.#server.listen(0, "127.0.0.1", resolve))
    return board
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  #note({ headers }: IncomingMessage, to: string, connects: boolean): string {
    this.received.push({ to, headers, connects })
    this.#changed()
    return to
  }

  #isAllowed({ headers }: IncomingMessage): boolean {
    return this.login === null ||
      headers["proxy-authorization"] === `Basic ${Buffer.from(this.login).toString("base64")}`
  }

  #forward(incoming: IncomingMessage, response: ServerResponse): void {
    const { headers, method, url = "/" } = incoming
    const [, host = "", path = url] = /^http:\/\/([^./]*)[^/]*(.*)$/.exec(url) ?? []
    const [, first = "", rest = ""] = /^\/([^/]*)(.*)$/.exec(path) ?? []
    const named = host === "" && first in this.servers
    if (host !== "" && !this.#isAllowed(incoming)) return void response.writeHead(407).end()
    const to = this.#note(incoming, host !== "" ? host : named ? first : "others", false)
    const onward = request(`${this.servers[to]}${named ? rest : path}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on("error", () => response.destroy())
    incoming.pipe(onward)
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
