/** Commands that show events as they happen, until they are stopped. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { awaitShutdownSignal, refuse } from "../terminal/Process.ts"
import { type ApiClient, parseEvent } from "./ApiClient.ts"

/**
 * Shows events until the command gets a signal. Fails when they end, which happens when the process stops and when the log no longer has
 * the next event; the hint is a `rollcall tail` that continues them.
 */
export const showEvents = Effect.fnUntraced(function*<E>(
  { follow, newestPosition }: ApiClient,
  query: Readonly<Record<string, string>>,
  json: boolean,
  show: (events: ReturnType<typeof follow>) => Effect.Effect<void, E>
) {
  // after `latest` itself, the events that happen before the command is run again would be missed
  const start = query["after"] === "latest" ? { ...query, after: yield* newestPosition } : query
  let position = start["after"]
  const events = Stream.tap(follow(start), (event) => Effect.sync(() => (position = parseEvent(event).position)))
  const ended = Effect.suspend(() =>
    refuse(
      "the process ended the stream of events",
      position === undefined
        ? "Run the command again when the process answers."
        : `Continue with \`rollcall tail ${json ? "--json " : ""}--after ${position}\`, and with the same filters.`
    )
  )
  yield* Effect.raceFirst(Effect.andThen(show(events), ended), awaitShutdownSignal)
})
