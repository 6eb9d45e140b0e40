/** The settings of one deployment: the operating API and the log. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { isIP } from "node:net"
import { display } from "../domain/Quote.ts"
import { type ConfigValue, requireBoth } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"

/** Required length if other machines can reach the API, so that the token cannot be guessed. `openssl rand -hex 32` makes 64 characters. */
const minTokenLength = 32

const httpFields = (section: ConfigValue) =>
  section.fields({
    host: "ROLLCALL_HTTP_HOST",
    port: "ROLLCALL_HTTP_PORT",
    token: "ROLLCALL_HTTP_TOKEN",
    readToken: "ROLLCALL_HTTP_READ_TOKEN",
    hosts: "ROLLCALL_HTTP_HOSTS",
    tls: null
  })
const tlsFields = (section: ConfigValue) =>
  section.fields({
    certFile: "ROLLCALL_HTTP_TLS_CERT_FILE",
    keyFile: "ROLLCALL_HTTP_TLS_KEY_FILE",
    caFile: "ROLLCALL_HTTP_TLS_CA_FILE",
    clientCaFile: "ROLLCALL_HTTP_TLS_CLIENT_CA_FILE",
    clientCertFile: "ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE",
    clientKeyFile: "ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE"
  })
type HttpFields = ReturnType<typeof httpFields>

const parseAddress = (own: HttpFields) => {
  const host = own.host.text() ?? "127.0.0.1"
  const port = String(own.port.value ?? 8477)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    own.port.fault(`"${port}" is not a port`, "Use a number from 1 to 65535, or 0 for any free port")
  }
  return { host, port: Number(port) }
}

