/** The settings of one deployment: the operating API and the log. */
import type { ConfigValue } from "./ConfigValue.ts"
import { isLoopback } from "./Plaintext.ts"

export type HttpSettings = ReturnType<typeof parseHttp>

export const parseHttp = (section: ConfigValue) => {
  const own = section.fields({
    host: "ROLLCALL_HTTP_HOST",
    port: "ROLLCALL_HTTP_PORT",
    token: "ROLLCALL_HTTP_TOKEN"
  })
  const host = own.host.text() ?? "127.0.0.1"
  const port = String(own.port.value ?? 8477)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    own.port.fault(`"${port}" is not a port`, "Use a number from 1 to 65535, or 0 for any free port")
  }
  /** Every request must carry it; null if no token is required. */
  const token = own.token.secret()?.initial ?? null
  if (!isLoopback(host) && !own.token.isSet) {
    section.variable("ROLLCALL_HTTP_TOKEN").fault(
      `is not set, but the operating API listens on ${host}, which other machines can reach`,
      "Set a long random token, or listen on 127.0.0.1"
    )
  }
  return { host, port: Number(port), token }
}

export type LogSettings = ReturnType<typeof parseLog>

export const parseLog = (section: ConfigValue) => {
  const own = section.fields({ level: "ROLLCALL_LOG_LEVEL", format: "ROLLCALL_LOG_FORMAT" })
  return {
    level: own.level.oneOf("trace", "debug", "info", "warn", "error") ?? "info",
    /** null: pretty on a terminal, JSON elsewhere. */
    format: own.format.oneOf("pretty", "json") ?? null
  }
}
