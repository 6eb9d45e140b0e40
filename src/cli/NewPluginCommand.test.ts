/** The name under which the README of a new plugin imports it. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { importNameOf } from "./NewPluginCommand.ts"

/** Words that are reserved in modules or in strict mode, and the other import of the README. */
const taken =
  "arguments await break case catch class const continue debugger default define-config delete do else enum eval export extends false " +
  "finally for function if implements import in instanceof interface let new null package private protected public return static super " +
  "switch this throw true try typeof undefined var void while with yield"

/** Parses the code of a README as a program in strict mode. */
const parses = (imported: string): void => {
  // oxlint-disable-next-line no-new-func -- parses and does not run
  new Function(`"use strict"; const defineConfig = 0, ${imported} = 1; return async () => ${imported}`)
}

describe("the README of a new plugin", () => {
  it("imports a plugin whose name is a reserved word under another name", () => {
    assert.deepStrictEqual(["delete", "tag-hires", "my-plugin", "plugin"].map(importNameOf), [
      "deletePlugin",
      "tagHiresPlugin",
      "myPlugin",
      "pluginPlugin"
    ])
    for (const name of taken.split(" ")) assert.doesNotThrow(() => parses(importNameOf(name)), name)
  })

  it.prop(
    "imports every plugin under a valid identifier that is not reserved",
    [Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9-]{0,62}$/))],
    ([name]) => {
      assert.match(importNameOf(name), /^[a-z][A-Za-z0-9]*Plugin$/)
      parses(importNameOf(name))
    }
  )
})
