/** Durations as people write them: a number and a unit. Accepts Effect's units and `milliseconds`. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"

type Unit = "milli" | "millisecond" | "second" | "minute" | "hour" | "day" | "week"
/** `30 seconds`, `1 hour` */
export type DurationText = `${number} ${Unit | `${Unit}s`}`
/** Everything that is accepted as a duration: a text, a `Duration`, a number of milliseconds. */
export type DurationInput = Duration.Input | DurationText

/** None if the value is not a duration. */
export const parseDuration = (value: unknown): Option.Option<Duration.Duration> =>
  Duration.fromInput(
    (typeof value === "string" ? value.replace(/\bmilliseconds?$/, "millis") : value) as Duration.Input
  )

/** Throws if the value is not a duration. */
export const toDuration = (value: DurationInput): Duration.Duration =>
  Option.getOrThrowWith(parseDuration(value), () => new Error(`${JSON.stringify(value)} is not a duration`))

/** None if the value is not a finite duration above zero. */
export const parsePositiveDuration = (value: unknown): Option.Option<Duration.Duration> =>
  Option.filter(parseDuration(value), (found) => Duration.isFinite(found) && Duration.toMillis(found) > 0)

const wholeUnits = [[86_400_000, "day"], [3_600_000, "hour"], [60_000, "minute"], [1_000, "second"], [
  1,
  "millisecond"
]] as const

/** `one day`, `36 hours`, `90 minutes`: in the largest unit of which it is a multiple. */
export const inWords = (duration: Duration.Duration): string => {
  const millis = Math.round(Duration.toMillis(duration))
  const [size, unit] = wholeUnits.find(([size]) => millis % size === 0) ?? [1, "millisecond"]
  return millis === size ? `one ${unit}` : `${millis / size} ${unit}s`
}
