import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { listsOnly } from "../../../test/support/source/Doubles.ts"
import type { Tool } from "../../api/Tools.ts"
import { streamModels } from "../../domain/Model.ts"
import { Source } from "../../source/Source.ts"
import { certainModels, discoverModels, supportedModels } from "./ModelDiscovery.ts"

const tool = (id: string, readModels: Readonly<Record<string, string>>): Tool => ({
  id,
  coverage: {
    read_models: Object.entries(readModels).map(([id, coverage_status]) => ({ id, coverage_status }))
  }
})
const ats = streamModels.filter((model) => model.startsWith("ats."))
const hris = streamModels.filter((model) => model.startsWith("hris."))

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
      assert.includeMembers([...found?.get("greenhouse:one")?.models ?? []], [...streamModels])
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

  it("leaves out exactly the models that the catalog lists as unsupported", () => {
    const statuses = {
      tags: "UNSUPPORTED",
      offers: "NOT_IMPLEMENTED",
      scorecards: "UNKNOWN",
      applications: "SUPPORTED"
    }
    assert.deepStrictEqual(
      supportedModels("greenhouse:acme", { ats: [tool("greenhouse", statuses)], hris: [], assessment: [] }),
      ats.filter((model) => model !== "ats.tag")
    )
  })

  it("reads a model that the catalog does not list", () => {
    assert.deepStrictEqual(
      supportedModels("personio:1", { ats: [], hris: [tool("personio", {})], assessment: [] }),
      hris
    )
  })

  it("reads the models of both categories of a tool", () => {
    const catalog = {
      ats: [tool("personio", { tags: "UNSUPPORTED" })],
      hris: [tool("personio", { skills: "UNSUPPORTED" })],
      assessment: []
    }
    const models = supportedModels("personio:1", catalog)
    const left = [...ats, ...hris].filter((model) => model !== "ats.tag" && model !== "hris.skill")
    assert.deepStrictEqual(models, left)
  })

  for (
    const id of [
      "hris_legal_entities",
      "legal_entity",
      "LegalEntity",
      "legal-entities",
      "hris.legal_entity",
      "HRIS/LegalEntities"
    ]
  ) {
    it(`recognizes the model id "${id}"`, () => {
      const models = supportedModels("w:1", { ats: [], hris: [tool("w", { [id]: "UNSUPPORTED" })], assessment: [] })
      assert.deepStrictEqual(models, hris.filter((model) => model !== "hris.legal_entity"))
    })
  }

  it("reads all models of a category whose catalog is unavailable", () => {
    const offers = { hris: [tool("w", { skills: "UNSUPPORTED" })], ats: null, assessment: [tool("w", {})] }
    assert.deepStrictEqual(supportedModels("w:1", offers), streamModels.filter((model) => model !== "hris.skill"))
    assert.deepStrictEqual(supportedModels("w:1", { ats: null, hris: null, assessment: null }), streamModels)
  })

  it("are certain, except those of a category whose catalog is unavailable", () => {
    const discovered = { account: "one", models: streamModels, refused: [] }
    const partialCatalog = { ats: [], hris: null, assessment: [] }
    assert.deepStrictEqual(certainModels({ ...discovered, partialCatalog }), [...ats, "assessment.package"])
    assert.deepStrictEqual(certainModels({ ...discovered, partialCatalog: null }), streamModels)
  })

  it("reads all models of an unknown tool, and of a tool without any supported model", () => {
    assert.deepStrictEqual(supportedModels("other:1", { ats: [tool("w", {})], hris: [], assessment: [] }), streamModels)
    const nothing = Object.fromEntries(
      ["applications", "scorecards", "offers", "tags"].map((id) => [id, "UNSUPPORTED"])
    )
    assert.deepStrictEqual(
      supportedModels("w:1", { ats: [tool("w", nothing)], hris: [], assessment: [] }),
      streamModels
    )
  })
})
