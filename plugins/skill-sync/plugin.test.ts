/** Skill ratings from reviews, and expected skills for openings. */
import * as Testing from "#testing"
import { assert, describe, it } from "@effect/vitest"
import plugin from "./plugin.ts"

const stars = Testing.record("hris.skill", {
  id: "s1",
  proficiency_scale: { type: "NUMERIC", min: 0, max: 5, step: 1 }
})
const words = Testing.record("hris.skill", {
  id: "s2",
  proficiency_scale: {
    type: "SINGLE_SELECT",
    ordered_options: [{ id: "o1", name: "Novice" }, { id: "o2", name: "Master" }]
  }
})
const bare = Testing.record("hris.skill", { id: "s3" })

const values = {
  SKILL_SYNC_SKILLS: "s1, s2",
  SKILL_SYNC_TITLES: { "data engineer": { s1: 4, s2: "Master" } },
  SKILL_SYNC_GROUPS: { support: { s1: 1, s3: true } }
}
const testing = (more: object = {}) =>
  Testing.make(plugin.with({ values: { ...values, ...more } }), { records: [stars, words, bare] })

const ratings = ["Below", "Meets", "Exceeds", "Outstanding"]
const rated = (value: string, type = "MANAGER") =>
  Testing.event("hris.performance_review.rated", {
    after: {
      type,
      reviewee: { id: "e1", first_name: "Zoë" },
      summary_rating: { type: "SINGLE_SELECT", ordered_options: ratings, value }
    }
  })
const opened = (after: object) => Testing.event("hris.staffing_entity.opened", { after: { id: "se1", ...after } })
const ratedAs = ({ writes }: Testing.Result) =>
  writes.map((done) =>
    done.write === "rateSkill" ? [done.body.employee_id, done.body.skill_id, done.body.rating?.proficiency] : []
  )
const expected = ({ writes }: Testing.Result) =>
  writes.map((done) =>
    done.write === "expectSkill" ? [done.id, done.body.skill_id, done.body.expected_proficiency] : []
  )

describe("skill-sync", () => {
  it("a rated review rates the reviewee's skills by the place of its rating, each skill on its own scale", async () => {
    assert.deepStrictEqual(ratedAs(await testing().deliver(rated("Exceeds"))), [["e1", "s1", 3], ["e1", "s2", "o2"]])
    assert.deepStrictEqual(ratedAs(await testing().deliver(rated("Below"))), [["e1", "s1", 0], ["e1", "s2", "o1"]])
  })

  it("a rating with a configured level gets that level", async () => {
    const named = testing({ SKILL_SYNC_SKILLS: "s1", SKILL_SYNC_LEVELS: { Meets: 5 } })
    assert.deepStrictEqual(ratedAs(await named.deliver(rated("Meets"))), [["e1", "s1", 5]])
  })

  it("empty and repeated ids in the list of skills are ignored, such as those after a trailing comma", async () => {
    for (const skills of ["s1,", " s1 ,, s1", "s1,s1"]) {
      const run = await testing({ SKILL_SYNC_SKILLS: skills }).deliver(rated("Exceeds"))
      assert.deepStrictEqual([run.failure, ratedAs(run)], [null, [["e1", "s1", 3]]], skills)
    }
  })

  it("only reviews of the configured types count", async () => {
    assert.deepStrictEqual((await testing().deliver(rated("Meets", "SELF"))).writes, [])
    const peers = testing({ SKILL_SYNC_REVIEW_TYPES: "PEER,SELF" })
    assert.strictEqual((await peers.deliver(rated("Meets", "SELF"))).writes.length, 2)
  })

  it("a level that is not on the scale is not sent, and the failure names neither person nor rating", async () => {
    const faults: ReadonlyArray<[values: object, rating: string]> = [
      [{ SKILL_SYNC_LEVELS: { Meets: 6 } }, "Meets"],
      [{ SKILL_SYNC_LEVELS: { Meets: "high" } }, "Meets"],
      [{ SKILL_SYNC_SKILLS: "s3" }, "Meets"],
      [{ SKILL_SYNC_SKILLS: "s4" }, "Meets"],
      [{}, "Sublime"]
    ]
    for (const [values, rating] of faults) {
      const run = await testing(values).deliver(rated(rating))
      assert.propertyVal(run.failure, "_tag", "Permanent")
      assert.deepStrictEqual(run.writes, [])
      assert.notMatch(JSON.stringify([run.failure, run.logs]), new RegExp(`Zoë|e1|${rating}`))
    }
  })

  it("an opening gets the skills configured for its title and groups, and the title takes precedence", async () => {
    const run = await testing().deliver(
      opened({ name: "Senior Data-Engineer (EMEA)", groups: [{ id: "g1", name: "Support" }] })
    )
    assert.deepStrictEqual(expected(run), [["se1", "s1", 4], ["se1", "s3", undefined], ["se1", "s2", "o2"]])
    assert.deepStrictEqual((await testing().deliver(opened({ name: "Metadata Engineers" }))).writes, [])
  })

  it("a skill that the opening already has is not changed", async () => {
    const run = await testing().deliver(opened({ name: "Data Engineer", skills: [{ skill_id: "s1" }] }))
    assert.deepStrictEqual(expected(run), [["se1", "s2", "o2"]])
  })

  it("after a crash at any point every write is sent, and at most one write is sent twice (L5)", async () => {
    for (const event of [rated("Exceeds"), opened({ name: "Data Engineer" })]) {
      const once = await testing().deliver(event)
      for (const { at, result } of await testing().crashes(event)) {
        assert.isNull(result.failure, at)
        const wanted = once.writes.map((write) => JSON.stringify(write))
        assert.sameMembers([...new Set(result.writes.map((write) => JSON.stringify(write)))], wanted, at)
        assert.isAtMost(result.writes.length, once.writes.length + 1, at)
      }
    }
  })
})
