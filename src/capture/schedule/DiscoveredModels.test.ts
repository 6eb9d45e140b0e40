import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { listsOnly } from "../../../test/support/source/Doubles.ts"
import { Source } from "../../source/Source.ts"
import * as DiscoveredModels from "./DiscoveredModels.ts"

const acme = { id: "greenhouse:acme", models: "auto" } as const

/** Only the catalog of the account `eu` marks a model as unsupported. */
const catalogs = Effect.provideService(Source, {
  ...listsOnly(() => Effect.never),
  read: ({ account }) =>
    Effect.succeed({
      tools: account !== "eu" ? [] : [{
        id: "greenhouse",
        coverage: { read_models: [{ id: "tags", coverage_status: "UNSUPPORTED" }] }
      }]
    } as never)
})

describe("the models of an integration with `auto`", () => {
  it.effect("are those of its account, after another process moved it to another account", () =>
    Effect.gen(function*() {
      const models = yield* DiscoveredModels.make(new Map())
      yield* models.discover([{ ...acme, account: "eu" }])
      assert.notInclude(models.modelsOf(acme.id), "ats.tag")
      yield* models.discover([{ ...acme, account: "us" }])
      assert.include(models.modelsOf(acme.id), "ats.tag")
    }).pipe(catalogs))
})
