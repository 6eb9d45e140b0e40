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
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { type ListEntry, type Model, type Models, withDerived } from "../../domain/Model.ts"
import { type Invalid, Source, type SourceError } from "../../source/Source.ts"

export interface UndiscoveredIntegration {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
}

const categories = ["ats", "hris", "assessment"] as const
export type Category = (typeof categories)[number]
/** Tools by category in an account's catalog; null if that part of the catalog could not be read. */
export type ToolCatalog = Readonly<Record<Category, ReadonlyArray<Tool> | null>>

/** The models of an integration. They are provisional if a part of its account's tool catalog was not available. */
export interface Discovered {
  readonly account: string
  readonly models: ReadonlyArray<Model>
  /** The available part of the tool catalog; null if all of it was available. */
  readonly partialCatalog: ToolCatalog | null
  /** The missing categories that the API once refused to return, so that waiting does not help. */
  readonly refused: ReadonlyArray<Category>
}
export interface Provisional extends Discovered {
  readonly partialCatalog: ToolCatalog
}
export const isProvisional = (discovered: Discovered): discovered is Provisional => discovered.partialCatalog !== null

/** The categories of the tool catalog that are not known. */
export const missingCategories = ({ partialCatalog }: Pick<Discovered, "partialCatalog">): ReadonlyArray<Category> =>
  partialCatalog === null ? [] : categories.filter((category) => partialCatalog[category] === null)

/** The models that are read whatever the missing part of the catalog says. */
export const certainModels = (discovered: Discovered): ReadonlyArray<Model> => {
  const missing = missingCategories(discovered)
  return discovered.models.filter((model) => !missing.some((category) => model.startsWith(`${category}.`)))
}

/** Longest time that a start, or an operator who adds an integration, waits for a catalog. */
const catalogTimeout = Duration.seconds(3)
/** Longest time that a later request waits for a catalog, such as while the account is paused. */
const laterTimeout = Duration.seconds(30)

/** Turns `hris_legal_entities`, `HRIS/LegalEntities` and `hris.legal-entities` into `legal_entities`. */
const normalizeModelId = (id: string): string =>
  id.replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase().replace(/[^a-z]+/g, "_").replace(
    /^_?((ats|hris|assessment)_)?/,
    ""
  )

/** The names that the catalog may use for the model of a list. */
const namesOf = ({ catalogNames, model, path }: ListEntry): ReadonlySet<string> =>
  new Set([...catalogNames, model, path.slice(path.lastIndexOf("/"))].map(normalizeModelId))

const isUnsupported = (tool: Tool, list: ListEntry): boolean => {
  const names = namesOf(list)
  const covered = tool.coverage?.read_models?.filter(({ id }) => names.has(normalizeModelId(id))) ?? []
  return covered.length > 0 && covered.every(({ coverage_status }) => coverage_status === "UNSUPPORTED")
}

/** All models except those that the catalog lists as unsupported by the integration's tool. */
export const supportedModels = (
  { lists, read }: Models,
  integration: string,
  catalog: ToolCatalog
): ReadonlyArray<Model> => {
  const id = toolOf(integration)
  const tools = categories.map((category) => catalog[category]?.find((tool) => tool.id === id))
  if (tools.every((tool) => tool === undefined)) return read
  const offered = lists.filter((list) => {
    const category = categories.findIndex((category) => list.model.startsWith(`${category}.`))
    if (category < 0) return true
    const tool = tools[category]
    const isAvailable = catalog[categories[category] ?? "ats"] !== null
    return tool === undefined ? !isAvailable : !isUnsupported(tool, list)
  })
  return offered.length === 0 ? read : offered.map(({ model }) => model)
}

const discoveredFrom = (
  known: Models,
  catalog: ToolCatalog,
  { account, id }: UndiscoveredIntegration,
  refused: ReadonlyArray<Category>
): Discovered => {
  const partialCatalog = categories.some((category) => catalog[category] === null) ? catalog : null
  return {
    account,
    models: withDerived(known, supportedModels(known, id, catalog)),
    partialCatalog,
    refused: missingCategories({ partialCatalog }).filter((category) => refused.includes(category))
  }
}

/** Why a category is not available. */
interface Unavailable {
  readonly category: Category
  readonly why: string
  /** The same request fails again until someone changes the account or the API. A wrong key does not count: it can be replaced. */
  readonly refused: boolean
  /** The API refuses the account's key. The streams of the account log that, in one line for all of them. */
  readonly isKeyWrong: boolean
}

const unavailable = (category: Category, error: SourceError | Invalid): Unavailable => {
  const isKeyWrong = error._tag === "SourceError" && error.reason._tag === "Unauthorized"
  const refused = error._tag === "SourceError" && !error.reason.retryable && !isKeyWrong
  return { category, why: error.message, refused, isKeyWrong }
}

interface CatalogRequest {
  readonly account: string
  readonly wanted: ReadonlyArray<Category>
  readonly timeout: Duration.Duration
  readonly onFailure: (unavailable: Unavailable) => Effect.Effect<void>
}

