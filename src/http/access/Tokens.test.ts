import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { Tokens, type TokenSource } from "./Tokens.ts"

const redacted = (tokens: ReadonlyArray<string>) => tokens.map((token) => Redacted.make(token))

/** Tokens in a file whose content `write` replaces; a text says why the file cannot be used. */
const fileOf = (variable: string, ...first: ReadonlyArray<string>) => {
  let content: ReadonlyArray<string> | string = first
  const source: TokenSource = {
    initial: redacted(first),
    file: {
      variable,
      read: Effect.suspend(() =>
        typeof content === "string"
          ? Effect.fail({ message: `${variable} ${content}`, hint: "correct it" })
          : Effect.succeed(redacted(content))
      )
    }
  }
  return {
    source,
    write: (next: ReadonlyArray<string> | string) => {
      content = next
      return TestClock.adjust("1 minute")
    }
  }
}

const logged = () => {
  const lines: Array<unknown> = []
  const logger = Logger.map(Logger.formatStructured, ({ annotations, level, message }) => {
    lines.push([level, message, annotations])
  })
  return { lines, layer: Logger.layer([logger]) }
}

const means = ({ check }: Tokens["Service"], ...tokens: ReadonlyArray<string>) =>
  tokens.map((token) => check(token)?.caller.authenticatedBy ?? null)

describe("a token in a file", () => {
  it.effect("is replaced within a minute, and what began with the old one is no longer valid", () =>
    Effect.gen(function*() {
      const file = fileOf("ROLLCALL_HTTP_TOKEN_FILE", "old")
      const { layer, lines } = logged()
      yield* Effect.gen(function*() {
        const tokens = yield* Tokens
        const grant = tokens.check("old")
        yield* file.write(["new", "old"])
        assert.deepStrictEqual(means(tokens, "new", "old", "other"), ["operate token", "operate token", null])
        assert.isTrue(grant?.isValid())
        yield* file.write(["new"])
        assert.deepStrictEqual(means(tokens, "new", "old"), ["operate token", null])
        assert.isFalse(grant?.isValid())
        const replaced = ["INFO", "token replaced", { variable: "ROLLCALL_HTTP_TOKEN_FILE" }]
        assert.deepStrictEqual(lines, [replaced, replaced])
      }).pipe(Effect.provide(Tokens.layer({ token: file.source, readToken: null })), Effect.provide(layer))
    }))

  it.effect("stays in use while the file cannot be used, which is logged once with its variable", () =>
    Effect.gen(function*() {
      const file = fileOf("ROLLCALL_HTTP_TOKEN_FILE", "old")
      const { layer, lines } = logged()
      yield* Effect.gen(function*() {
        const tokens = yield* Tokens
        yield* file.write("names a file that is empty")
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual(means(tokens, "old", ""), ["operate token", null])
        const error = "ROLLCALL_HTTP_TOKEN_FILE names a file that is empty"
        assert.deepStrictEqual(lines, [["WARN", "token not replaced", { error, hint: "correct it" }]])
        yield* file.write(["new"])
        assert.deepStrictEqual(means(tokens, "new", "old"), ["operate token", null])
      }).pipe(Effect.provide(Tokens.layer({ token: file.source, readToken: null })), Effect.provide(layer))
    }))

  it.effect("never gives the right of the other token, whichever of the two files changes", () =>
    Effect.gen(function*() {
      const operate = fileOf("ROLLCALL_HTTP_TOKEN_FILE", "all")
      const read = fileOf("ROLLCALL_HTTP_READ_TOKEN_FILE", "some")
      yield* Effect.gen(function*() {
        const tokens = yield* Tokens
        const grant = tokens.check("some")
        yield* operate.write(["all", "some"])
        assert.deepStrictEqual(means(tokens, "all", "some"), ["operate token", "read token"])
        yield* operate.write(["all"])
        yield* read.write(["all"])
        assert.deepStrictEqual(means(tokens, "all", "some"), ["operate token", "read token"])
        yield* read.write(["less"])
        assert.deepStrictEqual(means(tokens, "all", "some", "less"), ["operate token", null, "read token"])
        assert.isFalse(grant?.isValid())
      }).pipe(
        Effect.provide(Tokens.layer({ token: operate.source, readToken: read.source })),
        Effect.provide(logged().layer)
      )
    }))
})
