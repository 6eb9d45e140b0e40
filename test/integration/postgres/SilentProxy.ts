/** A TCP proxy in front of a server. A test makes it stop forwarding, like a broken proxy or network, and heals it again. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { connect, createServer, type Server, type Socket } from "node:net"
import { freePort } from "../../support/services/FreePort.ts"

/**
 * `frozen`: connections are accepted and stay open, but data is forwarded only after the proxy heals, including data of
 * connections that were closed meanwhile. `lossy`: all data is lost, and every connection of that time stays dead after the
 * proxy has healed.
 */
export type Fault = "frozen" | "lossy"

/** The fault starts with the `nth` message of clients from now on; if `delivered`, that message arrives and only its answer is lost. */
export interface Moment {
  readonly nth: number
  readonly delivered: boolean
}

export interface SilentProxy {
  /** The same database behind the proxy. */
  readonly url: string
  readonly fail: (fault: Fault, at?: Moment) => void
  readonly heal: () => void
  /** How many statements clients have sent, since the proxy healed, over connections from before. */
  readonly reused: () => number
  /** Closes every connection and refuses new ones until `open`, like a server that is down. */
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
  let delayed: Array<Buffer | null> = []
  const pass = (chunk: Buffer | null) => {
    if (chunk === null) to.end()
    else to.write(chunk)
  }
  const take = (chunk: Buffer | null) => {
    if (isDead()) return
    if (fault() === "frozen") delayed.push(chunk)
    else pass(chunk)
  }
  from.on("data", (chunk) => sent(() => take(chunk))).on("end", () => take(null)).on("error", () => take(null)).on(
    "close",
    () => take(null)
  )
  return () => {
    const chunks = delayed
    delayed = []
    for (const chunk of chunks) pass(chunk)
  }
}

/** Keeps its port while it is closed. */
export const silentProxy = (database: string): Effect.Effect<SilentProxy, never, Scope.Scope> =>
  Effect.flatMap(Effect.promise(freePort), (port) => proxyAt(database, port))

const proxyAt = (database: string, port: number): Effect.Effect<SilentProxy, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly server: Server; readonly sockets: Set<Socket>; readonly proxy: SilentProxy }>(
        (resume) => {
          const target = new URL(database)
          const sockets = new Set<Socket>()
          const release = new Set<() => void>()
          let fault: Fault | null = null
          let planned: { fault: Fault; left: number; delivered: boolean } | null = null
          const open = new Set<() => void>()
          let heals = 0
          let reused = 0
          const begin = (next: Fault) => {
            fault = next
            if (next === "lossy") { for (const die of open) die() }
          }
          const sent = (forward: () => void) => {
            if (planned === null || --planned.left > 0) return forward()
            const { fault, delivered } = planned
            planned = null
            if (!delivered) begin(fault)
            forward()
            if (delivered) begin(fault)
          }
          const server = createServer({ allowHalfOpen: true }, (near) => {
            const far = connect({
              host: target.hostname,
              port: Number(target.port || 5432),
              noDelay: true,
              allowHalfOpen: true
            })
            const opened = heals
            // parse, bind or query: a connection that is closed sends another message
            near.on("data", (chunk) => {
              if (opened < heals && "PBQ".includes(String.fromCharCode(chunk[0] ?? 0))) reused++
            })
            let dead = fault === "lossy"
            open.add(() => dead = true)
            for (const socket of [near, far]) sockets.add(socket)
            release.add(direction(near, far, sent, () => fault, () => dead))
            release.add(direction(far, near, (forward) => forward(), () => fault, () => dead))
          })
          server.listen(port, "127.0.0.1").once("listening", () => {
            const url = Object.assign(new URL(database), { hostname: "127.0.0.1", port: String(port) })
            resume(Effect.succeed({
              server,
              sockets,
              proxy: {
                url: url.href,
                fail: (next, at) => {
                  if (at === undefined) begin(next)
                  else planned = { fault: next, left: at.nth, delivered: at.delivered }
                },
                heal: () => {
                  fault = null
                  heals++
                  for (const each of release) each()
                },
                reused: () => reused,
                close: () => {
                  server.close()
                  for (const socket of sockets) socket.destroy()
                  sockets.clear()
                },
                open: () => {
                  server.listen(port, "127.0.0.1")
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
