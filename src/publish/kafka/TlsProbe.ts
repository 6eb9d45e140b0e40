/**
 * Finds out whether a port speaks TLS although plaintext was meant, or the other way round. kafkajs only sees that its connection is
 * closed, as when a broker goes away.
 */
import * as Effect from "effect/Effect"
import { connect as connectPlainly, type Socket } from "node:net"
import { connect as connectWithTls } from "node:tls"

const timeoutMillis = 2000

/** Ends the socket, whatever happens first; false unless `found` says otherwise. */
const probe = (open: (found: (is: boolean) => void) => Socket): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const found = (is: boolean) => {
      socket.destroy()
      resume(Effect.succeed(is))
    }
    const socket = open(found)
    socket.setTimeout(timeoutMillis, () => found(false))
    socket.on("error", () => found(false)).on("close", () => found(false))
    return Effect.sync(() => socket.destroy())
  })

/** Whose certificate it is does not matter here, and nothing is sent. */
const speaksTls = (host: string, port: number) =>
  probe((found) => connectWithTls({ host, port, rejectUnauthorized: false }, () => found(true)))

/** Length, ApiVersions (18), version 0, correlation id 1, no client id. */
const apiVersionsRequest = Buffer.from([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])
const correlation = 4

const speaksPlaintext = (host: string, port: number) =>
  probe((found) => {
    let answer = Buffer.alloc(0)
    const socket = connectPlainly({ host, port }, () => socket.write(apiVersionsRequest))
    return socket.on("data", (bytes) => {
      answer = Buffer.concat([answer, bytes])
      if (answer.length >= correlation + 4) found(answer.readUInt32BE(correlation) === 1)
    })
  })

/** What to do if a broker (`host:port`) speaks the other protocol than is configured; null if it does not, or is not there. */
export const adviseProtocol = (broker: string, ssl: boolean): Effect.Effect<string | null> => {
  const end = broker.lastIndexOf(":")
  const host = broker.slice(0, end).replace(/^\[(.*)\]$/, "$1")
  const port = Number(broker.slice(end + 1))
  return Effect.map((ssl ? speaksPlaintext : speaksTls)(host, port), (other) =>
    !other
      ? null
      : ssl
      ? `${broker} speaks plaintext and KAFKA_SSL is on: name a TLS port in KAFKA_BROKERS, or set KAFKA_SSL=false.`
      : `${broker} speaks TLS and KAFKA_SSL is off: set KAFKA_SSL=true, or name a plaintext port in KAFKA_BROKERS.`)
}
