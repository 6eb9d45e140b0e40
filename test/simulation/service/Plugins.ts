/**
 * Plugins that conflict: two that undo each other's tag, and two whose writes must not be doubled, one of
 * them in batches that are replayed.
 *
 * Gotchas
 * - A referral is identified by its e-mail address: one for each combination of event and friend.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Api from "../../../src/plugin/Capabilities.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"

export const tag = "seen"

const isTagged = (
  candidate: { readonly tags?: ReadonlyArray<{ readonly name?: unknown }> | null } | null | undefined
) => candidate?.tags?.some(({ name }) => name === tag) === true

const adder = Plugin.make("adder", { needs: { writes: ["addTag"] } }).on(
  "ats.application.updated",
  {},
  ({ after: { candidate } }) =>
    Effect.gen(function*() {
      if (candidate?.id == null || isTagged(candidate)) return
      const api = yield* Api.Api
      yield* api.addTag(candidate.id, { tag: { name: tag } })
    })
)

/** It also tries a write that it does not declare. */
const remover = Plugin.make("remover", { needs: { writes: ["removeTag"] } }).on(
  "ats.application.updated",
  {},
  ({ after: { candidate }, recordId }) =>
    Effect.gen(function*() {
      const api = yield* Api.Api
      yield* Effect.ignore(api.addResultLink(recordId, { label: "Tags", url: "https://tags.example" }))
      if (candidate?.id == null || !isTagged(candidate)) return
      yield* api.removeTag(candidate.id, { tag: { name: tag } })
    })
)

/** Refers two friends, one after another: a second process may refer the second one after a takeover. */
const referrer = Plugin.make("referrer", { needs: { writes: ["createApplication"] } }).on(
  "ats.application.hired",
  {},
  ({ after, recordId, version }) =>
    Effect.gen(function*() {
      if (after.job_id == null) return
      const api = yield* Api.Api
      for (const friend of [1, 2]) {
        const email_address = `${recordId}-${version}-${friend}@referrals.example`
        yield* api.createApplication(after.job_id, {
          candidate: { first_name: "Friend", last_name: "Doe", email_address }
        })
      }
    })
)

/** Ends the e-mail addresses of candidates that the batch handler creates. */
export const introduced = "@introductions.example"

/** Creates one application for each event of a batch, in a step named after the event. */
const introducer = Plugin.make("introducer", { needs: { writes: ["createApplication"] } }).batch(
  "ats.application.hired",
  { as: "batches", size: 3, within: "10 minutes" },
  (events) =>
    Effect.gen(function*() {
      const api = yield* Api.Api
      for (const { after, id, recordId, version } of events) {
        if (after.job_id == null) continue
        const email_address = `${recordId}-${version}${introduced}`
        const candidate = { first_name: "Friend", last_name: "Doe", email_address }
        yield* Api.Journal.once(id, Schema.Unknown, api.createApplication(after.job_id, { candidate }))
      }
    })
)

/** The handler whose events are replayed. */
export const replayed = { plugin: "introducer", handler: "batches" } as const

/** Fails for every record as long as the server behind it is down. */
export const notifier = (isDown: () => boolean) =>
  Plugin.make("notifier").with({ from: "oldest" }).onAny(
    ["ats.application.created", "ats.application.updated", "ats.tag.created", "ats.tag.updated", "hris.skill.created"],
    { as: "notices", origins: ["backfill", "poll", "sweep", "refresh"] },
    () => isDown() ? Effect.fail(new Plugin.Transient({ message: "the server is down" })) : Effect.void
  )

export const plugins = [adder, remover, referrer, introducer]