/** Requests the wanted categories once. A category that is not wanted, or not available, is null. */
const fetchCatalog = Effect.fnUntraced(function*({ account, onFailure, timeout, wanted }: CatalogRequest) {
  const { read } = yield* Source
  const refused: Array<Category> = []
  const tools = (category: Category) =>
    !wanted.includes(category) ? Effect.succeed(null) : read({
      account,
      integration: null,
      read: "tools",
      params: { category },
      priority: "poll"
    }).pipe(
      Effect.map(({ tools }) => tools),
      Effect.mapError((error) => unavailable(category, error)),
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => {
          const why = `no complete response within ${Duration.format(timeout)}`
          return Effect.fail({ category, why, refused: false, isKeyWrong: false })
        }
      }),
      Effect.catch((failure) => {
        if (failure.refused) refused.push(category)
        return Effect.as(onFailure(failure), null)
      })
    )
  const catalog: ToolCatalog = yield* Effect.all({
    ats: tools("ats"),
    hris: tools("hris"),
    assessment: tools("assessment")
  }, { concurrency: "unbounded" })
  return { catalog, refused }
})

const retryHint =
  "Rollcall requests it until the API returns it, and then stops reading the models that the tools do not offer"
const refusalHint =
  "the API refuses it, so waiting does not help: allow the list of the tools of this category in the account's scope configuration, or " +
  "list the models of its integrations in place of `auto`. Rollcall requests it about once an hour"

const logUnavailable = (account: string) => ({ category, isKeyWrong, refused, why }: Unavailable) =>
  Effect.logWithLevel(isKeyWrong ? "Debug" : "Warn")("tool catalog not available; every model of the category is read")
    .pipe(
      Effect.annotateLogs({ account, category, why, hint: refused ? refusalHint : retryHint })
    )

const maxListed = 10

/** The first names, and how many more there are. */
export const listed = (names: ReadonlyArray<string>): string => {
  const some = names.slice(0, maxListed).join(", ")
  return names.length > maxListed ? `${some} and ${names.length - maxListed} more` : some
}

/** Returns the models of each integration. Requests the catalogs of all accounts concurrently, each once. */
export const discoverModels = Effect.fn("ModelDiscovery.discover")(function*(
  integrations: ReadonlyArray<UndiscoveredIntegration>
): Effect.fn.Return<ReadonlyMap<string, Discovered>, never, Source> {
  const known = yield* CurrentModels
  const found = yield* Effect.forEach(
    Map.groupBy(integrations, ({ account }) => account),
    Effect.fnUntraced(function*([account, own]) {
      const onFailure = logUnavailable(account)
      const request = { account, onFailure, timeout: catalogTimeout, wanted: categories }
      const { catalog, refused } = yield* fetchCatalog(request)
      return own.map((integration) => [integration.id, discoveredFrom(known, catalog, integration, refused)] as const)
    }),
    { concurrency: "unbounded" }
  )
  const left = found.flat().map(([integration, { models }]) => ({
    integration,
    models: known.read.filter((model) => !models.includes(model)).join(", ")
  }))
  for (const [models, own] of Map.groupBy(left, ({ models }) => models)) {
    if (models === "") continue
    yield* Effect.logInfo("some models are not read, because the tools of these integrations do not offer them").pipe(
      Effect.annotateLogs({ models, integrations: listed(own.map(({ integration }) => integration)) })
    )
  }
  return new Map(found.flat())
})

/**
 * Requests the categories that were not available, each once per account. Returns what is known of these integrations now. Logs only the
 * first refusal of a category: that the category is missing was logged before.
 */
export const rediscoverModels = Effect.fn("ModelDiscovery.rediscover")(function*(
  provisional: ReadonlyMap<string, Provisional>
): Effect.fn.Return<ReadonlyMap<string, Discovered>, never, Source> {
  const known = yield* CurrentModels
  const found = yield* Effect.forEach(
    Map.groupBy(provisional, ([, { account }]) => account),
    Effect.fnUntraced(function*([account, own]) {
      const wanted = categories.filter((category) => own.some(([, one]) => one.partialCatalog[category] === null))
      const before = categories.filter((category) => own.some(([, one]) => one.refused.includes(category)))
      const later = yield* fetchCatalog({
        account,
        wanted,
        timeout: laterTimeout,
        onFailure: (unavailable) =>
          unavailable.refused && !before.includes(unavailable.category)
            ? logUnavailable(account)(unavailable)
            : Effect.void
      })
      return own.map(([id, { partialCatalog: held }]): readonly [string, Discovered] => {
        const catalog: ToolCatalog = {
          ats: held.ats ?? later.catalog.ats,
          hris: held.hris ?? later.catalog.hris,
          assessment: held.assessment ?? later.catalog.assessment
        }
        return [id, discoveredFrom(known, catalog, { account, id }, [...before, ...later.refused])]
      })
    }),
    { concurrency: "unbounded" }
  )
  return new Map(found.flat())
})
