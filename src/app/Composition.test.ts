import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { listsOnly } from "../../test/support/source/Doubles.ts"
import type { Settings } from "../config/Config.ts"
import { streamName } from "../domain/Model.ts"
import { Source, SourceError, Transient } from "../source/Source.ts"
import { resolveConfig } from "./Composition.ts"

describe("the streams of a configuration", () => {
  it.effect("need their topics at start only if the tool catalog shows them, or the configuration names them (C1)", () =>
    Effect.gen(function*() {
      const down = new SourceError({ reason: new Transient({ code: null, message: "the API is down" }) })
      const read = ({ params }: { readonly params: { readonly category?: string } }) =>
        params.category === "hris" ? Effect.fail(down) : Effect.succeed({ tools: [{ id: "greenhouse" }] })
      const integrations = [
        { id: "greenhouse:acme", account: "default", models: "auto" },
        { id: "workday:acme", account: "default", models: ["hris.skill"] }
      ]
      const plan = yield* resolveConfig({ integrations } as unknown as Settings, {} as never).pipe(
        Effect.provideService(Source, { ...listsOnly(() => Effect.never), read: read as never })
      )
      const namesOf = (streams: typeof plan.streams) => streams.map(streamName)
      assert.includeMembers(namesOf(plan.streams), ["greenhouse:acme/ats.tag", "greenhouse:acme/hris.skill"])
      const certain = namesOf(plan.certainStreams)
      assert.includeMembers(certain, ["greenhouse:acme/ats.candidate", "greenhouse:acme/assessment.package"])
      assert.deepStrictEqual(certain.filter((name) => name.includes("hris")), ["workday:acme/hris.skill"])
    }))
})
