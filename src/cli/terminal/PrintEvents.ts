/** Prints events as they happen. Equal changes of several records that arrive together are one line. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { parseEvent } from "../ApiClient.ts"
import { print } from "../Process.ts"
import { eventLines } from "./EventLines.ts"

/** Events that arrive within this time are shown together. */
const together = Duration.seconds(1)
const most = 10_000

/** `events`: the events as JSON texts. */
export const printEvents = <E, R>(events: Stream.Stream<string, E, R>): Effect.Effect<void, E, R> =>
  Stream.runForEach(
    Stream.groupedWithin(events, most, together),
    (some) => Effect.forEach(eventLines(some.map((text) => parseEvent(text).data)), print, { discard: true })
  )
