/**
 * Corrections of kafkajs: brokers with an IPv6 address, and a timer that this module replaces when it is imported.
 *
 * Gotchas
 * - kafkajs splits the configured address of a broker at its first colon. It therefore gets the address without brackets and with `~`
 *   in place of each colon of the host, and its sockets connect to the real address. Addresses that brokers report are not split.
 * - After each response, a connection of kafkajs looks for requests that wait, and sets a timer for its next look. The duration of that
 *   timer is negative, so an idle connection looks nearly a thousand times a second, which takes 2 % of a core. No option prevents that.
 *   The timer is now set only while a request waits.
 * - The class with the timer is internal. A test fails if it is different in a new version.
 */
import type { ISocketFactory } from "kafkajs"
import { createRequire } from "node:module"
import { connect, isIP } from "node:net"
import { connect as connectWithTls } from "node:tls"

/** `broker`: `host:port`, with an IPv6 address in brackets. */
export const kafkaJsAddress = (broker: string): string => {
  const [, host = "", port = ""] = /^\[(.+)\]:(\d+)$/.exec(broker) ?? []
  return host === "" ? broker : `${host.replaceAll(":", "~")}:${port}`
}

/** As for the sockets that kafkajs makes itself. */
const keepAliveMillis = 60_000

export const socketFactory: ISocketFactory = ({ host: given, onConnect, port, ssl }) => {
  const host = given.replaceAll("~", ":")
  // without encryption kafkajs passes the `false` that it was given, although its type does not say so
  const tls = ssl as typeof ssl | false
  const socket = tls === false
    ? connect({ host, port }, onConnect)
    : connectWithTls({ host, port, ...isIP(host) === 0 ? { servername: host } : {}, ...tls }, onConnect)
  return socket.setKeepAlive(true, keepAliveMillis)
}

interface RequestQueue {
  readonly pending: ReadonlyArray<unknown>
  scheduleCheckPendingRequests: () => void
}

const { prototype }: { readonly prototype: RequestQueue } = createRequire(import.meta.url)(
  "kafkajs/src/network/requestQueue/index.js"
)
const { scheduleCheckPendingRequests } = prototype

prototype.scheduleCheckPendingRequests = function() {
  if (this.pending.length > 0) scheduleCheckPendingRequests.call(this)
}
