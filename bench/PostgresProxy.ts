/**
 * A proxy in front of PostgreSQL. It counts the round trips of each transaction, and can delay what clients send, like a
 * server that is far away.
 *
 * Gotchas
 * - The connections must not be encrypted.
 */
import { connect, createServer, type Server, type Socket } from "node:net"

export interface Transaction {
  /** The client sent something after the server had answered everything before. */
  roundTrips: number
  /** Sent by the client. */
  bytes: number
  /** From the first message of the client until it has the last answer. */
  millis: number
}

/** Calls `seen` with the type and the last byte of each message of one direction. The first message of a client has no type. */
const messages = (isTyped: boolean, seen: (type: string, last: string) => void) => {
  let typed = isTyped
  let unread = Buffer.alloc(0)
  /** Returns whether the last message is incomplete. */
  return (chunk: Buffer): boolean => {
    unread = Buffer.concat([unread, chunk])
    for (;;) {
      const start = Number(typed)
      if (unread.length < start + 4) return unread.length > 0
      const end = start + unread.readUInt32BE(start)
      if (unread.length < end) return true
      seen(typed ? String.fromCharCode(unread[0]!) : "", String.fromCharCode(unread[end - 1]!))
      typed = true
      unread = unread.subarray(end)
    }
  }
}

export class PostgresProxy {
  /** The database behind the proxy. */
  readonly url: string
  /** How long each message of a client takes to the server. */
  delayMillis = 0
  /** In the order of their ends. A statement outside of a transaction is one too. */
  readonly transactions: Array<Transaction> = []
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(database: string, server: Server) {
    const target = new URL(database)
    const address = server.address()
    if (address === null || typeof address === "string") throw new Error("the proxy has no port")
    this.url = Object.assign(new URL(database), { host: `127.0.0.1:${address.port}` }).href
    this.#server = server
    server.on("connection", (client) => this.#forward(client, target))
  }

  static async start(database: string): Promise<PostgresProxy> {
    const server = createServer({ noDelay: true })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return new PostgresProxy(database, server)
  }

  #forward(client: Socket, target: URL): void {
    const database = connect({ host: target.hostname, port: Number(target.port || 5432), noDelay: true })
    for (const [socket, other] of [[client, database], [database, client]] as const) {
      this.#sockets.add(socket)
      socket.on("error", () => other.destroy()).on("close", () => {
        other.destroy()
        this.#sockets.delete(socket)
      })
    }
    // the answer to the startup ends with the same message as that to a query
    let unanswered = 1
    let isIncomplete = false
    let isWaiting = true
    let current: Transaction & { startedAt: number } | null = null
    const sent = messages(false, (type) => {
      // query, sync
      isIncomplete = type !== "Q" && type !== "S"
      if (!isIncomplete) unanswered++
    })
    const answered = messages(true, (type, status) => {
      // ready for query; idle, in a transaction or in a failed one
      if (type !== "Z") return
      unanswered--
      isWaiting = unanswered > 0 || isIncomplete
      if (isWaiting || status !== "I" || current === null) return
      const { startedAt, ...ended } = current
      this.transactions.push({ ...ended, millis: performance.now() - startedAt })
      current = null
    })
    client.on("data", (chunk) => {
      if (!isWaiting) {
        current ??= { roundTrips: 0, bytes: 0, millis: 0, startedAt: performance.now() }
        current.roundTrips++
        isWaiting = true
      }
      if (current !== null) current.bytes += chunk.length
      if (sent(chunk)) isIncomplete = true
      if (this.delayMillis === 0) database.write(chunk)
      else setTimeout(() => database.write(chunk), this.delayMillis)
    })
    database.on("data", (chunk) => {
      answered(chunk)
      client.write(chunk)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
