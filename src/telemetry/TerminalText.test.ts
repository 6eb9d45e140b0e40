import { assert, describe, it, vi } from "@effect/vitest"
import { oneLine, paint, toTerminal } from "./TerminalText.ts"

/** A name that sets the title of the terminal, clears it, reverses the text after it and hides a letter. */
const hostile = "Ada\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u202eecalevoL\u200b\u2066\ufeff\u{e0041}"
const shown = String.raw`Ada\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f\u202eecalevoL\u200b\u2066\ufeff\udb40\udc41`

const onTerminal = (use: (stream: NodeJS.WriteStream) => void) => {
  vi.stubEnv("NO_COLOR", undefined)
  vi.stubEnv("FORCE_COLOR", "1")
  try {
    use(process.stdout)
  } finally {
    vi.unstubAllEnvs()
  }
}

describe("text for a terminal", () => {
  it("has control and format characters as escapes, so that it cannot change what the terminal shows", () => {
    assert.strictEqual(toTerminal(hostile), shown)
    assert.strictEqual(oneLine(hostile), shown)
  })

  it("stays as it is if it has none, in any script", () => {
    const plain = "Łukasz 山田 محمد Ünal – “x” 👍 → ✓"
    assert.strictEqual(toTerminal(plain), plain)
  })

  it("keeps its line feeds, and a part that is one line has none", () => {
    assert.strictEqual(toTerminal("a\nb\r\tc"), "a\nb\\r\\tc")
    assert.strictEqual(oneLine("a\nb\u2028c"), "a\\nb\\u2028c")
  })

  it("is the same JSON if it is JSON", () => {
    const value = { [hostile]: [hostile, "a\nb\ud800"] }
    for (const space of [0, 2]) {
      const text = toTerminal(JSON.stringify(value, null, space))
      assert.notMatch(text, /[\p{Cf}\u007f-\u009f]/u)
      assert.deepStrictEqual(JSON.parse(text), value)
    }
  })

  it("has the colors of this program and no colors of a name", () => {
    onTerminal((stream) => {
      const red = paint("red", `deleted \u001b[32m${hostile}`, stream)
      assert.strictEqual(toTerminal(red), `\u001b[31m${String.raw`deleted \u001b[32m`}${shown}\u001b[39m`)
      assert.strictEqual(toTerminal(oneLine(`a ${red}\n`)), `a ${toTerminal(red)}\\n`)
    })
  })
})
