/** Searches all sources for messages that show the name of an internal error class, such as `Misconfigured: …`. */
import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describeStoreError } from "../../src/store/Recovery.ts"
import {
  Damaged,
  Fenced,
  incompatible,
  misconfigured,
  OlderCopy,
  StoreError,
  Unavailable
} from "../../src/store/Store.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))
const files = globSync(["src/**/*.ts", "plugins/**/*.ts", "bin/*.js"], { cwd: root }).filter((path) =>
  !path.endsWith(".test.ts")
)
const textOf = (path: string): string => readFileSync(`${root}/${path}`, "utf8")
const tags = files.flatMap((path) =>
  Array.from(textOf(path).matchAll(/TaggedError<\w+>\(\)\(\s*"(\w+)"/g), ([, tag]) => tag!)
)

/** A tag that becomes a part of a text, or a whole message. */
const shownTag =
  /\$\{[^{}]*_tag\b[^{}]*\}|\b(message|detail|hint|error|reason)\w*: [\w.?]*\b_tag\b(?! ===)|\b(message|hint|String)\([^()]*_tag\)/
const writtenTag = new RegExp(`["\`](${tags.join("|")}): `)

describe("messages", () => {
  it("do not contain the name of an error class", () => {
    assert.isAbove(tags.length, 30)
    const found = files.flatMap((path) =>
      textOf(path).split("\n").flatMap((line, index) =>
        shownTag.test(line) || writtenTag.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : []
      )
    )
    assert.deepStrictEqual(found, [])
  })

  it("of the store do not contain the name of an error class, whatever the reason", () => {
    const cause = new Error("no connection")
    const errors = [
      new StoreError({ reason: new Fenced({ scope: "capture", epoch: 2 }) }),
      new StoreError({ reason: new Unavailable({ operation: "read", cause }) }),
      new StoreError({ reason: new OlderCopy({ missing: 2 }) }),
      misconfigured("there is no directory"),
      incompatible("a newer version wrote this store"),
      new StoreError({ reason: new Damaged({ message: "a row changed" }) })
    ]
    const names = new RegExp(`\\b(${errors.map(({ reason }) => reason._tag).join("|")})\\b|oldercopy|misconfigured`)
    for (const error of errors) {
      const { hint, message } = describeStoreError(error)
      for (const text of [error.message, message, hint]) assert.notMatch(text, names)
    }
  })
})
