/** Which account an integration belongs to, as the store has it. */
import * as Effect from "effect/Effect"
import { type HandlerError, Permanent } from "../plugin/Failure.ts"
import type { Store } from "../store/Store.ts"
import * as Refusals from "./Refusals.ts"

export interface Accounts {
  readonly of: (integration: string) => Effect.Effect<string, HandlerError>
}

const refused = (integration: string) =>
  new Permanent({ message: `there is no integration ${integration} (any more)`, refusal: "Inactive" })

export const make = (store: Store["Service"]): Accounts => ({
  of: (integration) =>
    Effect.flatMap(Effect.mapError(store.integrations, Refusals.ofStore), (all) => {
      const known = all.find(({ id, state }) => id === integration && state === "active")
      return known === undefined ? Effect.fail(refused(integration)) : Effect.succeed(known.account)
    })
})
