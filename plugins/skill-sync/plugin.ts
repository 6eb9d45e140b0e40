/**
 * Skills follow what the HR system decides: a review that is rated rates skills of the reviewee, an opening that is posted
 * gets the skills that its title and groups ask for. Hides what a rating or a level means on each skill's own scale.
 *
 * Invariants
 * 1. What is sent lies on the skill's scale
 * 2. An expectation that is there already is left as it is: somebody may have set it by hand
 *
 * Gotchas
 * - The last review that was rated counts, whoever wrote it; hence only those of managers unless told otherwise.
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

/** Comma-separated. */
const list = (name: string, otherwise: ReadonlyArray<string>) =>
  Config.Array(Schema.Trim, name).pipe(Config.withDefault(otherwise))
const table = (name: string) => Config.schema(Schema.Record(Schema.String, Levels), name).pipe(Config.withDefault(none))

const config = Config.all({
  /** Ids of the skills that a review rates. */
  skills: list("SKILL_SYNC_SKILLS", []),
  /** Kinds of review that count. */
  reviewTypes: list("SKILL_SYNC_REVIEW_TYPES", ["MANAGER"]),
  /** Rating → level; by its place among the review's own ratings, lowest first, where it is not named. */
  levels: Config.Record(Schema.String, Schema.String, "SKILL_SYNC_LEVELS").pipe(Config.withDefault(noLevels)),
  /** Words of an opening's title → skill → level; `true` for a skill without an expectation. */
  titles: table("SKILL_SYNC_TITLES"),
  /** The same by the name of one of its groups; a title outweighs it. */
  groups: table("SKILL_SYNC_GROUPS")
})

/** The scale of a skill; null if it has none. */
const scaleOf = Effect.fnUntraced(function*(id: string) {
  const skill = (yield* Plugin.Records.get("hris.skill", id)) ?? (yield* (yield* Plugin.Api).live("hris.skill", id))
  if (skill === null) return yield* new Plugin.Permanent({ message: `there is no skill ${id}` })
  return skill.proficiency_scale ?? null
})

/** The level and the scale it is checked against; fails where the scale has no such level. */
const levelOnScale = Effect.fnUntraced(
  function*(skill: string, levelOn: (scale: Plugin.ProficiencyScale) => Level | null) {
    const scale = yield* scaleOf(skill)
    const level = scale === null ? null : levelOn(scale)
    if (scale === null || level === null) {
      return yield* new Plugin.Permanent({
        message: `the scale of skill ${skill} has no such level, or does not say where it lies`
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

/** Skill → level, as far as the opening does not have the skill. */
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
    Effect.fn("SkillSync.rated")(function*(event, { levels, reviewTypes, skills }) {
      const { reviewee, type } = event.after
      if (!reviewTypes.includes(type ?? "")) return
      const employee_id = reviewee?.id
      if (employee_id == null) return yield* new Plugin.Permanent({ message: "the review does not say whose it is" })
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
    Effect.fn("SkillSync.opened")(function*(event, { groups, titles }) {
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
