/**
 * The contract's OpenAPI 3.1 document for one sandbox: its address, its cursor parameter, and example ids that exist in it.
 *
 * Gotchas
 * - The document is built on request, because the contract takes long to load and most sandboxes never need the document.
 */
import * as Effect from "effect/Effect"
import { cursorParameter } from "../../../api/Lists.ts"
import { exampleIdsOf } from "../ExampleIds.ts"
import type { SandboxState } from "../SandboxState.ts"

type Json = Record<string, unknown>

/** `url` ends in `/v1`. */
export const openApiDocument = (state: SandboxState, url: string): Effect.Effect<Json> =>
  Effect.map(
    Effect.promise(() => Promise.all([import("effect/http-api/OpenApi"), import("../../../api/UnifiedHttpApi.ts")])),
    ([OpenApi, { UnifiedHttpApi }]) => {
      const { info, paths, ...rest } = OpenApi.fromApi(UnifiedHttpApi)
      return { ...rest, info: { ...info, ...about }, servers: [{ url }], paths: withExamples(state, paths) }
    }
  )

/** The version comes from the contract: clients are generated for the interface, whichever sandbox serves it. */
const about = {
  title: "Unified HR, recruiting, assessment and learning API, as the Rollcall sandbox serves it",
  description: "`version` is the version of the API's interface, not of Rollcall."
}

const withExamples = ({ cursorParameter: cursor, world }: SandboxState, paths: object): Json => {
  const ids = Object.entries(exampleIdsOf(world)).map(([name, id]) => [`${name}_id`, id] as const)
  const shown = Object.entries(paths).map(([path, item]: [string, unknown]) => {
    const home = world.integrations.find(({ categories }) => categories.some((name) => path.startsWith(`/${name}/`)))
    const examples = new Map<string, string>([...ids, ["x-integration-id", home?.id ?? ""]])
    const withExample = (parameter: Json): Json => {
      const name = String(parameter["name"])
      const example = examples.get(name) ?? ""
      if (name === cursorParameter) return { ...parameter, name: cursor }
      return example === "" ? parameter : { ...parameter, example }
    }
    return [
      path,
      JSON.parse(JSON.stringify(item, (key, value) => key === "parameters" ? value.map(withExample) : value))
    ]
  })
  return Object.fromEntries(shown)
}
