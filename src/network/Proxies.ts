/**
 * Which requests go through a proxy.
 *
 * Invariants
 * 1. A request to a loopback address never goes through a proxy
 * 2. The address of a proxy may contain a login: only `describe` turns it into a text   (I11)
 */
import * as Context from "effect/Context"
import * as Redacted from "effect/Redacted"
import { BlockList, isIP } from "node:net"
import { isLoopback } from "../domain/Loopback.ts"

export interface Proxies {
  /** The address of the proxy for servers whose address is `http`, and of the one for `https`; null: requests are sent directly. */
  readonly http: Redacted.Redacted | null
  readonly https: Redacted.Redacted | null
  /**
   * The servers without a proxy: names, which include their subdomains, addresses, and networks such as `10.0.0.0/8`, each with a port or
   * for all ports; `*` means every server.
   */
  readonly except: ReadonlyArray<string>
}

export const noProxies: Proxies = { http: null, https: null, except: [] }

/** The proxies of the requests that a fiber sends. */
export const CurrentProxies = Context.Reference<Proxies>("rollcall/network/Proxies", { defaultValue: () => noProxies })

const isInNetwork = (host: string, network: string): boolean => {
  const type = isIP(host) === 4 ? "ipv4" : "ipv6"
  const [address = "", bits = isIP(host) === 4 ? "32" : "128"] = network.split("/")
  if (isIP(address) !== isIP(host) || !/^\d{1,3}$/.test(bits) || Number(bits) > (type === "ipv4" ? 32 : 128)) {
    return false
  }
  const list = new BlockList()
  list.addSubnet(address, Number(bits), type)
  return list.check(host, type)
}

const matches = (host: string, port: string) => (entry: string): boolean => {
  if (entry === "*") return true
  // an IPv6 address without brackets has no port
  const [, bracketed, name = bracketed ?? entry, only = port] = /^(?:\[(.+)\]|([^:]+))(?::(\d+))?$/.exec(entry) ?? []
  if (only !== port) return false
  if (isIP(host) !== 0) return isInNetwork(host, name)
  const domain = name.toLowerCase().replace(/^\*?\./, "")
  return host === domain || host.endsWith(`.${domain}`)
}

/** The proxy through which a request to this address goes; null: it is sent directly. */
export const proxyFor = (url: string, { except, http, https }: Proxies): Redacted.Redacted | null => {
  const parsed = URL.parse(url)
  if (parsed === null || isLoopback(parsed.hostname)) return null
  const proxy = parsed.protocol === "https:" ? https : http
  const port = parsed.port === "" ? parsed.protocol === "https:" ? "443" : "80" : parsed.port
  const host = parsed.hostname.replace(/^\[|\]$|\.$/g, "")
  return except.some(matches(host, port)) ? null : proxy
}

/** The address of a proxy without its login. */
export const describe = (proxy: Redacted.Redacted): string => URL.parse(Redacted.value(proxy))?.origin ?? "the proxy"

/** The connection to this address, as the subject of a sentence. */
export const connectionTo = (url: string, proxies: Proxies): string => {
  const proxy = proxyFor(url, proxies)
  return proxy === null ? "the connection" : `the connection through the proxy ${describe(proxy)}`
}
