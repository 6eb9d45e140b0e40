/**
 * A candidate carries the tags of the stages that their open applications stand in, and no others of ours. Hides how many
 * applications a candidate has, and which tags are there already.
 *
 * Invariants
 * 1. What a candidate should carry follows from all their applications as they are now, not from the one that moved
 * 2. Tags that stand for no stage are never touched
 *
 * Gotchas
 * - The API's lists lag behind writes. A tag that this plugin added for one event and has to remove for the next one is not
 *   shown yet, and one that it removed is shown still.
 * - Tagging changes the candidate that an application shows, which is none of the changes that are listened to: no loop.
 */
import * as Plugin from "#plugin"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
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
const currentCandidate = Effect.fnUntraced(function*(candidate: string, seen: Application) {
  const now = yield* (yield* Plugin.Api).live("ats.application", seen.id)
  return now?.candidate_id === candidate ? now.candidate ?? null : seen.candidate ?? null
})

const tagsOf = (shown: Application["candidate"]): ReadonlySet<string> =>
  new Set(shown?.tags?.flatMap(({ name }) => name ?? []))

/** A second time changes nothing: no need to wait until the first must show. */
const repeatIfUnknown = { onUnknown: "repeat" } as const

/** So long after a write the API's lists may still show what was before it. */
const lag = { longest: Duration.minutes(5), ask: Duration.seconds(30) }

/**
 * A refusal may mean that the tag is gone already, removed by an earlier event. Then the API stops showing it after a
 * while; if it does not, the refusal is the failure of this delivery.
 */
const remove = Effect.fnUntraced(function*(candidate: string, name: string, seen: Application) {
  const api = yield* Plugin.Api
  yield* api.removeTag(candidate, { tag: { name } }, repeatIfUnknown).pipe(
    Effect.catchTag("Permanent", (failure) =>
      Effect.gen(function*() {
        if (!tagsOf(yield* currentCandidate(candidate, seen)).has(name)) return
        if (failure.refusal !== "Rejected") return yield* failure
        const refusedAt = yield* Plugin.Journal.once(
          `refused ${candidate} ${name}`,
          Schema.Number,
          Clock.currentTimeMillis
        )
        const since = (yield* Clock.currentTimeMillis) - refusedAt
        return yield* since < Duration.toMillis(lag.longest) ? Plugin.RateLimited.after(lag.ask) : failure
      }))
  )
})

/** The candidate's applications, and the tags that follow from them. */
const wantedTagsOf = Effect.fnUntraced(function*(settings: Settings, candidate: string) {
  const applications = yield* Plugin.Records.applicationsOf(candidate)
  const wanted = applications.flatMap((application) => tagOf(settings, application) ?? [])
  return { applications, wanted: [...new Set(wanted)].sort() }
})

const Names = Schema.Array(Schema.String)

/** A candidate whose application entered a stage or left one; tags of stages, null: of none. */
interface StageMove {
  readonly candidate: string
  readonly entered: string | null
  readonly left: string | null
  /** As it showed the candidate last. */
  readonly application: Application
}

/** Brings the tags to what the applications say. */
const settle = Effect.fnUntraced(function*(settings: Settings, { application, candidate, entered, left }: StageMove) {
  const api = yield* Plugin.Api
  /** May have been added or removed a moment ago: written whatever the API shows. */
  const unsure = new Set(entered === null ? [] : [entered])
  for (let round = 0;; round++) {
    const { applications, wanted } = yield* wantedTagsOf(settings, candidate)
    const seen = applications[0] ?? application
    const shown = yield* currentCandidate(candidate, seen)
    if (shown?.remote_deleted_at != null) return
    const has = tagsOf(shown)
    const add = wanted.filter((name) => !has.has(name) || unsure.has(name))
    const carried = new Set([...has, ...unsure, ...left === null ? [] : [left]])
    const gone = [...carried].filter((name) => isOurs(settings, name) && !wanted.includes(name))
    const names = [...add, ...gone]
    // what an attempt wrote that was cut off here may not be shown either
    const begun = yield* Plugin.Journal.once(`round ${round} ${candidate}`, Names, Effect.succeed(names))
    for (const name of begun) unsure.add(name)
    if (begun.some((name) => !names.includes(name))) continue
    for (const name of add) yield* api.addTag(candidate, { tag: { name } }, repeatIfUnknown)
    for (const name of gone) yield* remove(candidate, name, seen)
    // another application may have moved meanwhile, and its handler may have been quicker than this one
    const now = yield* wantedTagsOf(settings, candidate)
    if (now.wanted.join("\n") === wanted.join("\n")) return
  }
})

export default Plugin.make("stage-tags", { config, needs: { writes: ["addTag", "removeTag"] } }).onAny(
  ["ats.application.created", "ats.application.updated", "ats.application.deleted"],
  { as: "tags", changed: ["outcome", "current_stage_id", "current_stage", "candidate_id"] },
  Effect.fn("StageTags.tags")(function*(event, settings) {
    const { after, before } = event
    const candidates = new Set([before?.candidate_id, after?.candidate_id].filter((id) => id != null))
    for (const candidate of candidates) {
      const [was, is] = [before, after].map((state) => state?.candidate_id === candidate ? state : null)
      const [left, entered] = [was, is].map((state) => state == null ? null : tagOf(settings, state) ?? null)
      const application = is ?? was
      if (application == null) continue
      yield* settle(settings, {
        candidate,
        application,
        ...left === entered ? { left: null, entered: null } : { left: left ?? null, entered: entered ?? null }
      })
    }
  })
)
