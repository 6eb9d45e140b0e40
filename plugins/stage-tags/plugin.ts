/**
 * A candidate carries the tags of the stages that their open applications stand in, and no others of ours. Hides how many
 * applications a candidate has, and which tags are there already.
 *
 * Invariants
 * 1. What a candidate should carry follows from all their applications as they are now, not from the one that moved
 * 2. Tags that stand for no stage are never touched
 *
 * Gotchas
 * - Tagging changes the candidate that an application shows, which is none of the changes that are listened to: no loop.
 */
import * as Plugin from "#plugin"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

const noTags: Readonly<Record<string, string>> = {}

const config = Config.all({
  /** Stage, by name or id, → tag. With a table, stages that are not in it have no tag. */
  tags: Config.Record(Schema.String, Schema.String, "STAGE_TAGS_TABLE").pipe(Config.withDefault(noTags)),
  /** Without a table a tag is the name of its stage behind this; whatever begins so is ours. */
  prefix: Config.String("STAGE_TAGS_PREFIX").pipe(Config.withDefault("Stage: "))
})
type Settings = Config.Success<typeof config>
type Application = Plugin.RecordOf<"ats.application">

const usesTable = ({ tags }: Settings): boolean => Object.keys(tags).length > 0

const isOurs = (settings: Settings, tag: string): boolean =>
  usesTable(settings) ? Object.values(settings.tags).includes(tag) : tag.startsWith(settings.prefix)

const tagOf = (settings: Settings, { current_stage: stage, outcome }: Application): string | undefined => {
  if (outcome === "HIRED" || outcome === "DECLINED" || stage?.name == null) return undefined
  return usesTable(settings)
    ? settings.tags[stage.id ?? ""] ?? settings.tags[stage.name]
    : `${settings.prefix}${stage.name}`
}

/** The candidate as an application shows them now: polls do not notice a tag alone. */
const shownNow = Effect.fnUntraced(function*(candidate: string, seen: Application) {
  const now = yield* (yield* Plugin.Api).live("ats.application", seen.id)
  return now?.candidate_id === candidate ? now.candidate ?? null : seen.candidate ?? null
})

const tagsOf = (shown: Application["candidate"]): ReadonlySet<string> =>
  new Set(shown?.tags?.flatMap(({ name }) => name ?? []))

/** A second time changes nothing, and before each we look what is there: no need to wait until the first must show. */
const again = { onUnknown: "repeat" } as const

/** What is refused because the tag is gone already is done: somebody was quicker. */
const remove = Effect.fnUntraced(function*(candidate: string, name: string, seen: Application) {
  const api = yield* Plugin.Api
  yield* api.removeTag(candidate, { tag: { name } }, again).pipe(
    Effect.catchTag(
      "Permanent",
      (failure) =>
        Effect.flatMap(
          shownNow(candidate, seen),
          (shown) => tagsOf(shown).has(name) ? Effect.fail(failure) : Effect.void
        )
    )
  )
})

/** The candidate's applications, and the tags that follow from them. */
const standing = Effect.fnUntraced(function*(settings: Settings, candidate: string) {
  const applications = yield* Plugin.Records.applicationsOf(candidate)
  const wanted = applications.flatMap((application) => tagOf(settings, application) ?? [])
  return { applications, wanted: [...new Set(wanted)].sort() }
})

/** Brings the tags to what the applications say; `last`: the application that showed the candidate last. */
const settle: (settings: Settings, candidate: string, last: Application) => Plugin.Handled = Effect.fnUntraced(
  function*(settings, candidate, last) {
    const api = yield* Plugin.Api
    const { applications, wanted } = yield* standing(settings, candidate)
    const seen = applications[0] ?? last
    const shown = yield* shownNow(candidate, seen)
    if (shown?.remote_deleted_at != null) return
    const has = tagsOf(shown)
    for (const name of wanted) if (!has.has(name)) yield* api.addTag(candidate, { tag: { name } }, again)
    for (const name of has) if (!wanted.includes(name) && isOurs(settings, name)) yield* remove(candidate, name, seen)
    // another application may have moved meanwhile, and its handler may have been quicker than this one
    const now = yield* standing(settings, candidate)
    if (now.wanted.join("\n") !== wanted.join("\n")) yield* settle(settings, candidate, last)
  }
)

export default Plugin.make("stage-tags", { config, needs: { writes: ["addTag", "removeTag"] } }).onAny(
  ["ats.application.created", "ats.application.updated", "ats.application.deleted"],
  { as: "tags", changed: ["outcome", "current_stage_id", "current_stage", "candidate_id"] },
  Effect.fn("StageTags.tags")(function*(event, settings) {
    const shown = [event.before, event.after].filter((application) => application?.candidate_id != null)
    const byCandidate = new Map(shown.map((application) => [application?.candidate_id, application]))
    for (const [candidate, seen] of byCandidate) {
      if (candidate != null && seen != null) yield* settle(settings, candidate, seen)
    }
  })
)
