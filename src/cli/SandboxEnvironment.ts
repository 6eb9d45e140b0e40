/** The configuration of a service that reads a sandbox in the same process. It has shorter intervals than usual. */
import * as ConfigProvider from "effect/ConfigProvider"
import { join } from "node:path"

export interface SandboxEnvironment {
  /** The API of the sandbox, its key, and the ids of its integrations. */
  readonly sandbox: { readonly url: string; readonly key: string; readonly integrations: ReadonlyArray<string> }
  /** Where the database file is created. */
  readonly directory: string
  /** Time between polls, such as `2 seconds`. */
  readonly interval: string
}

/** The environment variables of such a service. */
export const sandboxEnvironment = ({ directory, interval, sandbox }: SandboxEnvironment) =>
  ConfigProvider.fromEnvRecord({
    ROLLCALL_API_URL: sandbox.url,
    ROLLCALL_API_KEY: sandbox.key,
    ROLLCALL_INTEGRATIONS: sandbox.integrations.join(","),
    ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
    ROLLCALL_INTERVAL: interval,
    ROLLCALL_SWEEP_INTERVAL: "20 seconds",
    ROLLCALL_CONFIRM_INTERVAL: "5 seconds",
    ROLLCALL_OVERLAP_MIN: "10 seconds",
    ROLLCALL_HTTP_PORT: "0"
  })
