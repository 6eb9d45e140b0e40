/** Searches all sources for messages that name a tool or a setting of PostgreSQL, because an installation with SQLite has none. */
import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { postgresTools } from "../support/store/PostgresTools.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

/** Reached only with PostgreSQL. A test of `StoreFault.ts` checks the faults that SQLite can have. */
const ofPostgres = [
  "src/cli/doctor/FleetChecks.ts",
  "src/config/ConfigFile.ts",
  "src/config/StoreSettings.ts",
  "src/config/Variables.ts",
  "src/store/StoreFault.ts"
]

const isComment = (line: string): boolean => /^\s*(\/\/|\/?\*)/.test(line)

describe("messages that do not depend on the database", () => {
  it("name no tool or setting of PostgreSQL", () => {
    const files = globSync("{src,console,plugins}/**/*.{ts,tsx}", { cwd: root }).filter((file) =>
      !/\.test\.ts$|^src\/store\/postgres\//.test(file) && !ofPostgres.includes(file)
    )
    assert.isAbove(files.length, 300)
    const found = files.flatMap((file) =>
      readFileSync(`${root}/${file}`, "utf8").split("\n").flatMap((line, index) =>
        !isComment(line) && postgresTools.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : []
      )
    )
    assert.deepStrictEqual(found, [])
  })
})
