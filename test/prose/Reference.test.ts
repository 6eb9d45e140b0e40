/** The pages of `docs/reference` are those that `npm run docs:reference` writes. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { globSync } from "node:fs"
import { referencePages } from "../../site/reference/Main.ts"
import { read, root } from "../../site/reference/Markdown.ts"
import { metrics } from "../../site/reference/Metrics.ts"
import { partsOf, properties, readProperties } from "../../site/reference/Settings.ts"
import { check } from "../../src/config/Config.ts"
import { secret } from "../../src/config/ConfigFile.ts"
import { variableDefinitions, variableNames } from "../../src/config/Variables.ts"

describe("docs/reference", () => {
  it("is what `npm run docs:reference` writes", () => {
    const files = globSync("docs/reference/*.md", { cwd: root })
    assert.sameMembers(files, [...referencePages.keys()])
    for (const [path, text] of referencePages) assert.strictEqual(read(path), text, path)
  })

  it("has every metric, once, without a sentence's end", () => {
    const names = metrics().map(({ name }) => name)
    assert.deepStrictEqual(names, [...new Set(names)])
    const files = globSync("src/**/*.ts", { cwd: root, exclude: (name) => name.endsWith(".test.ts") })
    const quoted = new Set(
      files.flatMap((file) => read(file).match(/(?<=")(?:rollcall|process|nodejs)_\w+_\w+(?=")/g) ?? [])
    )
    assert.deepStrictEqual([...quoted].filter((name) => !names.includes(name)), [])
    assert.deepStrictEqual(metrics().filter(({ description }) => description.endsWith(".")), [])
  })

  it("has every property that the code reads, and every variable", () => {
    const own = [...properties.values()].flat().map(({ path }) => path)
    assert.sameMembers(own, [...readProperties().keys()])
    const page = read("docs/reference/settings.md")
    assert.deepStrictEqual(variableNames.filter((name) => !page.includes(`\`${name}\``)), [])
    const [, alone = ""] = page.split("## Variables without a property")
    const shared = /^(OTEL_|https?_proxy$|no_proxy$)/i
    assert.deepStrictEqual(variableNames.filter((name) => alone.includes(`\`${name}\``) !== shared.test(name)), [])
  })
})

/** The settings that a file results in, as text; its faults if it has any. */
const settingsOf = (value: object): string => {
  const key = Effect.succeed(Redacted.make("k"))
  const secrets = new Map([["KEY", { initial: Redacted.make("k"), current: key, file: null }]])
  return JSON.stringify(check({ variables: {}, secrets, file: { name: "file", value }, faults: [] }))
}

/** The same value, with another one at this path; a list has one item. */
const withValue = (old: unknown, [name, ...path]: ReadonlyArray<string>, value: unknown): unknown => {
  if (name === undefined) return value
  if (Array.isArray(old)) return [withValue(old[0], [name, ...path], value)]
  return { ...Object(old), [name]: withValue(Object(old)[name], path, value) }
}

/** A file that sets only this property, besides those that every file needs. */
const fileWith = (path: string, value: unknown): object => {
  const file = {
    accounts: { "<name>": { url: "https://localhost/v1", key: secret("KEY") } },
    integrations: [{ id: "a:b" }],
    models: { "ats.tag": {} },
    kafka: { brokers: ["localhost:9092"], ...path === "kafka.tombstones" && { format: "debezium" } }
  }
  const names = path.split(".").map((name) => name === "<model>" ? "ats.tag" : name.replace("[]", ""))
  return Object(withValue(file, names, value))
}

/** The numbers of these are not part of the settings: they are applied where they are used. */
const appliedLater = ["accounts.<name>.pageSize", "accounts.<name>.requestTimeout", "kafka.partitions"]

describe("the defaults in the comments of ConfigFile.ts", () => {
  const all = [...properties.values()].flatMap((own) =>
    own.flatMap(({ comment, path }, index) => {
      const first = own.slice(0, index + 1).findLastIndex((property) => property.comment !== "")
      const values = [...partsOf(own[first]?.comment ?? comment).standard.matchAll(/(?:^|, )`([^`]+)`/g)]
      const text = values[index - first]?.[1]
      return text === undefined
        ? []
        : [[path, /^(\d+(\.\d+)?|true|false)$/.test(text) ? JSON.parse(text) : text] as const]
    })
  )

  it("are many", () => {
    assert.isAbove(all.length, 25)
  })

  it("are those of the help", () => {
    const variables = readProperties()
    const wrong = all.filter(([path, value]) =>
      variables.get(path)?.some((name) => !variableDefinitions[name].description.includes(`(${value}`))
    )
    // the variable has other words, and DATABASE_URL no default
    assert.sameMembers(wrong.map(([path]) => path), ["kafka.transactions", "store"])
  })

  it.each(all)("%s: to write %j changes nothing", (path, value) => {
    const settings = settingsOf(fileWith(path, value))
    assert.include(settings, '"_tag":"Success"')
    if (appliedLater.includes(path)) return
    assert.strictEqual(settings, settingsOf(fileWith(path, undefined)), path)
  })
})
