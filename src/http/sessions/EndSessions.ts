/** Ends sessions on request of an operator, and records that in the audit log. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SessionSelection } from "../../store/StoredSessions.ts"
import { Sessions } from "../access/Sessions.ts"

/** Returns how many sessions ended. */
export const endSessions = Effect.fnUntraced(function*(target: string, which: SessionSelection) {
  const { endSelected } = yield* Sessions
  const at = yield* Clock.currentTimeMillis
  const count = yield* endSelected(
    which,
    (count) => ({ at, command: "sessions.end", target, detail: `${count} ended` })
  )
  if (count > 0) yield* Effect.annotateLogs(Effect.logInfo("sessions ended"), { target, count })
  return count
})
