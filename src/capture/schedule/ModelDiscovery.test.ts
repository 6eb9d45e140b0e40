import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { listsOnly } from "../../../test/support/source/Doubles.ts"
import type { Tool } from "../../api/Tools.ts"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import { Source } from "../../source/Source.ts"
import { certainModels, discoverModels, supportedModels, type ToolCatalog } from "./ModelDiscovery.ts"

const tool = (id: string, readModels: Readonly<Record<string, string>>): Tool => ({
  id,
  coverage: {
    read_models: Object.entries(readModels).map(([id, coverage_status]) => ({ id, coverage_status }))
  }
})
const ats = builtInModels.read.filter((model) => model.startsWith("ats."))
const hris = builtInModels.read.filter((model) => model.startsWith("hris."))

describe("models: auto", () => {
  it.effect("a tool catalog that never responds delays the start by three seconds, however many accounts there are", () => {
    const causes = new Set<unknown>()
    const logger = Logger.make(({ fiber }) => void causes.add(fiber.getRef(References.CurrentLogAnnotations)["why"]))
    return Effect.gen(function*() {
      const source = { ...listsOnly(() => Effect.never), read: () => Effect.never }
      const integrations = ["one", "two", "three"].map((account) => ({ id: `greenhouse:${account}`, account }))
      const discovering = yield* Effect.forkChild(Effect.provideService(discoverModels(integrations), Source, source))
      yield* TestClock.adjust("3 seconds")
      const found = discovering.pollUnsafe() === undefined ? null : yield* Fiber.join(discovering)
      assert.deepStrictEqual([...found?.keys() ?? []], integrations.map(({ id }) => id))
      assert.includeMembers([...found?.get("greenhouse:one")?.models ?? []], [...builtInModels.read])
      assert.deepStrictEqual([...causes], ["no complete response within 3s"])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("one line of the log lists the models that many integrations do not offer", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make(({ fiber, message }) =>
      lines.push([message, fiber.getRef(References.CurrentLogAnnotations)])
    )
    const integrations = Array.from({ length: 12 }, (_, index) => ({ id: `greenhouse:${index}`, account: "one" }))
    const read = () => Effect.succeed({ tools: [tool("greenhouse", { tags: "UNSUPPORTED" })] })
    return Effect.gen(function*() {
      yield* Effect.provideService(discoverModels(integrations), Source, {
        ...listsOnly(() => Effect.never),
        read: read as never
      })
      assert.lengthOf(lines, 1)
      const text = JSON.stringify(lines)
      assert.include(text, "ats.tag")
      assert.include(text, "greenhouse:0, greenhouse:1, ")
      assert.include(text, "greenhouse:9 and 2 more")
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  const statuses = { tags: "UNSUPPORTED", offers: "NOT_IMPLEMENTED", scorecards: "UNKNOWN", applications: "SUPPORTED" }
  const nothing = Object.fromEntries(["applications", "scorecards", "offers", "tags"].map((id) => [id, "UNSUPPORTED"]))
  const none = { ats: [], hris: [], assessment: [] }
  const unavailable = { ats: null, hris: null, assessment: null }
  const spellings = ["hris_legal_entities", "legal_entity", "LegalEntity", "legal-entities", "hris.legal_entity"]
  const all = builtInModels.read
  const without = (...left: ReadonlyArray<string>) => (model: string) => !left.includes(model)
  const cases: ReadonlyArray<readonly [string, string, Partial<ToolCatalog>, ReadonlyArray<string>]> = [
    ["exactly those that are not UNSUPPORTED", "w:1", { ats: [tool("w", statuses)] }, ats.filter(without("ats.tag"))],
    ["one that the catalog does not list", "w:1", { hris: [tool("w", {})] }, hris],
    [
      "those of both categories of a tool",
      "w:1",
      { ats: [tool("w", { tags: "UNSUPPORTED" })], hris: [tool("w", { skills: "UNSUPPORTED" })] },
      [...ats, ...hris].filter(without("ats.tag", "hris.skill"))
    ],
    ...[...spellings, "HRIS/LegalEntities"].map((id) =>
      [
        `all but the one with the id "${id}"`,
        "w:1",
        { hris: [tool("w", { [id]: "UNSUPPORTED" })] },
        hris.filter(without("hris.legal_entity"))
      ] as const
    ),
    [
      "all of a category whose catalog is unavailable",
      "w:1",
      { hris: [tool("w", { skills: "UNSUPPORTED" })], ats: null, assessment: [tool("w", {})] },
      all.filter(without("hris.skill"))
    ],
    ["all if no catalog is available", "w:1", unavailable, all],
    ["all of an unknown tool", "other:1", { ats: [tool("w", {})] }, all],
    ["all of a tool without any supported model", "w:1", { ats: [tool("w", nothing)] }, all]
  ]
  it.each(cases)(
    "are %s",
    (_, integration, catalog, models) =>
      assert.deepStrictEqual(supportedModels(builtInModels, integration, { ...none, ...catalog }), models as never)
  )

  it("are certain, except those of a category whose catalog is unavailable", () => {
    const discovered = { account: "one", models: builtInModels.read, refused: [] }
    const partialCatalog = { ats: [], hris: null, assessment: [] }
    assert.deepStrictEqual(certainModels({ ...discovered, partialCatalog }), [...ats, "assessment.package"])
    assert.deepStrictEqual(certainModels({ ...discovered, partialCatalog: null }), builtInModels.read)
  })
})
