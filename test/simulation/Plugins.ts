/**
 * Plugins that get in each other's way: two that undo each other's tag, and one whose effect must not be doubled.
 *
 * Gotchas
 * - A referral is told by its e-mail address, one for each event that it answers.
 */
import * as Effect from "effect/Effect"
import * as Api from "../../src/plugin/Capabilities.ts"
import * as Plugin from "../../src/plugin/Plugin.ts"

export const tag = "seen"

const isTagged = (
  candidate: { readonly tags?: ReadonlyArray<{ readonly name?: unknown }> | null } | null | undefined
) => candidate?.tags?.some(({ name }) => name === tag) === true

const adder = Plugin.make("adder").on(
  "ats.application.updated",
  {},
  ({ after: { candidate } }) =>
    Effect.gen(function*() {
      if (candidate?.id == null || isTagged(candidate)) return
      const api = yield* Api.Api
      yield* api.addTag(candidate.id, { tag: { name: tag } })
    })
)

const remover = Plugin.make("remover").on(
  "ats.application.updated",
  {},
  ({ after: { candidate } }) =>
    Effect.gen(function*() {
      if (candidate?.id == null || !isTagged(candidate)) return
      const api = yield* Api.Api
      yield* api.removeTag(candidate.id, { tag: { name: tag } })
    })
)

const referrer = Plugin.make("referrer").on(
  "ats.application.hired",
  {},
  ({ after, recordId, version }) =>
    Effect.gen(function*() {
      if (after.job_id == null) return
      const api = yield* Api.Api
      const email_address = `${recordId}-${version}@referrals.example`
      yield* api.createApplication(after.job_id, {
        candidate: { first_name: "Friend", last_name: "Doe", email_address }
      })
    })
)

export const plugins = [adder, remover, referrer]
