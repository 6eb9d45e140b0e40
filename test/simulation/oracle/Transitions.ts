/** The transitions that a change means, implemented again from the design for the simulated models. */
import type { SimulatedModel } from "../world/DefinedModels.ts"
import type { JsonObject } from "../world/Table.ts"

/** In publishing order. */
export const expectedTransitions = (
  model: SimulatedModel,
  before: JsonObject | null,
  after: JsonObject
): ReadonlyArray<string> => {
  if (model === "hris.ability") {
    // a name may be an array, because an API may break its contract
    const [from, to] = [before?.["name"] ?? null, after["name"] ?? null]
    return to !== null && JSON.stringify(to) !== JSON.stringify(from) ? ["renamed"] : []
  }
  if (model !== "ats.application") return []
  const names: Array<string> = []
  const outcome = after["outcome"]
  if (outcome !== before?.["outcome"]) {
    if (outcome === "HIRED") names.push("hired")
    if (outcome === "DECLINED") names.push("declined")
  }
  const [from, to] = [before?.["current_stage_id"] ?? null, after["current_stage_id"] ?? null]
  if (from !== null && to !== null && from !== to) names.push("stage_changed")
  return names
}
