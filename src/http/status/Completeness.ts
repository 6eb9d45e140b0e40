/** Why the `complete_to` of a stream is behind, and when it moves, as text. Pure. */
import { elapsedText } from "../../domain/ElapsedText.ts"
import { completeTo, formatTime, movesAfter, timeInWords } from "../../domain/Watermark.ts"
import type { StreamState } from "../../store/State.ts"

/** Null if the stream has no `complete_to`. Times by the server's clock. */
export const completenessText = (state: StreamState): string | null => {
  if (completeTo(state) === null) return null
  if (state.paused || state.blocked !== null || state.failing !== null) {
    return "does not move while the stream is not read"
  }
  const overlap = elapsedText(state.overlap / 1000)
  const until = movesAfter(state)
  if (until === null) {
    return `is ${overlap} before the last complete poll, because the API may show a change that late`
  }
  if (until <= (state.watermark ?? 0)) return "does not move until the next poll is complete"
  return `does not move, because the API showed a change so late that polls now read back ${overlap}; it moves again when the second ` +
    `poll after ${timeInWords(formatTime(until))} is complete`
}
