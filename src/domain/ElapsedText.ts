/** `4 s`, `12 min`, `3 h 20 min`, `2 d 4 h`: durations as the console and its texts show them. */
export const elapsedText = (seconds: number): string => {
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 60) return `${whole} s`
  if (whole < 3_600) return `${Math.floor(whole / 60)} min`
  const [large, small, names] = whole < 86_400
    ? [Math.floor(whole / 3_600), Math.floor(whole % 3_600 / 60), ["h", "min"]] as const
    : [Math.floor(whole / 86_400), Math.floor(whole % 86_400 / 3_600), ["d", "h"]] as const
  return small === 0 ? `${large} ${names[0]}` : `${large} ${names[0]} ${small} ${names[1]}`
}
