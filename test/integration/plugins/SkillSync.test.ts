/** Skill ratings and expected skills over HTTP, on the scales of the sandbox. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import skillSync from "../../../plugins/skill-sync/plugin.ts"
import * as Acme from "./Acme.ts"

const integration = Acme.hris

/** One skill for each scale. */
const skillsOf = Effect.fnUntraced(function*({ records }: Acme.Acme) {
  const byScale = Map.groupBy(yield* records("hris.skill"), (skill) => JSON.stringify(skill["proficiency_scale"]))
  return [...byScale.values()].flatMap(([skill]) => skill === undefined ? [] : [String(skill["id"])])
})

const rating = {
  type: "SINGLE_SELECT",
  ordered_options: ["Below", "Meets", "Exceeds", "Outstanding"],
  value: "Exceeds"
}

const company = Effect.gen(function*() {
  const acme = yield* Acme.make
  const skills = yield* skillsOf(acme)
  const plugin = skillSync.with({
    values: {
      SKILL_SYNC_SKILLS: skills.join(),
      SKILL_SYNC_TITLES: { "night nurse": Object.fromEntries(skills.map((skill) => [skill, true])) }
    }
  })
  yield* acme.read
  yield* acme.deliver([plugin])
  return { acme, plugin, skills }
})

describe("skill-sync, over HTTP", () => {
  it.live("a review leaves one rating per skill on every scale", () =>
    Effect.scoped(Effect.gen(function*() {
      const { acme, plugin, skills } = yield* company
      assert.strictEqual(skills.length, 3)
      const { id } = yield* acme.sandbox.mutate({
        op: "create",
        integration,
        model: "hris.performance_review",
        fields: { type: "MANAGER", summary_rating: rating }
      })
      yield* acme.read
      yield* acme.deliver([plugin])
      const [review] = (yield* acme.records("hris.performance_review")).filter((each) => each["id"] === id)
      const { id: employee } = review!["reviewee"] as { readonly id: string }
      const ratings = (yield* acme.records("hris.rating")).filter((each) => each["employee_id"] === employee)
      assert.sameMembers(ratings.map((each) => each["skill_id"]), skills)
      assert.deepStrictEqual(yield* acme.deliveries.deadLetters({ limit: 10 }), [])
    })))

  it.live("an opening gets its skills when it opens, and not again after the plugin's own writes", () =>
    Effect.scoped(Effect.gen(function*() {
      const { acme, plugin, skills } = yield* company
      const model = "hris.staffing_entity"
      const { id } = yield* acme.sandbox.mutate({
        op: "create",
        integration,
        model,
        fields: { name: "Night Nurse", status: "PENDING" }
      })
      yield* acme.read
      yield* acme.sandbox.mutate({ op: "update", integration, model, id, fields: { status: "OPEN_LIMITED" } })
      for (const _ of [1, 2, 3]) {
        yield* acme.read
        yield* acme.deliver([plugin])
      }
      const [opening] = (yield* acme.records(model)).filter((each) => each["id"] === id)
      for (const skill of skills) assert.include(JSON.stringify(opening?.["skills"]), skill)
      const posted = (yield* acme.sandbox.requests).filter(({ path }) => path.endsWith(`${id}/skills`))
      assert.isAtMost(posted.length, skills.length)
    })))
})
