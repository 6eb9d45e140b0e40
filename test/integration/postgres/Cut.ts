/** A connection to a server that a test cuts before or after a message of the client has arrived. */
import * as Effect from "effect/Effect"
import { connect, createServer, type Server, type Socket } from "node:net"

/** Messages of the client are counted from now on: at the `nth` the connection is cut, before or after the server has received it. */
export interface Cut {
  readonly nth: number
  readonly delivered: boolean
  /** Only messages with this text count. */
  readonly containing?: string
  /** Runs when the connection is cut. */
  readonly meanwhile?: () => void
}

/** The same database over its own proxy, and a function that cuts the connection. */
export const cuttable = (database: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly server: Server; readonly url: string; readonly cut: (how: Cut) => void }>((resume) => {
      const target = new URL(database)
      let cut: Cut | null = null
      let sent = 0
      const server = createServer((near) => {
        const far = connect({ host: target.hostname, port: Number(target.port || 5432), noDelay: true })
        const end = (socket: Socket) => () => socket.destroy()
        let isDelivered = false
        // the server runs all statements that it received: it would stop at the first answer that it cannot send
        const close = () => isDelivered ? far.end() : far.destroy()
        near.on("error", close).on("close", close)
        far.on("error", end(near)).on("close", end(near))
        far.pipe(near)
        near.on("data", (chunk) => {
          const isLast = cut !== null && chunk.includes(cut.containing ?? "") && ++sent === cut.nth
          isDelivered = isLast && cut?.delivered === true
          if (!isLast || isDelivered) far.write(chunk)
          if (!isLast) return
          cut?.meanwhile?.()
          cut = null
          far.unpipe(near)
          // the server processes the messages that it received; its answer is dropped
          far.resume()
          near.destroy()
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const url = new URL(database)
        url.hostname = "127.0.0.1"
        url.port = String(typeof address === "object" && address !== null ? address.port : 0)
        resume(Effect.succeed({
          server,
          url: url.href,
          cut: (how) => {
            sent = 0
            cut = how
          }
        }))
      })
    }),
    ({ server }) => Effect.sync(() => server.close())
  )
