/**
 * Derives skills from the HR system: a rated review rates skills of the reviewee, and a new opening gets the skills that are
 * configured for its title and groups.
 *
 * Invariants
 * 1. Every level that is sent is valid on the skill's scale
 * 2. A skill that an opening already has is not changed: a person may have set its expectation by hand
 *
 * Gotchas
 * - The review that was rated last wins, regardless of its author. Therefore only reviews by managers are used by default.
 */
import * as Plugin from "#plugin"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Level, levelAt, levelNamed } from "./Level.ts"

const Levels = Schema.Record(Schema.String, Schema.String)
type Levels = typeof Levels.Type
const none: Readonly<Record<string, Levels>> = {}
const noLevels: Levels = {}

/** A comma-separated list, without empty and repeated entries. */
const list = (name: string, otherwise: ReadonlyArray<string>) =>
  Config.Array(Schema.Trim, name).pipe(
    Config.withDefault(otherwise),
    Config.map((entries) => [...new Set(entries)].filter((entry) => entry !== ""))
  )
const table = (name: string) => Config.schema(Schema.Record(Schema.String, Levels), name).pipe(Config.withDefault(none))

const config = Config.all({
  /** Ids of the skills that a review rates. */
  skills: list("SKILL_SYNC_SKILLS", []),
  /** Types of the reviews that are used. */
  reviewTypes: list("SKILL_SYNC_REVIEW_TYPES", ["MANAGER"]),
  /**
   * Levels by rating. A rating that is not listed gets the level at the same relative place as the rating has among the ratings of the
   * review, lowest first.
   */
  levels: Config.Record(Schema.String, Schema.String, "SKILL_SYNC_LEVELS").pipe(Config.withDefault(noLevels)),
  /** Levels by words in an opening's title and by skill; `true` for a skill without an expected level. */
  titles: table("SKILL_SYNC_TITLES"),
  /** Levels by name of one of the opening's groups and by skill; `titles` takes precedence. */
  groups: table("SKILL_SYNC_GROUPS")
})

/** The scale of a skill; null if it has none. */
const scaleOf = Effect.fnUntraced(function*(id: string) {
  const skill = (yield* Plugin.Records.get("hris.skill", id)) ?? (yield* (yield* Plugin.Api).live("hris.skill", id))
  if (skill === null) return yield* new Plugin.Permanent({ message: `skill ${id} does not exist` })
  return skill.proficiency_scale ?? null
})

/** The level and the scale that it is checked against; fails if the scale does not have the level. */
const levelOnScale = Effect.fnUntraced(
  function*(skill: string, levelOn: (scale: Plugin.ProficiencyScale) => Level | null) {
    const scale = yield* scaleOf(skill)
    const level = scale === null ? null : levelOn(scale)
    if (scale === null || level === null) {
      return yield* new Plugin.Permanent({
        message:
          `the level cannot be determined on the scale of skill ${skill}: check the configured level and the scale`
      })
    }
    return { level, scale }
  }
)

// ---- reviews ------------------------------------------------------------------------------------------------------

type Rated = Plugin.EventOf<"hris.performance_review.rated">

const levelOf = ({ after: { summary_rating }, transition }: Rated, levels: Levels) => {
  const rating = transition.to ?? ""
  const named = levels[rating]
  const ratings = summary_rating?.ordered_options ?? []
  const place = ratings.indexOf(rating)
  return (scale: Plugin.ProficiencyScale): Level | null => {
    if (named !== undefined) return levelNamed(scale, named)
    return place < 0 ? null : levelAt(scale, place, ratings.length)
  }
}

// ---- openings -----------------------------------------------------------------------------------------------------

type Opening = Plugin.RecordOf<"hris.staffing_entity">

const normalizeWords = (text: string): string =>
  ` ${text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean).join(" ")} `

/** Levels by skill, for the configured skills that the opening does not have yet. */
const missingSkills = (
  opening: Opening,
  groups: Readonly<Record<string, Levels>>,
  titles: Readonly<Record<string, Levels>>
) => {
  const title = normalizeWords(opening.name ?? "")
  const names = new Set(opening.groups?.map(({ name }) => name?.toLowerCase()))
  const wanted = [
    ...Object.entries(groups).filter(([group]) => names.has(group.toLowerCase())),
    ...Object.entries(titles).filter(([words]) => title.includes(normalizeWords(words)))
  ]
  const has = new Set(opening.skills?.map(({ skill_id }) => skill_id))
  return [...new Map(wanted.flatMap(([, levels]) => Object.entries(levels)))].filter(([skill]) => !has.has(skill))
}

export default Plugin.make("skill-sync", { config, needs: { writes: ["rateSkill", "expectSkill"] } })
  .on(
    "hris.performance_review.rated",
    {},
    Effect.fn("SkillSync.rated")(function*(event, { config: { levels, reviewTypes, skills } }) {
      const { reviewee, type } = event.after
      if (!reviewTypes.includes(type ?? "")) return
      const employee_id = reviewee?.id
      if (employee_id == null) return yield* new Plugin.Permanent({ message: "the review names no reviewee" })
      const api = yield* Plugin.Api
      for (const skill_id of skills) {
        const { level, scale } = yield* levelOnScale(skill_id, levelOf(event, levels))
        const rating = { rating_source: "EXTERNAL", proficiency: level }
        yield* api.rateSkill({ employee_id, skill_id, rating }, { scale })
      }
    })
  )
  .on(
    "hris.staffing_entity.opened",
    {},
    Effect.fn("SkillSync.opened")(function*(event, { config: { groups, titles } }) {
      const api = yield* Plugin.Api
      for (const [skill_id, text] of missingSkills(event.after, groups, titles)) {
        if (text === "true") {
          yield* api.expectSkill(event.recordId, { skill_id })
        } else {
          const { level, scale } = yield* levelOnScale(skill_id, (scale) => levelNamed(scale, text))
          yield* api.expectSkill(event.recordId, { skill_id, expected_proficiency: level }, { scale })
        }
      }
    })
  )
