/** Numbers, times and durations as text. */
import { elapsedText } from "../src/domain/ElapsedText.ts"

export const duration = elapsedText

export const since = (time: string, now: number): string => duration((now - Date.parse(time)) / 1_000)

export const number = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: 0 })

/** `1,200`, `3.4`, `0.02` */
export const rate = (value: number): string =>
  value === 0 ? "0" : value.toLocaleString("en-US", { maximumSignificantDigits: value < 10 ? 2 : 3 })

export const plural = (count: number, noun: string, plural = `${noun}s`): string =>
  `${number(count)} ${count === 1 ? noun : plural}`

/** In UTC, as in the logs: `2026-03-01 12:00:00` */
export const time = (text: string): string => text.slice(0, 19).replace("T", " ")

/** The time of a day in UTC; with the day if it is not that of `now`: `12:00:00` */
export const moment = (text: string, now: number): string =>
  text.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? text.slice(11, 19) : time(text)

/** Begins with a capital letter. */
export const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
