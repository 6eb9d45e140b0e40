import { assert, describe, it } from "vitest"
import { builtInModels, modelNames } from "./BuiltInModels.ts"
import { recordEntryOf } from "./Model.ts"
import { whyRequired } from "./RequiredPaths.ts"

describe("a redaction rule", () => {
  for (const model of modelNames) {
    it(`is refused at and below the ids by which records are recognized in ${model}, and not beside or above them`, () => {
      const ids = ["/id", ...recordEntryOf(builtInModels, model).nested.map(({ path }) => `/${path.join("/")}/id`)]
      for (const id of ids) {
        assert.isDefined(whyRequired(builtInModels, model, id), id)
        // a rule below a text removes the text
        assert.isDefined(whyRequired(builtInModels, model, `${id}/x`), id)
        assert.isUndefined(whyRequired(builtInModels, model, `${id}s`), id)
        if (id !== "/id") assert.isUndefined(whyRequired(builtInModels, model, id.slice(0, -3)), id)
      }
    })
  }

  it("is refused where the service reads what it derives candidates from, or attributes writes to", () => {
    for (const path of ["/candidate/changed_at", "/candidate/remote_deleted_at", "/candidate_id", "/job_id"]) {
      assert.isDefined(whyRequired(builtInModels, "ats.application", path), path)
    }
    assert.isDefined(whyRequired(builtInModels, "ats.offer", "/application_id"))
    for (const path of ["/changed_at", "/remote_deleted_at", "/remote_id"]) {
      assert.isUndefined(whyRequired(builtInModels, "ats.application", path), path)
    }
  })
})
