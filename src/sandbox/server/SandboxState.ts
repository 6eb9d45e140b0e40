/**
 * State that the sandbox's routes and its handle share: the world (which is advanced to the current time), the faults, the account with
 * its key, and the request log.
 *
 * Gotchas
 * - The request log contains no keys and no bodies. It keeps at least the last 10,000 requests.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { type ApiError, invalidInput } from "../world/ApiError.ts"
import type { MutationRequest } from "../world/Mutations.ts"
import type { Json, WorldModel } from "../world/Records.ts"
import type { World } from "../world/World.ts"
import type { Account } from "./Account.ts"
import type { FaultInjector } from "./FaultInjection.ts"

export interface RequestEntry {
  /** ISO 8601, when the request arrived. */
  readonly at: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly integration: string | null
  /** Null if the connection broke before a response was sent. */
  readonly status: number | null
}

const maxRequests = 10_000
const activitiesPerTurn = 100

export class SandboxState extends Data.Class<{
  readonly world: World
  readonly faults: FaultInjector
  readonly account: Account
  readonly key: string
  /** Query name of the cursor. */
  readonly cursorParameter: string
}> {
  readonly requests: Array<RequestEntry> = []
  /** Names this world. A sandbox that is started again shows another world, even with the same seed: it lacks the changes since its start. */
  readonly id: string = crypto.randomUUID()
  /** ms */
  readonly now = Clock.currentTimeMillis
  /** Advances the world to now. Signals and other requests are handled in between. */
  readonly advanceToNow: Effect.Effect<void> = Effect.flatMap(
    this.now,
    (now) =>
      Effect.gen({ self: this }, function*() {
        while (!this.world.advance(now, activitiesPerTurn)) yield* Effect.yieldNow
      })
  )

  /** Advances the world to now and applies one mutation; returns the id of the changed record. */
  mutate(mutation: MutationRequest): Effect.Effect<{ readonly id: string }, ApiError> {
    return Effect.flatMap(this.advanceToNow, () => {
      const done = this.world.mutate(mutation)
      return "refused" in done ? Effect.fail(invalidInput(done.refused)) : Effect.succeed(done)
    })
  }

  /** Live records of a model now; without `integration`, of the first integration that has the model. */
  truth(
    model: WorldModel,
    integration?: string
  ): Effect.Effect<{ readonly integration: string; readonly records: ReadonlyArray<Json> }, ApiError> {
    return Effect.flatMap(this.advanceToNow, () => {
      const chosen = this.world.integrations.find(({ id, models }) =>
        integration === undefined ? models.includes(model) : id === integration
      )
      if (chosen !== undefined) {
        return Effect.succeed({ integration: chosen.id, records: [...this.world.truth(chosen.id, model).values()] })
      }
      return Effect.fail(
        invalidInput(
          integration === undefined ? `No integration has ${model}.` : `There is no integration "${integration}".`
        )
      )
    })
  }

  recordRequest(entry: RequestEntry): Effect.Effect<void> {
    return Effect.sync(() => {
      this.requests.push(entry)
      if (this.requests.length > 2 * maxRequests) this.requests.splice(0, maxRequests)
    })
  }
}
