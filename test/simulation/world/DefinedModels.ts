/** The models of simulated worlds: the built-in ones, and a list that the configuration defines. */
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import { defineList, withLists } from "../../../src/domain/DefinedList.ts"

/** The list has the records of `hris.skill`. */
const abilities = defineList("hris.ability", {
  path: "/hris/abilities",
  references: [{ path: "proficiency_scale", kind: "ability_scale", shared: ["type", "ordered_options"] }],
  transitions: { renamed: { path: "name" } }
})

export const models = withLists([abilities])
export type SimulatedModel = IncrementalModel | "hris.ability"

export const hasScales = (model: SimulatedModel): boolean => model === "hris.skill" || model === "hris.ability"
