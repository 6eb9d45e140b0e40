/**
 * Gives each candidate the tags of the stages of their open applications, and removes other stage tags.
 *
 * Invariants
 * 1. A candidate's tags are computed from all their current applications, not only from the one that moved
 * 2. Tags that do not belong to a stage are never changed
 *
 * Gotchas
 * - The API's lists lag behind writes. A tag that this plugin added for one event and must remove for the next may not be in
 *   the list yet, and a tag that it removed may still be in the list.
 * - A tag changes the `candidate` property of an application. The plugin does not listen to that property, so there is no loop.
 */
import * as Plugin from "#plugin"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

const noTags: Readonly<Record<string, string>> = {}

const config = Config.all({
  /** Tags by stage (name or id). If there is a table, stages that are not in it have no tag. */
  tags: Config.Record(Schema.String, Schema.String, "STAGE_TAGS_TABLE").pipe(Config.withDefault(noTags)),
  /** Without a table, a stage's tag is this prefix and the stage's name. Every tag with this prefix is treated as a stage tag. */
  prefix: Config.String("STAGE_TAGS_PREFIX").pipe(Config.withDefault("Stage: "))
})
type Settings = Config.Success<typeof config>
type Application = Plugin.RecordOf<"ats.application">

const usesTable = ({ tags }: Settings): boolean => Object.keys(tags).length > 0

const isStageTag = (settings: Settings, tag: string): boolean =>
  usesTable(settings) ? Object.values(settings.tags).includes(tag) : tag.startsWith(settings.prefix)

const tagOf = (settings: Settings, { current_stage: stage, outcome }: Application): string | undefined => {
  if (outcome === "HIRED" || outcome === "DECLINED" || stage?.name == null) return undefined
  return usesTable(settings)
    ? settings.tags[stage.id ?? ""] ?? settings.tags[stage.name]
    : `${settings.prefix}${stage.name}`
}

/**
 * The candidate as the API returns it now in an application. The stored copy is not enough, because polls miss a change if only tags
 * change.
 */
const currentCandidate = Effect.fnUntraced(function*(candidate: string, seen: Application) {
  const now = yield* (yield* Plugin.Api).live("ats.application", seen.id)
  return now?.candidate_id === candidate ? now.candidate ?? null : seen.candidate ?? null
})

const tagsOf = (shown: Application["candidate"]): ReadonlySet<string> =>
  new Set(shown?.tags?.flatMap(({ name }) => name ?? []))

/** Repeating the write changes nothing, so the plugin need not wait until the API shows the effect of the first one. */
const repeatIfUnknown = { onUnknown: "repeat" } as const

/** `longest`: how long after a write the API's lists may still show the earlier state. `interval`: between checks. */
const lag = { longest: Duration.minutes(5), interval: Duration.seconds(30) }

/**
 * Removes a tag. A rejection may mean that an earlier event already removed it. In that case the tag disappears from the
 * API's lists after a while; if it does not, the delivery fails with the rejection.
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
        return yield* since < Duration.toMillis(lag.longest) ? Plugin.RateLimited.after(lag.interval) : failure
      }))
  )
})

/** The candidate's applications, and the tags of their stages. */
const wantedTagsOf = Effect.fnUntraced(function*(settings: Settings, candidate: string) {
  const applications = yield* Plugin.Records.applicationsOf(candidate)
  const wanted = applications.flatMap((application) => tagOf(settings, application) ?? [])
  return { applications, wanted: [...new Set(wanted)].sort() }
})

const Names = Schema.Array(Schema.String)

/** A candidate whose application changed. `entered`, `left`: tags of the stages that it entered and left; null if there is none. */
interface StageMove {
  readonly candidate: string
  readonly entered: string | null
  readonly left: string | null
  /** The application that changed, with the candidate as it showed them last. */
  readonly application: Application
}

/** Writes the tags until they match the candidate's applications. */
const settle = Effect.fnUntraced(function*(settings: Settings, { application, candidate, entered, left }: StageMove) {
  const api = yield* Plugin.Api
  /** Tags that may have been added or removed a moment ago. They are written even if the API shows them as up to date. */
  const unsure = new Set(entered === null ? [] : [entered])
  for (let round = 0;; round++) {
    const { applications, wanted } = yield* wantedTagsOf(settings, candidate)
    const seen = applications[0] ?? application
    const shown = yield* currentCandidate(candidate, seen)
    if (shown?.remote_deleted_at != null) return
    const has = tagsOf(shown)
    const add = wanted.filter((name) => !has.has(name) || unsure.has(name))
    const carried = new Set([...has, ...unsure, ...left === null ? [] : [left]])
    const gone = [...carried].filter((name) => isStageTag(settings, name) && !wanted.includes(name))
    const names = [...add, ...gone]
    // an earlier attempt that was interrupted here may have written these tags, and the API may not show that yet
    const started = yield* Plugin.Journal.once(`round ${round} ${candidate}`, Names, Effect.succeed(names))
    for (const name of started) unsure.add(name)
    if (started.some((name) => !names.includes(name))) continue
    for (const name of add) yield* api.addTag(candidate, { tag: { name } }, repeatIfUnknown)
    for (const name of gone) yield* remove(candidate, name, seen)
    // another application of the candidate may have moved in the meantime, and its handler may have finished before this one
    const now = yield* wantedTagsOf(settings, candidate)
    if (now.wanted.join("\n") === wanted.join("\n")) return
  }
})

export default Plugin.make("stage-tags", { config, needs: { writes: ["addTag", "removeTag"] } }).onAny(
  ["ats.application.created", "ats.application.updated", "ats.application.deleted"],
  { as: "tags", changed: ["outcome", "current_stage_id", "current_stage", "candidate_id"] },
  Effect.fn("StageTags.tags")(function*(event, { config: settings }) {
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
