/** Tags the candidate of every application that is hired. */
import * as Plugin from "rollcall/plugin"

export default Plugin.make("my-plugin", { needs: { writes: ["addTag"] } }).on(
  "ats.application.hired",
  {},
  async (event, { api }) => {
    const candidate = event.after.candidate_id
    if (candidate == null) throw new Plugin.Permanent("the application names no candidate")
    await api.addTag(candidate, { tag: { name: "hired" } })
  }
)
