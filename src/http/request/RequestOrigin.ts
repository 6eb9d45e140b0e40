/**
 * Decides whether a browser may send this request: under which name the request arrived, and which page sent it.
 *
 * Invariants
 * 1. A page of another origin gets no answer and cannot run a command. This holds with and without a token, because a page can
 *    use the cookie of a session
 * 2. A request under a name that is not allowed is refused, so a name that an attacker owns and points at this address
 *    (DNS rebinding) is not an origin of this server
 *
 * Gotchas
 * - A client that is not a browser sends neither `Origin` nor `Sec-Fetch-*`, so only the name is checked.
 * - Browsers treat another port of the same name as the same *site*, and send cookies with `SameSite=Strict` to it. Therefore
 *   only `same-origin` and `none` (the address bar) pass, not `same-site`.
 */
import { isIP } from "node:net"

/** A name under which the API is reached, with or without a port. `https`: a proxy in front of it terminates TLS. */
export interface AllowedHost {
  readonly name: string
  readonly https: boolean
}

export interface Reachability {
  readonly hosts: ReadonlyArray<AllowedHost>
  /** Whether requests need a token. */
  readonly guarded: boolean
  /** Whether this server itself uses TLS. */
  readonly encrypted: boolean
}

/** The origin under which a request reached this server. */
export interface OwnOrigin {
  /** `https://rollcall.example.com`; null if the client named no host, as HTTP/1.0 allows. */
  readonly origin: string | null
  readonly isSecure: boolean
}

type Headers = Readonly<Record<string, string | undefined>>

const hostPattern = /^(?<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/
const loopbackName = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** The origin of the name in the `Host` header, or null if that name is not allowed. */
export const ownOriginOf = (
  headers: Headers,
  { encrypted, guarded, hosts }: Reachability
): OwnOrigin | null => {
  const host = headers["host"]?.toLowerCase()
  if (host === undefined) return { origin: null, isSecure: encrypted }
  const name = hostPattern.exec(host)?.groups?.["name"]
  if (name === undefined) return null
  const listed = hosts.find((one) => one.name === host || one.name === name)
  // a page can only be loaded from an address that belongs to its server, so an address cannot be rebound
  const isAddress = isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0
  if (listed === undefined && !loopbackName.test(name) && !(guarded && isAddress)) return null
  const isSecure = encrypted || listed?.https === true
  const url = `${isSecure ? "https" : "http"}://${host}`
  return URL.canParse(url) ? { origin: new URL(url).origin, isSecure } : null
}

/** Whether the user opened the address: in the address bar, or by a link in any page. */
export const isNavigation = (headers: Headers): boolean =>
  headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document"

/**
 * Whether a browser sent the request without a header that names the page. Browsers name it in every command; those of before 2020 do not
 * if the command has no body. Their user agents begin like those of all browsers, and a page cannot change the user agent.
 */
export const isFromUnnamedPage = (headers: Headers): boolean =>
  headers["origin"] === undefined && headers["sec-fetch-site"] === undefined &&
  headers["user-agent"]?.startsWith("Mozilla/") === true

/** Whether a page of another origin sent the request. A link from another page to a page of this server is allowed. */
export const isForeign = (method: string, headers: Headers, own: OwnOrigin): boolean => {
  const { origin, "sec-fetch-site": site } = headers
  if (origin !== undefined && origin.toLowerCase() !== own.origin) return true
  if (site === undefined || site === "same-origin" || site === "none") return false
  return !((method === "GET" || method === "HEAD") && isNavigation(headers))
}
