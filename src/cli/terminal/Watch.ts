/**
 * Redraws a text on the terminal's second screen, so that the scrollback stays as it was.
 *
 * Gotchas
 * - Long lines are cut at the right edge: wrapped lines would move the lines below them out of the screen.
 */
import * as Effect from "effect/Effect"
import { toTerminal } from "../../telemetry/TerminalText.ts"

/** The part of a terminal that is used. */
export interface Terminal {
  readonly rows: () => number
  readonly write: (text: string) => void
}

export const standardOutput: Terminal = {
  rows: () => process.stdout.rows || 24,
  write: (text) => void process.stdout.write(text)
}

/** The second screen, without a cursor and without wrapping. */
const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l"
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l"
export const redrawInterval = "2 seconds"

/** The text that draws one frame of at most `rows` lines. */
export const frameOf = (text: string, rows: number): string => {
  const lines = text.split("\n")
  const shown = lines.length <= rows
    ? lines
    : [...lines.slice(0, rows - 1), `… ${lines.length - rows + 1} more lines`]
  return `\u001b[H${shown.map((line) => `${toTerminal(line)}\u001b[K`).join("\n")}\u001b[J`
}

/** Draws the text every two seconds until it is interrupted, and then leaves the last text on the first screen. */
export const watch = <E extends Error, R>(
  text: Effect.Effect<string, E, R>,
  terminal: Terminal
): Effect.Effect<never, never, R> => {
  let last = ""
  const draw = Effect.gen(function*() {
    last = yield* Effect.catch(text, (error) => Effect.succeed(`${error.message}; still trying`))
    terminal.write(frameOf(last, terminal.rows()))
  })
  return Effect.acquireUseRelease(
    Effect.sync(() => terminal.write(enter)),
    () => Effect.forever(Effect.andThen(draw, Effect.sleep(redrawInterval))),
    () => Effect.sync(() => terminal.write(`${leave}${toTerminal(`${last}\n`)}`))
  )
}
