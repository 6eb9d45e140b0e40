/** `rollcall lists probe`: asks the API what a list supports, and prints its definition. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Config from "../../config/Config.ts"
import { findListFault } from "../../config/ListSettings.ts"
import { loadRawConfig } from "../../config/RawConfig.ts"
import { builtInModels, CurrentModels } from "../../domain/BuiltInModels.ts"
import { closestName } from "../../domain/ClosestName.ts"
import { entryOf } from "../../domain/DefinedList.ts"
import { makeModels, type Model, type Models } from "../../domain/Model.ts"
import { CurrentProxies } from "../../network/Proxies.ts"
import { config, textFlag, withFallback } from "../terminal/Flags.ts"
import { print, printAside, refuse, withTerminalErrors } from "../terminal/Process.ts"
import { singularOf } from "./InferReferences.ts"

const chooseIntegration = ({ integrations }: Config.Settings, named: Option.Option<string>) => {
  const ids = integrations.map(({ id }) => id)
  if (ids.length === 0) {
    return refuse("no integration is configured", "Set ROLLCALL_INTEGRATIONS to ids such as workday:acme.")
  }
  if (Option.isNone(named) && ids.length > 1) {
    return refuse(`${ids.length} integrations are configured`, `Choose one, for example with --integration ${ids[0]}.`)
  }
  const id = Option.getOrElse(named, () => ids[0]!)
  const found = integrations.find((one) => one.id === id)
  return found === undefined
    ? refuse(`the configuration has no integration ${id}`, `Did you mean ${closestName(id, ids)}?`)
    : Effect.succeed(found)
}

/** `/hris/time-off-balances` → `hris.time_off_balance` */
const nameFromPath = (path: string): string => {
  const [category = "", ...names] = path.toLowerCase().replaceAll("-", "_").split("/").slice(1)
  return `${category}.${singularOf(names.join("_"))}`
}

/** The list at this path: one that the configuration defines, or a new one. */
const chooseList = (known: Models, path: string, named: Option.Option<string>) => {
  const same = known.lists.find((list) => list.path === path)
  if (same !== undefined && builtInModels.lists.includes(same)) {
    return refuse(`${path} is the path of the built-in model ${same.model}`, "It needs no definition.")
  }
  const model = Option.getOrElse(named, () => same?.model ?? nameFromPath(path)) as Model
  const list = { model, definition: { path } }
  const fault = same?.model === model ? null : findListFault(list, known)
  if (fault === null) return Effect.succeed(list)
  const hint = known.listOf(model) !== undefined
    ? "Choose another name with --name."
    : `${fault.hint}. --name chooses the name.`
  return refuse(fault.message, hint)
}

const probe = Command.make("probe", {
  config,
  path: Argument.String("path").pipe(
    Argument.withDescription("Path of the list below the base URL, such as /hris/employees")
  ),
  integration: textFlag("integration", "The integration to ask; needed if several are configured", "id"),
  name: textFlag("name", "Name of the model (default: from the path, such as hris.employee)", "category.name"),
  pages: withFallback(
    Flag.Int("pages").pipe(Flag.filter((value) => value > 0, (value) => `Expected at least 1, got ${value}`)),
    "Number of pages from which the schema is inferred",
    3
  )
}, ({ config, integration, name, pages, path }) =>
  Effect.gen(function*() {
    const settings = yield* Effect.fromResult(Config.check(yield* loadRawConfig(config)))
    const { account, id } = yield* chooseIntegration(settings, integration)
    const list = yield* chooseList(settings.known, path, name)
    const { sourceLayer } = yield* Effect.promise(() => import("../../app/Composition.ts"))
    const { probeList } = yield* Effect.promise(() => import("./Probe.ts"))
    const text = yield* probeList({ account, integration: id, model: list.model, path, pages }).pipe(
      Effect.provide(sourceLayer({ ...settings, retryBase: "20 millis" })),
      Effect.provideService(CurrentProxies, settings.proxies),
      Effect.provideService(CurrentModels, makeModels([...settings.known.entries, entryOf(list)]))
    )
    yield* print(text)
    if (Option.isNone(name) && settings.known.listOf(list.model) === undefined) {
      yield* printAside(`The name ${list.model} is made from the path; --name chooses another.`)
    }
    const derived = settings.known.derivedOf(list.model)
    if (derived !== undefined) yield* printAside(`It replaces the derivation of ${list.model} from ${derived.from}.`)
    yield* printAside("Add the list to `lists` of the configuration. Remove fields whose names are personal data.")
  }).pipe(withTerminalErrors)).pipe(
    Command.withDescription(
      "Ask the API what a list supports, and print its definition for the configuration, with a schema that is inferred from the first pages"
    ),
    Command.withExamples([
      { command: "rollcall lists probe /hris/employees > lists.ts", description: "A module with the definition" }
    ])
  )

export const lists = Command.make("lists").pipe(
  Command.withDescription("Lists of the API that are not built in"),
  Command.withSubcommands([probe])
)
