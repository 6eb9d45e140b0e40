/**
 * Which connections to other machines may be unencrypted. Without the setting `allowPlaintext`, none may be, because keys, passwords and
 * personal data could be read on the way.
 */
import type { ConfigValue } from "./ConfigValue.ts"

export { isLoopback } from "../domain/Loopback.ts"

const connections = ["api", "kafka", "postgres", "http", "otlp"] as const
export type PlaintextConnection = (typeof connections)[number]

export const parseAllowPlaintext = (list: ConfigValue): ReadonlySet<PlaintextConnection> =>
  new Set(list.items().flatMap((item) => item.oneOf(...connections) ?? []))

/** The end of a hint: how to allow the connection although it is unencrypted. */
export const orAllowPlaintext = (connection: PlaintextConnection): string =>
  `if you accept that others on the network can read this, add ${connection} to ROLLCALL_ALLOW_PLAINTEXT`
