/** `rollcall plugins new` in projects that are not as expected. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { inDirectory, runCommand } from "./Program.ts"

describe("plugins new", () => {
  it("imports from the package in a project that has the name of the package", () =>
    inDirectory(async (directory) => {
      writeFileSync(join(directory, "package.json"), JSON.stringify({ name: "rollcall", version: "1.0.0" }))
      const { code, stderr, stdout } = await runCommand(["plugins", "new", "tag-hires"], {}, directory)
      assert.strictEqual(code, 0, stderr)
      assert.include(readFileSync(join(directory, "plugins/tag-hires/plugin.ts"), "utf8"), `"rollcall/plugin"`)
      assert.include(stdout, "added effect ~4.1")
    }))

  it.each(["{", "", "null", "[]", `"text"`])(
    "names a package.json whose content is %j, and creates nothing",
    (text) =>
      inDirectory(async (directory) => {
        writeFileSync(join(directory, "package.json"), text)
        const { code, stderr } = await runCommand(["plugins", "new", "tag-hires"], {}, directory)
        assert.deepStrictEqual([code, stderr], [
          1,
          "rollcall: package.json is not a JSON object; nothing was changed\n" +
          "  Correct the file, or run the command in the folder of your project.\n"
        ])
        assert.isFalse(existsSync(join(directory, "plugins")))
      })
  )

  it("refuses an invalid name, and says which names are valid", () =>
    inDirectory(async (directory) => {
      const invalid = ["Tag", "tag.hires", "2tags", "@acme/tags", "-tags", "tag_hires", "../tags", "t".repeat(64)]
      for (const name of invalid) {
        const { code, stderr, stdout } = await runCommand(["plugins", "new", "--", name], {}, directory)
        assert.strictEqual(code, 2)
        assert.include(stdout + stderr, "use lower-case letters, digits and hyphens, at most 63 characters", name)
      }
      assert.isFalse(existsSync(join(directory, "plugins")))
    }))

  it("accepts a package.json with a byte order mark", () =>
    inDirectory(async (directory) => {
      writeFileSync(join(directory, "package.json"), `\uFEFF{"type": "module"}`)
      const { code, stderr } = await runCommand(["plugins", "new", "tag-hires"], {}, directory)
      assert.strictEqual(code, 0, stderr)
      assert.include(JSON.parse(readFileSync(join(directory, "package.json"), "utf8")).dependencies.effect, "4.1")
    }))
})
