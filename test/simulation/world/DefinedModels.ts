/** The models of simulated worlds: the built-in ones, and a list that the configuration defines. */
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

const polled = withLists([abilities(false)])
const swept = withLists([abilities(true)])
export const modelsOf = ({ sweepOnly }: Pick<WorldSettings, "sweepOnly">): Models => sweepOnly ? swept : polled

export type SimulatedModel = IncrementalModel | "hris.ability"

export const hasScales = (model: SimulatedModel): boolean => model === "hris.skill" || model === "hris.ability"

/** True for the list whose `updated_after` returns only a part of the changes. */
export const isSweptOnly = ({ sweepOnly }: Pick<WorldSettings, "sweepOnly">, model: SimulatedModel): boolean =>
  sweepOnly && model === "hris.ability"
