/**
 * TLS of the connections to Kafka: reads the certificates, and finds out whether a port speaks TLS.
 *
 * Gotchas
 * - Certificates are read again for each connection, so renewed ones take effect without a restart.
 * - If one side speaks TLS and the other plaintext, kafkajs only reports a closed connection, exactly as for a broker that shuts down.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import { connect as connectPlainly, type Socket } from "node:net"
import { connect as connectWithTls, type ConnectionOptions, createSecureContext } from "node:tls"
import { SinkError, Unreachable } from "../Sink.ts"

/** Paths of PEM files. */
export interface TlsOptions {
  /** The authorities that may sign a broker's certificate; without it the public ones and `NODE_EXTRA_CA_CERTS`. */
  readonly caFile?: string
  /** The client's certificate and private key. */
  readonly certFile?: string
  readonly keyFile?: string
  /** The name in the brokers' certificates; without it the host of each address. */
  readonly serverName?: string
}

const settings = {
  caFile: "KAFKA_SSL_CA_FILE",
  certFile: "KAFKA_SSL_CERT_FILE",
  keyFile: "KAFKA_SSL_KEY_FILE"
} as const
type FileSetting = keyof typeof settings

const unusable = (problem: string, advice: string): SinkError =>
  new SinkError({ reason: new Unreachable({ message: `connecting to Kafka: ${problem}`, cause: null, advice }) })

const codeOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown error"

const load = (
  options: TlsOptions,
  setting: FileSetting,
  marker: RegExp
): Effect.Effect<string | undefined, SinkError> => {
  const path = options[setting]
  if (path === undefined) return Effect.succeed(undefined)
  const advice = `Check ${settings[setting]}.`
  return Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: (cause) => unusable(`${path} cannot be read (${codeOf(cause)})`, advice)
  }).pipe(
    Effect.filterOrFail((text) => marker.test(text), () =>
      unusable(
        `${path} is not a PEM file of the expected kind`,
        `${advice} It must contain ${
          setting === "keyFile" ? "-----BEGIN PRIVATE KEY-----" : "-----BEGIN CERTIFICATE-----"
        }.`
      ))
  )
}

const certificateMarker = /-----BEGIN (TRUSTED )?CERTIFICATE-----/
const keyMarker = /-----BEGIN ([A-Z]+ )?PRIVATE KEY-----/

/** Explains why OpenSSL rejects the files. Its own messages name neither the file nor the remedy. */
const describeRejection = ({ caFile, certFile, keyFile }: TlsOptions, cause: unknown): SinkError => {
  const code = codeOf(cause)
  if (/MISMATCH/.test(code)) {
    return unusable(
      `the key in ${keyFile} does not belong to the certificate in ${certFile}`,
      "Check KAFKA_SSL_CERT_FILE and KAFKA_SSL_KEY_FILE."
    )
  }
  if (/BAD_DECRYPT|PASSWORD|INTERRUPTED|PASSPHRASE/i.test(`${code} ${String(cause)}`)) {
    return unusable(
      `the key in ${keyFile} is encrypted`,
      "Decrypt it with `openssl pkey`, and protect the file instead."
    )
  }
  const files = [caFile, certFile, keyFile].filter((file) => file !== undefined)
  return unusable(`${files.join(", ")}: a file is damaged (${code})`, `Check ${Object.values(settings).join(", ")}.`)
}

/** Reads and checks the files. */
export const readTls = Effect.fn("KafkaTls.read")(
  function*(options: TlsOptions): Effect.fn.Return<ConnectionOptions, SinkError> {
    const ca = yield* load(options, "caFile", certificateMarker)
    const cert = yield* load(options, "certFile", certificateMarker)
    const key = yield* load(options, "keyFile", keyMarker)
    const { serverName } = options
    const pems = {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key })
    }
    const expiresAt = yield* Effect.try({
      try: () => {
        createSecureContext(pems)
        return cert === undefined ? null : new X509Certificate(cert).validToDate
      },
      catch: (cause) => describeRejection(options, cause)
    })
    if (expiresAt !== null && expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) {
      return yield* unusable(
        `the client's certificate in ${options.certFile} expired at ${expiresAt.toISOString()}`,
        "Renew it; KAFKA_SSL_CERT_FILE is read again for each connection."
      )
    }
    // certificates are verified even if NODE_TLS_REJECT_UNAUTHORIZED turns verification off
    return { rejectUnauthorized: true, ...pems, ...(serverName === undefined ? {} : { servername: serverName }) }
  }
)

// ---- probe ------------------------------------------------------------------------------------------------------------

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
