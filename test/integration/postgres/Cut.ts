/** A line to a server that a test cuts, before or after something it said has arrived. */
import * as Effect from "effect/Effect"
import { connect, createServer, type Server, type Socket } from "node:net"

/** What is said from now on is counted: at the `nth` the line is cut, after it was heard or before. */
export interface Cut {
  readonly nth: number
  readonly heard: boolean
  /** Happens as the line is cut. */
  readonly meanwhile?: () => void
}

/** The same database over a line of its own, and what cuts that. */
export const line = (database: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly server: Server; readonly url: string; readonly cut: (how: Cut) => void }>((resume) => {
      const target = new URL(database)
      let cut: Cut | null = null
      let said = 0
      const server = createServer((near) => {
        const far = connect({ host: target.hostname, port: Number(target.port || 5432), noDelay: true })
        const end = (socket: Socket) => () => socket.destroy()
        near.on("error", end(far)).on("close", end(far))
        far.on("error", end(near)).on("close", end(near))
        far.pipe(near)
        near.on("data", (chunk) => {
          const isLast = cut !== null && ++said === cut.nth
          if (!isLast || cut?.heard === true) far.write(chunk)
          if (!isLast) return
          cut?.meanwhile?.()
          cut = null
          far.unpipe(near)
          // the server goes on with what it heard; its answer gets nowhere
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
            said = 0
            cut = how
          }
        }))
      })
    }),
    ({ server }) => Effect.sync(() => server.close())
  )
