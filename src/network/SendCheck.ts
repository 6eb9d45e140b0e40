/**
 * Checks a request again when its connection is open. The account may have been paused, or the request's slot may have expired, while the
 * request waited for the address of the host, for the connection and for TLS.
 *
 * Gotchas
 * - node:http gives a request to a socket that is still connecting, and the socket sends it as soon as it is connected. The check is the
 *   first listener of that event, so if it fails, nothing is sent.
 * - A connection that is reused is open already, so its requests need no second check.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type { Agent } from "node:http"

/** Returns why the request of this fiber must no longer be sent, or null. */
const SendCheck = Context.Reference<() => unknown>("rollcall/network/SendCheck", { defaultValue: () => () => null })

/** `check` must be synchronous. If it fails, the request fails, and its `cause` is the error of the check. */
export const withSendCheck = (check: Effect.Effect<void, Error>) => <A, E, R>(request: Effect.Effect<A, E, R>) =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.provideService(request, SendCheck, () => {
      const exit = Effect.runSyncExitWith(context)(check)
      return Exit.isSuccess(exit) ? null : Cause.squash(exit.cause)
    })
  )

/** An agent that runs the check of `withSendCheck`. */
export const checking = <A extends Agent>(agent: A): A => {
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, done) => {
    const check = Fiber.getCurrent()?.getRef(SendCheck)
    const run = (socket: ReturnType<typeof connect>) => {
      const obstacle = check?.()
      if (obstacle instanceof Error) socket?.destroy(obstacle)
    }
    // The callback gets a tunnel through a proxy when the tunnel is open. If the proxy refuses it, nothing is sent, and an error of its
    // socket would have no listener and end the process.
    // Without the time after which the agent closes idle connections: for node:https it is also the limit for opening a tunnel.
    const socket = connect({ ...options, timeout: undefined }, (error, tunnel) => {
      if (!(error instanceof Error)) run(tunnel)
      done?.(error, tunnel)
    })
    // over TLS, the first of these events comes too early: the request is sent after the second one
    for (const event of ["connect", "secureConnect"]) socket?.once(event, () => run(socket))
    return socket
  }
  return agent
}
