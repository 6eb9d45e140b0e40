/** The proxies through which requests to other servers go: the variables that other programs read too, and the setting of an account. */
import * as Redacted from "effect/Redacted"
import { noProxies, type Proxies } from "../network/Proxies.ts"
import { isSecret } from "./ConfigFile.ts"
import type { ConfigValue } from "./ConfigValue.ts"
import type { Variable } from "./Variables.ts"

const isDecodable = (text: string): boolean => {
  try {
    return decodeURIComponent(text) !== null
  } catch {
    return false
  }
}

const hint = "Write http://<host>:<port>, and percent-encode the user name and the password if there are any"

/** The address of a proxy; null if the value is `none`. An address without a scheme is one of an `http` proxy, as for curl. */
const parseProxy = (value: ConfigValue): Redacted.Redacted | null => {
  const isHidden = isSecret(value.value)
  const secret = isHidden ? value.secret()?.initial : undefined
  const text = isHidden ? secret && Redacted.value(secret) : value.text()
  if (text === undefined || text === "none") return null
  const url = URL.parse(text.includes("://") ? text : `http://${text}`)
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === "" || url.pathname !== "/") {
    value.fault("is not the address of an HTTP proxy", hint)
    return null
  }
  if (url.username + url.password !== "" && !isHidden) {
    value.fault("contains a login", `Write secret("NAME"), and set the variable NAME to the address with the login`)
  }
  if (!isDecodable(url.username) || !isDecodable(url.password)) value.fault("has a login that cannot be decoded", hint)
  return Redacted.make(url.href)
}

/** The proxies of every request but those of accounts with a proxy of their own. `section`: any value, because these are variables only. */
export const parseProxies = (section: ConfigValue): Proxies => {
  const either = (...names: readonly [Variable, Variable]) => {
    const [lower, upper] = [section.variable(names[0]), section.variable(names[1])]
    return lower.isSet ? lower : upper
  }
  return {
    http: parseProxy(either("http_proxy", "HTTP_PROXY")),
    https: parseProxy(either("https_proxy", "HTTPS_PROXY")),
    except: either("no_proxy", "NO_PROXY").items().map((item) => item.text() ?? "")
  }
}

/** The proxies of one account; null: those of all others. */
export const parseAccountProxy = (value: ConfigValue): Proxies | null => {
  if (!value.isSet) return null
  const proxy = parseProxy(value)
  return { ...noProxies, http: proxy, https: proxy }
}
