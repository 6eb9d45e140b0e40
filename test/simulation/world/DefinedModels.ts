/** The models of simulated worlds: the built-in ones, and lists that the configuration defines. */
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import { defineList, withLists } from "../../../src/domain/DefinedList.ts"
import type { Models } from "../../../src/domain/Model.ts"
import type { WorldSettings } from "../plan/Plan.ts"

/** The list has the records of `hris.skill`, each with an owner, and with other names in any order. */
const abilities = (sweepOnly: boolean) =>
  defineList("hris.ability", {
    path: "/hris/abilities",
    references: [
      { path: "proficiency_scale", kind: "ability_scale", shared: ["type", "ordered_options"] },
      { path: "owner", kind: "ability_owner", shared: ["name"] }
    ],
    transitions: { renamed: { path: "name" } },
    unordered: ["aliases"],
    sweepOnly
  })

const candidates = defineList("ats.candidate", { path: "/ats/candidates" })

const known = new Map(
  [true, false].flatMap((sweepOnly) =>
    [true, false].map((listed) =>
      [`${sweepOnly} ${listed}`, withLists([abilities(sweepOnly), ...listed ? [candidates] : []])] as const
    )
  )
)
/** `listed`: candidates are a list. */
export const modelsOf = ({ sweepOnly }: Pick<WorldSettings, "sweepOnly">, listed = false): Models =>
  known.get(`${sweepOnly} ${listed}`)!

export type SimulatedModel = IncrementalModel | "hris.ability" | "ats.candidate"

export const hasScales = (model: SimulatedModel): boolean => model === "hris.skill" || model === "hris.ability"

/** True for the list whose `updated_after` returns only a part of the changes. */
export const isSweptOnly = ({ sweepOnly }: Pick<WorldSettings, "sweepOnly">, model: SimulatedModel): boolean =>
  sweepOnly && model === "hris.ability"
