/**
 * The connections of kafkajs to brokers with an IPv6 address.
 *
 * Gotchas
 * - kafkajs splits the configured address of a broker at its first colon. It therefore gets the address without brackets and with `~`
 *   in place of each colon of the host, and its sockets connect to the real address. Addresses that brokers report are not split.
 */
import type { ISocketFactory } from "kafkajs"
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
