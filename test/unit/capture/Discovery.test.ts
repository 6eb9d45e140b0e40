import { assert, describe, it } from "@effect/vitest"
import type { Tool } from "../../../src/api/Tools.ts"
import { supportedModels } from "../../../src/capture/schedule/ModelDiscovery.ts"
import { streamModels } from "../../../src/domain/Model.ts"

const tool = (id: string, readModels: Readonly<Record<string, string>>): Tool => ({
  id,
  coverage: {
    read_models: Object.entries(readModels).map(([id, coverage_status]) => ({ id, coverage_status }))
  }
})
const ats = streamModels.filter((model) => model.startsWith("ats."))
const hris = streamModels.filter((model) => model.startsWith("hris."))

describe("models: auto", () => {
  it("leaves out what the catalogue calls unsupported, and nothing else", () => {
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

  it("a model that the catalogue does not list is read", () => {
    assert.deepStrictEqual(
      supportedModels("personio:1", { ats: [], hris: [tool("personio", {})], assessment: [] }),
      hris
    )
  })

  it("a tool of both categories has the models of both", () => {
    const catalogue = {
      ats: [tool("personio", { tags: "UNSUPPORTED" })],
      hris: [tool("personio", { skills: "UNSUPPORTED" })],
      assessment: []
    }
    const models = supportedModels("personio:1", catalogue)
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
    it(`understands "${id}"`, () => {
      const models = supportedModels("w:1", { ats: [], hris: [tool("w", { [id]: "UNSUPPORTED" })], assessment: [] })
      assert.deepStrictEqual(models, hris.filter((model) => model !== "hris.legal_entity"))
    })
  }

  it("a catalogue that did not answer leaves its category in", () => {
    const offers = { hris: [tool("w", { skills: "UNSUPPORTED" })], ats: null, assessment: [tool("w", {})] }
    assert.deepStrictEqual(supportedModels("w:1", offers), streamModels.filter((model) => model !== "hris.skill"))
    assert.deepStrictEqual(supportedModels("w:1", { ats: null, hris: null, assessment: null }), streamModels)
  })

  it("an unknown tool, and one of which nothing would be left, is tried with everything", () => {
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
