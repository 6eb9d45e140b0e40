import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { lists } from "./Lists.ts"
import { permissions } from "./Permissions.ts"
import { reads } from "./Reads.ts"
import { writes } from "./Writes.ts"

const root = new URL("../../", import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), "utf8")
const page = read("docs/contract.md")

/** The titles of all tests, as source text. */
const titles = ["src", "test"]
  .flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`)
  )
  .filter((file) => file.endsWith(".test.ts") && !file.endsWith("ContractPage.test.ts"))
  .flatMap((file) =>
    [...read(file).matchAll(/^\s+"[^"\n]+"|\b(?:it|test)\b[^"`\n]*["`][^\n]+/gm)].map(([title]) => title)
  )

/** The ids at the beginning or the end of titles: `… (U4)`, `… (P6, P7)`, `… (C1–C5)`, `U4: …`. */
const tested = new Set(
  titles.flatMap((title) =>
    [...title.matchAll(/["`]((?:[A-Z]\d+(?:, |–)?)+):|\(((?:[A-Z]\d+(?:, |–)?)+)\)["`]/g)]
      .flatMap(([, first = "", last = ""]) => [...`${first} ${last}`.matchAll(/[A-Z]\d+/g)].map(([id]) => id))
  )
)
const idsIn = (text: string): ReadonlyArray<string> => [...text.matchAll(/`([A-Z]\d+)`/g)].map(([, id = ""]) => id)
const wordsIn = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/(?<![\w*])\*([^*\n]+)\*/g)].map(([, words = ""]) => words)

/** Rows of the tables whose last column is headed "test". */
const rules = page.split("\n\n").flatMap((block) => {
  const [header = "", , ...rows] = block.split("\n").filter((line) => line.startsWith("|"))
  return header.endsWith("| test |") ? rows : []
})

describe("the contract page", () => {
  it("names every test of the contract", () => {
    const named = new Set(idsIn(page))
    assert.deepStrictEqual([...tested].filter((id) => id.startsWith("U") && !named.has(id)), [])
  })

  it("names only existing tests, by id or by words of a title", () => {
    assert.deepStrictEqual(idsIn(page).filter((id) => !tested.has(id)), [])
    const [, body = ""] = page.split("## What the API does")
    const words = wordsIn(body)
    assert.deepStrictEqual(words.filter((words) => !titles.some((title) => title.includes(words))), [])
    assert.isAbove(words.length, 20)
  })

  it("has a test for every rule", () => {
    const untested = rules.filter((row) => {
      const cell = row.split("|").at(-2) ?? ""
      return idsIn(cell).length + wordsIn(cell).length === 0
    })
    assert.deepStrictEqual(untested, [])
    assert.isAbove(rules.length, 100)
  })

  it("names only existing files", () => {
    const names = [...page.matchAll(/`((?:[a-z]+\/)*[A-Z]\w+\.ts|test\/[\w/.]+)`/g)].map((match) => match[1] ?? "")
    const homes = ["src/api/", "src/", ""]
    const missing = names.filter((name) => !homes.some((home) => existsSync(new URL(home + name, root))))
    assert.deepStrictEqual(missing, [])
    assert.isAbove(names.length, 50)
  })

  it("contains every path, filter and permission", () => {
    const paths = [lists, reads, writes].flatMap((table) => Object.values(table).map(({ path }) => path))
    const filters = Object.values(lists).flatMap(({ filters }): ReadonlyArray<string> => filters)
    for (const text of [...paths, ...filters, ...Object.values(permissions)]) {
      if (text !== null) assert.include(page, text)
    }
  })
})
