/** Tags the candidate of every application that is hired. */
import * as Effect from "effect/Effect"
import * as Plugin from "rollcall/plugin"

export default Plugin.make("my-plugin", { needs: { writes: ["addTag"] } }).on(
  "ats.application.hired",
  {},
  Effect.fnUntraced(function*(event) {
    const candidate = event.after.candidate_id
    if (candidate == null) return yield* new Plugin.Permanent("the application names no candidate")
    const api = yield* Plugin.Api
    yield* api.addTag(candidate, { tag: { name: "hired" } })
  })
)
