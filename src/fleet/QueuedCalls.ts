/** Calls through the database: processes of a fleet have no network between each other. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CallQueue } from "../store/CallQueue.ts"
import { Calls } from "./Calls.ts"
import * as CallServing from "./CallServing.ts"
import * as CallWaiting from "./CallWaiting.ts"

const pruneInterval = "1 minute"

export const layer: Layer.Layer<Calls, never, CallQueue> = Layer.effect(
  Calls,
  Effect.gen(function*() {
    const { prune } = yield* CallQueue
    yield* Effect.ignore(prune).pipe(Effect.andThen(Effect.sleep(pruneInterval)), Effect.forever, Effect.forkScoped)
    return Calls.of({ ...yield* CallServing.make, call: yield* CallWaiting.make })
  })
)
