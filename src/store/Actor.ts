/** The caller that causes a change of the store, for the audit log. The operating API sets it for each request. */
import * as Context from "effect/Context"

export interface Actor {
  /** `operate token`, `session`, `no token`; with ` (cli)` if the client is the `rollcall` command. `process`: no request. */
  readonly actor: string
  /** The address of the connection; null if there is no connection. */
  readonly address: string | null
}

export const CurrentActor = Context.Reference<Actor>("rollcall/store/CurrentActor", {
  defaultValue: () => ({ actor: "process", address: null })
})
