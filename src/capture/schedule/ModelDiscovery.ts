/**
 * Determines the models of an integration that is configured with `auto`: all models except those that the tool catalog lists as
 * unsupported by the integration's tool. Maps the catalog's names to models.
 *
 * Invariants
 * 1. If the catalog does not know the tool or the model, or does not respond, the model is read; its stream may then block
 * 2. Every integration has at least one model
 *
 * Gotchas
 * - If the catalog lists a tool in one category but not in another, the tool supports no model of the other category.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Tool, toolOf } from "../../api/Tools.ts"
import { type Model, type StreamModel, streamModels, withDerived } from "../../domain/Model.ts"
import { Source } from "../../source/Source.ts"

export interface UndiscoveredIntegration {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
}

const categories = ["ats", "hris", "assessment"] as const
type Category = (typeof categories)[number]
/** Tools by category in an account's catalog; null if that part of the catalog could not be read. */
export type ToolCatalog = Readonly<Record<Category, ReadonlyArray<Tool> | null>>

/** Longest time that start-up waits for a catalog. */
const catalogTimeout = Duration.seconds(3)

/** Names that a catalog may use for each model, in snake case and without the category. The contract does not define them. */
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

/** Turns `hris_legal_entities`, `HRIS/LegalEntities` and `hris.legal-entities` into `legal_entities`. */
const normalizeModelId = (id: string): string =>
  id.replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase().replace(/[^a-z]+/g, "_").replace(/^(ats|hris|assessment)_/, "")

const isUnsupported = (tool: Tool, model: StreamModel): boolean => {
  const covered = tool.coverage?.read_models?.filter(({ id }) => spellings[model].includes(normalizeModelId(id))) ?? []
  return covered.length > 0 && covered.every(({ coverage_status }) => coverage_status === "UNSUPPORTED")
}

/** All models except those that the catalog lists as unsupported by the integration's tool. */
export const supportedModels = (integration: string, catalog: ToolCatalog): ReadonlyArray<StreamModel> => {
  const id = toolOf(integration)
  const tools = categories.map((category) => catalog[category]?.find((tool) => tool.id === id))
  if (tools.every((tool) => tool === undefined)) return streamModels
  const offered = streamModels.filter((model) => {
    const category = categories.findIndex((category) => model.startsWith(`${category}.`))
    const tool = tools[category]
    const isAvailable = catalog[categories[category] ?? "ats"] !== null
    return tool === undefined ? !isAvailable : !isUnsupported(tool, model)
  })
  return offered.length === 0 ? streamModels : offered
}

/** Requests the catalog of an account once. After a failure or timeout, which is logged, the category is null. */
const fetchCatalog = Effect.fn("ModelDiscovery.fetchCatalog")(function*(account: string) {
  const { read } = yield* Source
  const tools = (category: Category) =>
    read({ account, integration: null, read: "tools", params: { category }, priority: "poll" }).pipe(
      Effect.map(({ tools }) => tools),
      Effect.timeoutOrElse({
        duration: catalogTimeout,
        orElse: () => Effect.fail({ message: `no complete response within ${Duration.format(catalogTimeout)}` })
      }),
      Effect.catch((error) =>
        Effect.logWarning("tool catalog not available; every model of the category is read").pipe(
          Effect.annotateLogs({
            account,
            category,
            why: error.message,
            hint: "restart Rollcall when the API responds: it then leaves out the models that the tools do not offer"
          }),
          Effect.as(null)
        )
      )
    )
  const catalog: ToolCatalog = yield* Effect.all({
    ats: tools("ats"),
    hris: tools("hris"),
    assessment: tools("assessment")
  }, { concurrency: "unbounded" })
  return catalog
})

const maxListedIntegrations = 10

/** Returns the models of each integration. Requests the catalogs of all accounts concurrently, each once. */
export const discoverModels = Effect.fn("ModelDiscovery.discover")(function*(
  integrations: ReadonlyArray<UndiscoveredIntegration>
): Effect.fn.Return<ReadonlyMap<string, ReadonlyArray<Model>>, never, Source> {
  const accounts = [...new Set(integrations.map(({ account }) => account))]
  const catalogs = new Map(
    yield* Effect.forEach(
      accounts,
      (account) => Effect.map(fetchCatalog(account), (catalog) => [account, catalog] as const),
      { concurrency: "unbounded" }
    )
  )
  const unavailable: ToolCatalog = { ats: null, hris: null, assessment: null }
  const found = integrations.map(({ account, id }) =>
    [id, supportedModels(id, catalogs.get(account) ?? unavailable)] as const
  )
  const left = found.map(([integration, models]) => ({
    integration,
    models: streamModels.filter((model) => !models.includes(model)).join(", ")
  }))
  for (const [models, own] of Map.groupBy(left, ({ models }) => models)) {
    if (models === "") continue
    const some = own.slice(0, maxListedIntegrations).map(({ integration }) => integration).join(", ")
    const more = own.length - maxListedIntegrations
    yield* Effect.logInfo("some models are not read, because the tools of these integrations do not offer them").pipe(
      Effect.annotateLogs({ models, integrations: more > 0 ? `${some} and ${more} more` : some })
    )
  }
  return new Map(found.map(([id, models]) => [id, withDerived(models)]))
})
