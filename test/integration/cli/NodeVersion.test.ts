/** The message for an older Node.js version, which cannot run the program. */
import { cpSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { inDirectory, Program } from "./Program.ts"

const root = fileURLToPath(new URL("../../../", import.meta.url))
const older = "Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.11.0'}})"

const printed = async (installed: string) => {
  const entry = join(installed, "bin", "rollcall.js")
  const program = new Program(["--version"], { NODE_OPTIONS: `--import=data:text/javascript,${older}` }, root, entry)
  const { code, stderr } = await program.ended
  assert.strictEqual(code, 1)
  assert.match(stderr, /^rollcall needs Node\.js 24\.9 or newer, but this is Node\.js 20\.11\.0\.\n/)
  return stderr
}

describe("an older Node.js version", () => {
  it("is refused in a clone with the command that uses the clone's own Node.js in a clone", async () => {
    assert.match(await printed(root), /npm install.*npx rollcall/)
  })

  it("is refused outside a clone with the ways to install Node.js 24", () =>
    inDirectory(async (directory) => {
      for (const part of ["bin", "package.json"]) cpSync(join(root, part), join(directory, part), { recursive: true })
      const text = await printed(directory)
      assert.match(text, /https:\/\/nodejs\.org/)
      assert.match(text, /npm install node@24/)
      assert.notMatch(text, /clone/)
    }))
})
