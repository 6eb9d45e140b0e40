/** Work on all streams in parts: thousands of streams take too long for one turn of the event loop, in which no request is answered. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"

/** Streams that are handled before other requests may run: one or two milliseconds. */
export const streamsAtATime = 250

/** Like `streams.map(change)`, but other requests may run between the parts. */
export const mapInParts = <A, B>(
  streams: ReadonlyArray<A>,
  change: (stream: A) => B
): Effect.Effect<ReadonlyArray<B>> =>
  Effect.map(
    Effect.forEach(
      Arr.chunksOf(streams, streamsAtATime),
      (part) => Effect.andThen(Effect.yieldNow, Effect.sync(() => part.map(change)))
    ),
    Arr.flatten
  )
