/**
 * Finds out whether a port speaks TLS although plaintext is configured, or the other way round. kafkajs only reports a closed
 * connection, exactly as for a broker that shuts down.
 */
import * as Effect from "effect/Effect"
import { connect as connectPlainly, type Socket } from "node:net"
import { connect as connectWithTls } from "node:tls"

const timeoutMillis = 2000

/** Opens a socket, waits for the first event, closes the socket; false unless `found` is called with true. */
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

/** The certificate is not verified, because nothing is sent. */
const speaksTls = (host: string, port: number) =>
  probe((found) => connectWithTls({ host, port, rejectUnauthorized: false }, () => found(true)))

/** Bytes: length, ApiVersions (18), version 0, correlation id 1, no client id. */
const apiVersionsRequest = Buffer.from([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])
const correlationOffset = 4

const speaksPlaintext = (host: string, port: number) =>
  probe((found) => {
    let response = Buffer.alloc(0)
    const socket = connectPlainly({ host, port }, () => socket.write(apiVersionsRequest))
    return socket.on("data", (bytes) => {
      response = Buffer.concat([response, bytes])
      if (response.length >= correlationOffset + 4) found(response.readUInt32BE(correlationOffset) === 1)
    })
  })

/** Advice if a broker (`host:port`) does not speak the configured protocol; null if it does, or if it does not respond. */
export const adviseProtocol = (broker: string, ssl: boolean): Effect.Effect<string | null> => {
  const end = broker.lastIndexOf(":")
  const host = broker.slice(0, end).replace(/^\[(.*)\]$/, "$1")
  const port = Number(broker.slice(end + 1))
  return Effect.map((ssl ? speaksPlaintext : speaksTls)(host, port), (isOtherProtocol) =>
    !isOtherProtocol
      ? null
      : ssl
      ? `${broker} speaks plaintext and KAFKA_SSL is on: use a TLS port in KAFKA_BROKERS, or set KAFKA_SSL=false.`
      : `${broker} speaks TLS and KAFKA_SSL is off: set KAFKA_SSL=true, or use a plaintext port in KAFKA_BROKERS.`)
}
