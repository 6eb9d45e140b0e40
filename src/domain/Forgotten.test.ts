import { assert, describe, it } from "@effect/vitest"
import { builtInModels } from "./BuiltInModels.ts"
import { defineList, entryOf } from "./DefinedList.ts"
import { embeddingModels, nothingRemoved, removalOf, withoutCopies } from "./Forgotten.ts"
import { makeModels } from "./Model.ts"

const forgotten = (model: string, ...ids: ReadonlyArray<string>) => new Map([[model, new Set(ids)]])

describe("forgotten records", () => {
  it("are left out of their own list, and change nothing in lists that cannot contain them", () => {
    const { isForgotten } = removalOf(builtInModels, "ats.tag", forgotten("ats.tag", "a"))
    assert.deepStrictEqual(["a", "b", 7, undefined].map(isForgotten), [true, false, false, false])
    assert.strictEqual(removalOf(builtInModels, "ats.tag", forgotten("ats.offer", "a")), nothingRemoved)
    assert.strictEqual(removalOf(builtInModels, "ats.tag", new Map()), nothingRemoved)
  })

  it("identify the copies that are removed, in any order of their ids", () => {
    const idOf = (...ids: ReadonlyArray<string>) =>
      removalOf(builtInModels, "ats.application", forgotten("ats.candidate", ...ids)).id
    assert.strictEqual(idOf("c", "d"), idOf("d", "c"))
    assert.strictEqual(new Set([idOf("c", "d"), idOf("c"), idOf("cd"), nothingRemoved.id]).size, 4)
    assert.strictEqual(removalOf(builtInModels, "ats.application", forgotten("ats.application", "c")).id, "")
  })

  it("leave null in place of their copies, and are removed from arrays", () => {
    const application = { id: "a", candidate_id: "c", candidate: { id: "c", tags: [{ id: "t" }, { id: "u" }] } }
    assert.deepStrictEqual(
      withoutCopies(builtInModels, "ats.application", application, forgotten("ats.candidate", "c")),
      {
        ...application,
        candidate: null
      }
    )
    assert.deepStrictEqual(withoutCopies(builtInModels, "ats.application", application, forgotten("ats.tag", "t")), {
      ...application,
      candidate: { id: "c", tags: [{ id: "u" }] }
    })
    assert.strictEqual(
      withoutCopies(builtInModels, "ats.application", application, forgotten("ats.candidate", "d")),
      application
    )
    const withoutId = { ...application, candidate: { first_name: "Ann" } }
    assert.isNull(
      withoutCopies(builtInModels, "ats.application", withoutId, forgotten("ats.candidate", "c"))["candidate"]
    )
  })

  it("are found in offers, payslips, reviews and scorecards, even if they have no stream of their own", () => {
    const offer = { id: "o", application_id: "a", application: { candidate: { id: "c" }, job: { id: "j" } } }
    assert.deepStrictEqual(withoutCopies(builtInModels, "ats.offer", offer, forgotten("ats.application", "a")), {
      ...offer,
      application: null
    })
    assert.deepStrictEqual(withoutCopies(builtInModels, "ats.offer", offer, forgotten("ats.candidate", "c")), {
      ...offer,
      application: { candidate: null, job: { id: "j" } }
    })
    const review = { id: "r", reviewee: { id: "e" }, reviewer: { id: "f" } }
    assert.deepStrictEqual(
      withoutCopies(builtInModels, "hris.performance_review", review, forgotten("hris.employee", "f")),
      {
        ...review,
        reviewer: null
      }
    )
    const references = [
      { path: "boss", kind: "employee", shared: [] },
      { path: "hired_by", kind: "application", shared: [] }
    ]
    const teams = entryOf(defineList("hris.team", { path: "/teams", references }))
    const models = makeModels([...builtInModels.entries, teams])
    assert.include(embeddingModels(models, "hris.employee"), "hris.team")
    assert.include(embeddingModels(models, "ats.application"), "hris.team")
    assert.deepStrictEqual(
      withoutCopies(models, "hris.team", { id: "t", boss: { id: "f" } }, forgotten("hris.employee", "f")),
      {
        id: "t",
        boss: null
      }
    )
    assert.deepStrictEqual(embeddingModels(builtInModels, "hris.employee"), ["hris.payslip", "hris.performance_review"])
    assert.deepStrictEqual(embeddingModels(builtInModels, "ats.user"), ["ats.scorecard"])
    assert.deepStrictEqual(embeddingModels(builtInModels, "ats.candidate"), ["ats.application", "ats.offer"])
  })
})
