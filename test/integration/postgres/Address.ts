/** A fixed address that can lead to another server, like a proxy or a DNS name in a failover. */
import * as Effect from "effect/Effect"
import { connect, createServer, type Socket } from "node:net"

/** Leads to the server of this URL first. */
export const address = (first: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly lead: (to: string) => void; readonly close: () => void }>(
      (resume) => {
        let target = new URL(first)
        const sockets = new Set<Socket>()
        const server = createServer((near) => {
          const far = connect({ host: target.hostname, port: Number(target.port), noDelay: true })
          for (const [one, other] of [[near, far], [far, near]] as const) {
            sockets.add(one)
            one.on("error", () => other.destroy()).on("close", () => {
              sockets.delete(one)
              other.destroy()
            })
          }
          near.pipe(far).pipe(near)
        })
        server.listen(0, "127.0.0.1", () => {
          const listening = server.address()
          const url = new URL(first)
          url.port = String(typeof listening === "object" && listening !== null ? listening.port : 0)
          const cut = () => {
            for (const socket of sockets) socket.destroy()
          }
          resume(Effect.succeed({
            url: url.href,
            /** Cuts every connection; new ones lead to the server of this URL. */
            lead: (to) => {
              target = new URL(to)
              cut()
            },
            close: () => {
              server.close()
              cut()
            }
          }))
        })
      }
    ),
    ({ close }) => Effect.sync(close)
  )
