/** A TCP proxy in front of a server that a test makes silent, as proxies and networks do, and heals again. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { connect, createServer, type Server, type Socket } from "node:net"

/**
 * `frozen`: connections are accepted and stay open, nothing is forwarded until the proxy heals, and then everything is,
 * also what was sent on a connection that was closed meanwhile. `lossy`: everything that is sent is lost, and every
 * connection of that time stays dead after the proxy has healed.
 */
export type Fault = "frozen" | "lossy"

/** Of what clients send from now on the `nth` is the first that is caught, or, if it is `heard`, only its answer is. */
export interface Moment {
  readonly nth: number
  readonly heard: boolean
}

export interface SilentProxy {
  /** The same database behind the proxy. */
  readonly url: string
  readonly fail: (fault: Fault, at?: Moment) => void
  readonly heal: () => void
  /** Closes every connection and refuses new ones, as a server does that is down, until it is opened again. */
  readonly close: () => void
  readonly open: () => void
}

/** One direction of one connection. */
const direction = (
  from: Socket,
  to: Socket,
  sent: (forward: () => void) => void,
  fault: () => Fault | null,
  isDead: () => boolean
) => {
  let held: Array<Buffer | null> = []
  const pass = (chunk: Buffer | null) => {
    if (chunk === null) to.end()
    else to.write(chunk)
  }
  const take = (chunk: Buffer | null) => {
    if (isDead()) return
    if (fault() === "frozen") held.push(chunk)
    else pass(chunk)
  }
  from.on("data", (chunk) => sent(() => take(chunk))).on("end", () => take(null)).on("error", () => take(null)).on(
    "close",
    () => take(null)
  )
  return () => {
    const chunks = held
    held = []
    for (const chunk of chunks) pass(chunk)
  }
}

export const silentProxy = (database: string): Effect.Effect<SilentProxy, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly server: Server; readonly sockets: Set<Socket>; readonly proxy: SilentProxy }>(
        (resume) => {
          const target = new URL(database)
          const sockets = new Set<Socket>()
          const release = new Set<() => void>()
          let fault: Fault | null = null
          let planned: { fault: Fault; left: number; heard: boolean } | null = null
          const open = new Set<() => void>()
          const begin = (next: Fault) => {
            fault = next
            if (next === "lossy") { for (const die of open) die() }
          }
          const sent = (forward: () => void) => {
            if (planned === null || --planned.left > 0) return forward()
            const { fault, heard } = planned
            planned = null
            if (!heard) begin(fault)
            forward()
            if (heard) begin(fault)
          }
          const server = createServer({ allowHalfOpen: true }, (near) => {
            const far = connect({
              host: target.hostname,
              port: Number(target.port || 5432),
              noDelay: true,
              allowHalfOpen: true
            })
            let dead = fault === "lossy"
            open.add(() => dead = true)
            for (const socket of [near, far]) sockets.add(socket)
            release.add(direction(near, far, sent, () => fault, () => dead))
            release.add(direction(far, near, (forward) => forward(), () => fault, () => dead))
          })
          server.listen(0, "127.0.0.1").once("listening", () => {
            const address = server.address()
            const url = new URL(database)
            url.hostname = "127.0.0.1"
            url.port = String(typeof address === "object" && address !== null ? address.port : 0)
            resume(Effect.succeed({
              server,
              sockets,
              proxy: {
                url: url.href,
                fail: (next, at) => {
                  if (at === undefined) begin(next)
                  else planned = { fault: next, left: at.nth, heard: at.heard }
                },
                heal: () => {
                  fault = null
                  for (const each of release) each()
                },
                close: () => {
                  server.close()
                  for (const socket of sockets) socket.destroy()
                  sockets.clear()
                },
                open: () => {
                  server.listen(Number(url.port), "127.0.0.1")
                }
              }
            }))
          })
        }
      ),
      ({ server, sockets }) =>
        Effect.sync(() => {
          for (const socket of sockets) socket.destroy()
          server.close()
        })
    ),
    ({ proxy }) => proxy
  )
