/** Ends sessions on request of an operator, and records that in the audit log. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { Store } from "../../store/Store.ts"
import { type OpenSession, Sessions } from "../access/Sessions.ts"

const recordingTimeout = "5 seconds"

/** Returns how many sessions ended. They end even if the store does not answer: then the log says that the entry is missing. */
export const endSessions = Effect.fnUntraced(
  function*(target: string, isSelected: (session: OpenSession) => boolean) {
    const { endEach } = yield* Sessions
    const { recordAction } = yield* Store
    const { length: count } = yield* endEach(isSelected)
    if (count === 0) return 0
    yield* Effect.annotateLogs(Effect.logInfo("sessions ended"), { target, count })
    const at = yield* Clock.currentTimeMillis
    yield* recordAction({ at, command: "sessions.end", target, detail: `${count} ended` }).pipe(
      Effect.timeout(recordingTimeout),
      Effect.catch((error) => Effect.logError("the end of sessions is missing in the audit log", error))
    )
    return count
  }
)
