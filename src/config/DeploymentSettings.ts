/** The settings of one deployment: the operating API and the log. */
import * as Redacted from "effect/Redacted"
import { isIP } from "node:net"
import { display } from "../domain/Quote.ts"
import type { ConfigValue } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"

/** Beyond this machine a token must not be guessable: `openssl rand -hex 32` makes 64 characters. */
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
    caFile: "ROLLCALL_HTTP_TLS_CA_FILE"
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

const parseToken = (value: ConfigValue, host: string): Redacted.Redacted | null => {
  const token = value.secret()?.initial ?? null
  if (token === null) return null
  if (/\s/.test(Redacted.value(token))) {
    value.fault("contains white space, which an HTTP header cannot carry", "Make one with: openssl rand -hex 32")
  }
  if (!isLoopback(host) && Redacted.value(token).length < minTokenLength) {
    value.fault(
      `is shorter than ${minTokenLength} characters, but the operating API listens on ${
        display(host)
      }, which other machines can reach`,
      "Make a random token with: openssl rand -hex 32"
    )
  }
  return token
}

/** null: without TLS. */
const parseServerTls = (section: ConfigValue) => {
  const own = tlsFields(section)
  const [certFile, keyFile] = [own.certFile.text(), own.keyFile.text()]
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile }
  const missing = certFile === undefined ? own.certFile : own.keyFile
  if ((certFile ?? keyFile) !== undefined) {
    missing.fault("is not set", "Name the certificate and its key, or neither")
  }
  return null
}

const parseClientTls = (section: ConfigValue) => {
  const own = tlsFields(section)
  const [certFile = null, caFile = null] = [own.certFile.text(), own.caFile.text()]
  return certFile === null && caFile === null ? null : { certFile, caFile }
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

export type HttpSettings = ReturnType<typeof parseHttp>

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
  if (token !== null && readToken !== null && Redacted.value(token) === Redacted.value(readToken)) {
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

/** Whether a command that calls this address stays on this machine: a server that listens on all addresses is called there. */
const isOwnMachine = (host: string): boolean => isLoopback(host) || host === "0.0.0.0" || host === "::"

/** Where commands such as `status` find the running process, and the token that they send. */
export const parseHttpClient = (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const own = httpFields(section)
  const address = parseAddress(own)
  const token = own.token.secret()?.initial ?? own.readToken.secret()?.initial ?? null
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
    /** null: pretty on a terminal, JSON elsewhere. */
    format: own.format.oneOf("pretty", "json") ?? null
  }
}
