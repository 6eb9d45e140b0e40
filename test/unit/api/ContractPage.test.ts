import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { lists } from "../../../src/api/Lists.ts"
import { permissions } from "../../../src/api/Permissions.ts"
import { writes } from "../../../src/api/Writes.ts"

const root = new URL("../../../", import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), "utf8")
const page = read("docs/contract.md")
const titles = readdirSync(new URL("test/unit/api", root))
  .filter((file) => file.endsWith(".test.ts"))
  .flatMap((file) => [...read(`test/unit/api/${file}`).matchAll(/["`](U\d+): /g)].map((match) => match[1] ?? ""))
const idsIn = (text: string): ReadonlyArray<string> => [...text.matchAll(/`(U\d+)`/g)].map((match) => match[1] ?? "")

/** `U10`–`U15` means all of them. */
const spelledOut = (text: string): string =>
  text.replaceAll(
    /`U(\d+)`–`U(\d+)`/g,
    (_, from: string, to: string) =>
      Array.from({ length: Number(to) - Number(from) + 1 }, (_, index) => `\`U${Number(from) + index}\``).join(" ")
  )

describe("the page of the contract", () => {
  it("names every test of the contract, and only tests that there are", () => {
    const sorted = (ids: ReadonlyArray<string>) => [...new Set(ids)].sort()
    const [rules = "", index = ""] = spelledOut(page).split("## Tests")
    assert.deepStrictEqual(sorted(idsIn(rules)), sorted(titles))
    assert.deepStrictEqual(sorted(idsIn(index)), sorted(titles))
  })

  it("names only files that there are", () => {
    const names = [...page.matchAll(/`((?:[a-z]+\/)*[A-Z]\w+\.ts|test\/[\w/.]+)`/g)].map((match) => match[1] ?? "")
    const homes = ["src/api/", "src/", ""]
    const missing = names.filter((name) => !homes.some((home) => existsSync(new URL(home + name, root))))
    assert.deepStrictEqual(missing, [])
    assert.isAbove(names.length, 50)
  })

  it("has every path, and every permission", () => {
    const expected = [...Object.values(lists), ...Object.values(writes)].map(({ path }) => path)
    for (const text of [...expected, ...Object.values(permissions)]) {
      if (text !== null) assert.include(page, text)
    }
  })
})
