import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Plugin from "../plugin/Plugin.ts"
import type { Settings } from "./Config.ts"
import { findUnknownIntegrations } from "./UnknownIntegrations.ts"

const found = (...ids: ReadonlyArray<string>) => {
  const uses = Object.fromEntries(ids.map((id) => [id, false] as const))
  const plugin = Plugin.make("mail").with({ integrations: uses }).on("ats.tag.created", {}, () => Effect.void)
  const integrations = ["greenhouse:acme", "workday:acme", "lever:tenant-1"].map((id) =>
    ({ id }) as Settings["integrations"][number]
  )
  return findUnknownIntegrations({ integrations, plugins: [plugin] })
}

describe("an integration in the settings of a plugin", () => {
  it("is reported with the declared id that it resembles", () => {
    const [fault, ...others] = found("greenhouse:acmee")
    assert.deepStrictEqual(others, [])
    assert.strictEqual(fault?.where, `plugin mail, integrations["greenhouse:acmee"]`)
    assert.include(fault?.hint, "Did you mean greenhouse:acme?")
  })

  it("is not reported if it is declared, or resembles no declared one that the plugin does not name", () => {
    assert.deepStrictEqual(found("greenhouse:acme", "greenhouse:acme-corp", "lever:tenant-2"), [])
    assert.deepStrictEqual(found(), [])
  })
})
