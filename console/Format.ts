/** Numbers, times and durations as text. */

/** `4 s`, `12 min`, `3 h 20 min`, `2 d 4 h` */
export const duration = (seconds: number): string => {
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 60) return `${whole} s`
  if (whole < 3_600) return `${Math.floor(whole / 60)} min`
  const [large, small, names] = whole < 86_400
    ? [Math.floor(whole / 3_600), Math.floor(whole % 3_600 / 60), ["h", "min"]] as const
    : [Math.floor(whole / 86_400), Math.floor(whole % 86_400 / 3_600), ["d", "h"]] as const
  return small === 0 ? `${large} ${names[0]}` : `${large} ${names[0]} ${small} ${names[1]}`
}

export const since = (time: string, now: number): string => duration((now - Date.parse(time)) / 1_000)

export const number = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: 0 })

/** `1,200`, `3.4`, `0.02` */
export const rate = (value: number): string =>
  value === 0 ? "0" : value.toLocaleString("en-US", { maximumSignificantDigits: value < 10 ? 2 : 3 })

export const plural = (count: number, noun: string, plural = `${noun}s`): string =>
  `${number(count)} ${count === 1 ? noun : plural}`

/** In UTC, as in the logs: `2026-03-01 12:00:00` */
export const time = (text: string): string => text.slice(0, 19).replace("T", " ")

/** Begins with a capital letter. */
export const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
