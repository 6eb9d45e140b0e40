/**
 * The certificate and key of the operating API, from files that may be replaced while the process runs.
 *
 * Gotchas
 * - The two files are replaced one after another. If they do not belong together, the previous pair stays in use, and they
 *   are read again a minute later.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { X509Certificate } from "node:crypto"
import { readFile } from "node:fs/promises"
import type { Server } from "node:https"
import { createSecureContext } from "node:tls"
import * as ReplacedFiles from "../ReplacedFiles.ts"

/** Paths of PEM files. */
export interface TlsFiles {
  /** The server's certificate, followed by those of its intermediate authorities. */
  readonly certFile: string
  readonly keyFile: string
}

export interface TlsPair {
  readonly cert: string
  readonly key: string
}

/** The files cannot be used. */
export class TlsError extends Schema.TaggedError<TlsError>()("TlsError", {
  message: Schema.String,
  hint: Schema.String
}) {}

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause ? String(cause.code) : "not a PEM file"

const read = (name: string, path: string) =>
  Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: (cause) =>
      new TlsError({
        message: `${name} names ${path}, which cannot be read (${codeOf(cause)})`,
        hint: `correct ${name}, or the rights of the file`
      })
  })

/** Reads both files and checks that they belong together. */
export const load = Effect.fnUntraced(function*({ certFile, keyFile }: TlsFiles) {
  const pair: TlsPair = {
    cert: yield* read("ROLLCALL_HTTP_TLS_CERT_FILE", certFile),
    key: yield* read("ROLLCALL_HTTP_TLS_KEY_FILE", keyFile)
  }
  yield* Effect.try({
    try: () => createSecureContext(pair),
    catch: (cause) =>
      new TlsError({
        message: `${certFile} and ${keyFile} are not a certificate and its key (${codeOf(cause)})`,
        hint:
          "name the PEM file of the certificate, with its intermediate certificates, and the PEM file of its unencrypted private key"
      })
  })
  return pair
})

const expiryOf = ({ cert }: TlsPair): string => new Date(new X509Certificate(cert).validTo).toISOString()

/** Logs until when the certificate is valid, and uses new files within a minute. Never returns. */
export const keepCurrent = (files: TlsFiles, first: TlsPair, server: Server): Effect.Effect<never> =>
  Effect.andThen(
    Effect.annotateLogs(Effect.logInfo("certificate loaded"), { expires: expiryOf(first) }),
    ReplacedFiles.keepCurrent({
      name: "certificate",
      first,
      read: load(files),
      isSame: (one, other) => one.cert === other.cert && one.key === other.key,
      use: (pair) => {
        server.setSecureContext({ ...pair, minVersion: "TLSv1.2" })
        return { expires: expiryOf(pair) }
      }
    })
  )
