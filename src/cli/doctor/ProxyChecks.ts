/** The doctor's lines about proxies: which way the requests to each configured server go. There are none if no proxy is configured. */
import type * as Config from "../../config/Config.ts"
import { describe, type Proxies, proxyFor } from "../../network/Proxies.ts"
import { type CheckResult, ok } from "./CheckResult.ts"

type Input = Pick<Config.Settings, "accounts" | "kafka" | "proxies" | "telemetry">

interface Way {
  readonly name: string
  readonly url: string
  readonly proxies: Proxies
}

export const checkProxies = ({ accounts, kafka, proxies, telemetry }: Input): ReadonlyArray<CheckResult> => {
  const servers = {
    "the schema registry": kafka?.schemaRegistry?.url,
    "the token endpoint": kafka?.sasl?.mechanism === "oauthbearer" ? kafka.sasl.endpoint?.url : undefined,
    traces: telemetry?.traces?.url,
    metrics: telemetry?.metrics?.url
  }
  const ways: ReadonlyArray<Way> = [
    ...Object.entries(accounts).map(([name, { proxies: own, url }]) => ({
      name: `account ${name}`,
      url,
      proxies: own ?? proxies
    })),
    ...Object.entries(servers).flatMap(([name, url]) => url === undefined ? [] : [{ name, url, proxies }])
  ]
  const isConfigured = [proxies, ...ways.map((way) => way.proxies)].some(({ http, https }) => (http ?? https) !== null)
  if (!isConfigured) return []
  return ways.map(({ name, proxies, url }) => {
    const proxy = proxyFor(url, proxies)
    const way = proxy === null ? "directly" : `through the proxy ${describe(proxy)}`
    return ok("proxy", `requests of ${name} go to ${new URL(url).origin} ${way}`)
  })
}