/** `name`, `name:port`, or `https://name` if a proxy terminates TLS. */
const parseAllowedHost = (value: ConfigValue) => {
  const text = (value.text() ?? "").toLowerCase()
  const [, scheme, name = ""] = /^(https:\/\/)?((?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?)\/?$/.exec(text) ?? []
  if (name === "") {
    value.fault(
      `"${text}" is not a host name`,
      "Write the name that clients use, such as rollcall.example.com, or https://rollcall.example.com if a proxy terminates TLS"
    )
  }
  return { name, https: scheme !== undefined }
}

/** The current token in the first line and, while clients change to it, the previous one in the second. */
const linesOf = (secret: Redacted.Redacted): ReadonlyArray<Redacted.Redacted> =>
  Redacted.value(secret).split("\n").map((line) => line.trim()).filter((line) => line !== "").map((line) =>
    Redacted.make(line)
  )

/** Some clients send other characters as UTF-8 and some as Latin-1, and Node.js refuses to send some of them at all. */
const isSendable = (token: string): boolean => /^[!-~]+$/.test(token)
const notSendable = {
  message: "contains white space or characters outside ASCII, which an HTTP header cannot carry",
  hint: "Make one with: openssl rand -hex 32"
}

/** Why tokens cannot be used, as a clause whose subject is their variable; null if they can. */
const tokenFault = (tokens: ReadonlyArray<Redacted.Redacted>, host: string) => {
  const texts = tokens.map(Redacted.value)
  if (texts.length > 2) {
    return {
      message: `contains ${texts.length} lines`,
      hint: "Write the token in the first line and, while clients still send it, the previous token in the second"
    }
  }
  if (!texts.every(isSendable)) return notSendable
  if (isLoopback(host) || texts.every(({ length }) => length >= minTokenLength)) return null
  return {
    message: `is shorter than ${minTokenLength} characters, but the operating API listens on ${
      display(host)
    }, which other machines can reach`,
    hint: "Make a random token with: openssl rand -hex 32"
  }
}

const parseToken = (value: ConfigValue, host: string) => {
  const secret = value.secret()
  if (secret === undefined) return null
  const initial = linesOf(secret.initial)
  const fault = tokenFault(initial, host)
  if (fault !== null) value.fault(fault.message, fault.hint)
  if (secret.file === null) return { initial, file: null }
  const { read, variable } = secret.file
  const failed = ({ hint, message }: { readonly message: string; readonly hint: string }) =>
    Effect.fail({ message: `${variable} ${message}`, hint })
  const reread = Effect.flatMap(read, (content) => {
    if (content === null) {
      return failed({
        message: "names a file that is empty or cannot be read",
        hint: "Write the token into the file, readable for Rollcall"
      })
    }
    const tokens = linesOf(content)
    const fault = tokenFault(tokens, host)
    return fault === null ? Effect.succeed(tokens) : failed(fault)
  })
  return { initial, file: { variable, read: reread } }
}

type TlsFields = ReturnType<typeof tlsFields>

/** A certificate and its key, which must be set together; null if neither is set. */
const parsePair = (cert: ConfigValue, key: ConfigValue) => {
  const [certFile, keyFile] = [cert.text(), key.text()]
  requireBoth(cert, key, "Name the certificate and its key, or neither")
  return certFile !== undefined && keyFile !== undefined ? { certFile, keyFile } : null
}

/** The certificate that commands present. */
const parseClientPair = (own: TlsFields) => parsePair(own.clientCertFile, own.clientKeyFile)

/** Null if the server does not use TLS. */
const parseServerTls = (section: ConfigValue) => {
  const own = tlsFields(section)
  const pair = parsePair(own.certFile, own.keyFile)
  const clientCaFile = own.clientCaFile.text() ?? null
  if (pair !== null) return { ...pair, clientCaFile, client: parseClientPair(own) }
  if (clientCaFile !== null && !own.certFile.isSet && !own.keyFile.isSet) {
    own.certFile.fault(
      "is not set, so the operating API does not use TLS, but its clients need certificates",
      "Name the server's certificate and its key"
    )
  }
  return null
}

const parseClientTls = (section: ConfigValue) => {
  const own = tlsFields(section)
  const [certFile = null, caFile = null] = [own.certFile.text(), own.caFile.text()]
  const client = parseClientPair(own)
  if (certFile !== null || caFile !== null) return { certFile, caFile, client }
  if (client !== null) {
    own.caFile.fault(
      "is not set, so commands do not use TLS, but they have a certificate",
      "Name the certificate of the authority that signed the server's certificate"
    )
  }
  return null
}

const unencrypted = "so tokens and personal data would cross the network unencrypted"

/** Reports a server that other machines can reach without encryption. */
const requireEncryption = (
  section: ConfigValue,
  host: string,
  allowPlaintext: ReadonlySet<PlaintextConnection>
): void => {
  if (isLoopback(host) || allowPlaintext.has("http")) return
  section.variable("ROLLCALL_HTTP_TLS_CERT_FILE").fault(
    `is not set, but the operating API listens on ${display(host)}, ${unencrypted}`,
    "Name a certificate and its key; or, if a proxy terminates TLS, list its address as https://<name> in " +
      `ROLLCALL_HTTP_HOSTS; or, ${orAllowPlaintext("http")}`
  )
}

export const parseHttp = (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const own = httpFields(section)
  const address = parseAddress(own)
  const { host } = address
  if (!own.token.isSet && !isLoopback(host)) {
    section.variable("ROLLCALL_HTTP_TOKEN").fault(
      `is not set, but the operating API listens on ${display(host)}, which other machines can reach`,
      "Set it to a random token, made with: openssl rand -hex 32; or listen on 127.0.0.1"
    )
  }
  if (!own.token.isSet && own.readToken.isSet) {
    own.readToken.fault(
      "is set, but ROLLCALL_HTTP_TOKEN is not, so anyone on this machine could run commands",
      "Set both, or none"
    )
  }
  /** Allows everything; null if no token is required. */
  const token = parseToken(own.token, host)
  /** Allows reading only. */
  const readToken = parseToken(own.readToken, host)
  const operating = token?.initial.map(Redacted.value) ?? []
  if (readToken?.initial.some((read) => operating.includes(Redacted.value(read)))) {
    own.readToken.fault("is the same as ROLLCALL_HTTP_TOKEN", "Make another token with: openssl rand -hex 32")
  }
  const listed = own.hosts.items().map(parseAllowedHost)
  const ownName = { name: host.toLowerCase(), https: false }
  const isListed = listed.some(({ name }) => name === ownName.name)
  /** The names under which clients reach the API, besides those of this machine and its addresses. */
  const hosts = isLoopback(host) || isIP(host) !== 0 || isListed ? listed : [...listed, ownName]
  const tls = parseServerTls(own.tls)
  if (tls === null && !listed.some(({ https }) => https)) requireEncryption(section, host, allowPlaintext)
  return { ...address, token, readToken, hosts, tls }
}

/**
 * Whether a command that calls this address stays on this machine. That includes the addresses of a server that listens on all addresses.
 */
const isOwnMachine = (host: string): boolean => isLoopback(host) || host === "0.0.0.0" || host === "::"

/** Where commands such as `status` find the running process, and the token that they send. */
export const parseHttpClient = (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const own = httpFields(section)
  const address = parseAddress(own)
  const secret = own.token.secret() ?? own.readToken.secret()
  const token = secret === undefined ? null : linesOf(secret.initial)[0] ?? null
  if (token !== null && !isSendable(Redacted.value(token))) {
    const value = own.token.isSet ? own.token : own.readToken
    value.fault(notSendable.message, "Set it to the token of that process")
  }
  if (token === null && !own.token.isSet && !isLoopback(address.host)) {
    section.variable("ROLLCALL_HTTP_TOKEN").fault(
      `is not set, but the operating API at ${display(address.host)} requires it`,
      "Set it to the token of that process, or set ROLLCALL_HTTP_READ_TOKEN for commands that only read"
    )
  }
  const tls = parseClientTls(own.tls)
  if (tls === null && !isOwnMachine(address.host) && !allowPlaintext.has("http")) {
    section.variable("ROLLCALL_HTTP_TLS_CA_FILE").fault(
      `is not set, but the operating API is at ${display(address.host)}, ${unencrypted}`,
      `Name the certificate of the authority of that server; or, ${orAllowPlaintext("http")}`
    )
  }
  return { ...address, token, tls }
}

export const logLevels = ["trace", "debug", "info", "warn", "error"] as const

export type LogSettings = ReturnType<typeof parseLog>

export const parseLog = (section: ConfigValue) => {
  const own = section.fields({ level: "ROLLCALL_LOG_LEVEL", format: "ROLLCALL_LOG_FORMAT" })
  return {
    level: own.level.oneOf(...logLevels) ?? "info",
    /** Null for the default: `pretty` on a terminal, JSON elsewhere. */
    format: own.format.oneOf("pretty", "json") ?? null
  }
}
