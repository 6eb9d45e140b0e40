import { assert, describe, it } from "@effect/vitest"
import { embeddingModels, withoutCopies, withoutForgotten } from "./Forgotten.ts"

const forgotten = (model: string, ...ids: ReadonlyArray<string>) => new Map([[model, new Set(ids)]])

describe("forgotten records", () => {
  it("leave out their own rows, and keep the others as the same values", () => {
    const results = [{ id: "a" }, { id: "b" }, 7, null]
    assert.deepStrictEqual(withoutForgotten("ats.tag", results, forgotten("ats.tag", "a")), [{ id: "b" }, 7, null])
    assert.strictEqual(withoutForgotten("ats.tag", results, forgotten("ats.tag", "x")), results)
    assert.strictEqual(withoutForgotten("ats.tag", results, forgotten("ats.offer", "a")), results)
    assert.strictEqual(withoutForgotten("ats.tag", results, new Map()), results)
  })

  it("leave null in place of their copies, and are removed from arrays", () => {
    const application = { id: "a", candidate_id: "c", candidate: { id: "c", tags: [{ id: "t" }, { id: "u" }] } }
    assert.deepStrictEqual(withoutCopies("ats.application", application, forgotten("ats.candidate", "c")), {
      ...application,
      candidate: null
    })
    assert.deepStrictEqual(withoutCopies("ats.application", application, forgotten("ats.tag", "t")), {
      ...application,
      candidate: { id: "c", tags: [{ id: "u" }] }
    })
    assert.strictEqual(withoutCopies("ats.application", application, forgotten("ats.candidate", "d")), application)
    const withoutId = { ...application, candidate: { first_name: "Ann" } }
    assert.isNull(withoutCopies("ats.application", withoutId, forgotten("ats.candidate", "c"))["candidate"])
  })

  it("are found in offers, payslips, reviews and scorecards, even if they have no stream of their own", () => {
    const offer = { id: "o", application_id: "a", application: { candidate: { id: "c" }, job: { id: "j" } } }
    assert.deepStrictEqual(withoutCopies("ats.offer", offer, forgotten("ats.application", "a")), {
      ...offer,
      application: null
    })
    assert.deepStrictEqual(withoutCopies("ats.offer", offer, forgotten("ats.candidate", "c")), {
      ...offer,
      application: { candidate: null, job: { id: "j" } }
    })
    const review = { id: "r", reviewee: { id: "e" }, reviewer: { id: "f" } }
    assert.deepStrictEqual(withoutCopies("hris.performance_review", review, forgotten("hris.employee", "f")), {
      ...review,
      reviewer: null
    })
    assert.deepStrictEqual(embeddingModels("hris.employee"), ["hris.payslip", "hris.performance_review"])
    assert.deepStrictEqual(embeddingModels("ats.user"), ["ats.scorecard"])
    assert.deepStrictEqual(embeddingModels("ats.candidate"), ["ats.application", "ats.offer"])
  })
})
