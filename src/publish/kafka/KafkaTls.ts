/**
 * Reads the certificates of a connection to Kafka. They are read again for each connection, so renewed ones take effect without
 * a restart.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import { type ConnectionOptions, createSecureContext } from "node:tls"
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
