/**
 * Which models of an integration are read when configuration leaves that open: all but those that the tool catalogue
 * says its tool has not. Hides how the catalogue names them.
 *
 * Invariants
 * 1. What the catalogue does not say is read, and may block: an unknown tool, a model it does not list, no answer
 * 2. An integration never ends up without a model
 *
 * Gotchas
 * - A tool that the catalogue lists in one category and not in another has nothing of the other.
 */
import * as Effect from "effect/Effect"
import type { Tool } from "../../api/Tools.ts"
import { type Model, type StreamModel, streamModels, withDerived } from "../../domain/Model.ts"
import { Source } from "../../source/Source.ts"

export interface UndiscoveredIntegration {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
}

const categories = ["ats", "hris", "assessment"] as const
type Category = (typeof categories)[number]
/** What an account's catalogue says; null where it did not answer. */
export type ToolCatalog = Readonly<Record<Category, ReadonlyArray<Tool> | null>>

/** Start-up does not wait longer for a catalogue. */
const catalogTimeout = "3 seconds"

/** What each model may be called, in snake case and without its category: the contract leaves the ids open. */
const spellings: Readonly<Record<StreamModel, ReadonlyArray<string>>> = {
  "ats.application": ["applications", "application"],
  "ats.scorecard": ["scorecards", "scorecard", "application_scorecards", "interview_scorecards"],
  "ats.offer": ["offers", "offer", "application_offers"],
  "ats.tag": ["tags", "tag", "candidate_tags"],
  "hris.payslip": ["payslips", "payslip"],
  "hris.performance_review": ["performance_reviews", "performance_review"],
  "hris.performance_review_cycle": ["performance_review_cycles", "performance_review_cycle", "review_cycles"],
  "hris.staffing_entity": ["staffing_entities", "staffing_entity"],
  "hris.legal_entity": ["legal_entities", "legal_entity"],
  "hris.skill": ["skills", "skill"],
  "hris.absence_type": ["absence_types", "absence_type"],
  "assessment.package": ["packages", "package", "assessment_packages"]
}

/** `hris_legal_entities`, `HRIS/LegalEntities` and `hris.legal-entities` are `legal_entities`. */
const normalizeModelId = (id: string): string =>
  id.replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase().replace(/[^a-z]+/g, "_").replace(/^(ats|hris|assessment)_/, "")

const isUnsupported = (tool: Tool, model: StreamModel): boolean => {
  const covered = tool.coverage?.read_models?.filter(({ id }) => spellings[model].includes(normalizeModelId(id))) ?? []
  return covered.length > 0 && covered.every(({ coverage_status }) => coverage_status === "UNSUPPORTED")
}

/** The models that an integration is not known to lack. */
export const supportedModels = (integration: string, catalogue: ToolCatalog): ReadonlyArray<StreamModel> => {
  const id = integration.split(":", 1)[0]
  const tools = categories.map((category) => catalogue[category]?.find((tool) => tool.id === id))
  if (tools.every((tool) => tool === undefined)) return streamModels
  const offered = streamModels.filter((model) => {
    const category = categories.findIndex((category) => model.startsWith(`${category}.`))
    const tool = tools[category]
    const answered = catalogue[categories[category] ?? "ats"] !== null
    return tool === undefined ? !answered : !isUnsupported(tool, model)
  })
  return offered.length === 0 ? streamModels : offered
}

/** Asks once; a catalogue that does not answer in time is told and counts as silent. */
export const fetchCatalog = Effect.fn("ModelDiscovery.fetchCatalog")(function*(account: string) {
  const { read } = yield* Source
  const tools = (category: Category) =>
    read({ account, integration: null, read: "tools", params: { category }, priority: "poll" }).pipe(
      Effect.map(({ tools }) => tools),
      Effect.timeout(catalogTimeout),
      Effect.catch((error) =>
        Effect.logWarning("the tool catalogue did not answer: every model is tried").pipe(
          Effect.annotateLogs({ account, category, why: error.message }),
          Effect.as(null)
        )
      )
    )
  const catalogue: ToolCatalog = yield* Effect.all({
    ats: tools("ats"),
    hris: tools("hris"),
    assessment: tools("assessment")
  }, { concurrency: "unbounded" })
  return catalogue
})

/** Asks the catalogue of each account once, all at the same time; the models by integration. */
export const discoverModels = Effect.fn("ModelDiscovery.discover")(function*(
  integrations: ReadonlyArray<UndiscoveredIntegration>
): Effect.fn.Return<ReadonlyMap<string, ReadonlyArray<Model>>, never, Source> {
  const accounts = [...new Set(integrations.map(({ account }) => account))]
  const catalogues = new Map(
    yield* Effect.forEach(
      accounts,
      (account) => Effect.map(fetchCatalog(account), (catalogue) => [account, catalogue] as const),
      { concurrency: "unbounded" }
    )
  )
  const silent: ToolCatalog = { ats: null, hris: null, assessment: null }
  const found = integrations.map(({ account, id }) =>
    [id, supportedModels(id, catalogues.get(account) ?? silent)] as const
  )
  for (const [integration, models] of found) {
    const left = streamModels.filter((model) => !models.includes(model))
    if (left.length === 0) continue
    yield* Effect.logInfo("models are not read: the integration's tool does not offer them").pipe(
      Effect.annotateLogs({ integration, models: left.join(", ") })
    )
  }
  return new Map(found.map(([id, models]) => [id, withDerived(models)]))
})
