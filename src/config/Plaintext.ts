/**
 * Which connections to other machines may be unencrypted. Without the setting `allowPlaintext`, none may be, because keys, passwords and
 * personal data could be read on the way.
 */
import { isIPv4 } from "node:net"
import type { ConfigValue } from "./ConfigValue.ts"

const connections = ["api", "kafka", "postgres", "http", "otlp"] as const
export type PlaintextConnection = (typeof connections)[number]

/** Whether only this machine can reach an address. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|::1|\[::1\])$/i.test(host) || (isIPv4(host) && host.startsWith("127."))

export const parseAllowPlaintext = (list: ConfigValue): ReadonlySet<PlaintextConnection> =>
  new Set(list.items().flatMap((item) => item.oneOf(...connections) ?? []))

/** The end of a hint: how to allow the connection although it is unencrypted. */
export const orAllowPlaintext = (connection: PlaintextConnection): string =>
  `if you accept that others on the network can read this, add ${connection} to ROLLCALL_ALLOW_PLAINTEXT`
