import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { stateOf } from "../../test/conformance/StoreSamples.ts"
import { listsOnly } from "../../test/support/source/Doubles.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import * as Redactor from "../capture/rewrite/Redactor.ts"
import { takeStreams } from "../capture/Stream.ts"
import type { Settings } from "../config/Config.ts"
import { builtInModels } from "../domain/BuiltInModels.ts"
import { defineList, withLists } from "../domain/DefinedList.ts"
import { type Model, streamName } from "../domain/Model.ts"
import { appliedRules } from "../domain/Redaction.ts"
import { Source, SourceError, Transient } from "../source/Source.ts"
import { Store } from "../store/Store.ts"
import { processingByStream, resolveConfig } from "./Composition.ts"

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

describe("a store that a later version has used", () => {
  it.effect("a stream of a model that this version does not know does not end the start, and is not redacted", () =>
    Effect.gen(function*() {
      const store = yield* Store
      const unknown = { integration: "workday:acme", model: "hris.unknown" as Model }
      const known = { ...unknown, model: "hris.skill" as const }
      yield* store.ensureStreams([unknown, known].map((key) => stateOf(key, { redactions: [appliedRules(true, {})] })))
      const ownership = yield* takeStreams
      const rules = { "hris.skill": { remoteData: "drop", redact: { "/name": "drop" } } } as const
      const begun = yield* Redactor.begin(
        ownership,
        processingByStream({ known: builtInModels, models: rules, redactKey: null })
      )
      assert.deepStrictEqual(begun.map(({ stream }) => stream.model), ["hris.skill"])
    }).pipe(Effect.provide(MemoryStore.layer())))
})

describe("redaction rules of applications", () => {
  it("below /candidate apply to candidates, whether these are derived or a list", () => {
    const list = withLists([defineList("ats.candidate", { path: "/ats/candidates" })])
    const models = {
      "ats.application": { remoteData: "drop", redact: { "/candidate/last_name": "drop" } },
      "ats.candidate": { remoteData: "drop", redact: { "/first_name": "hash" } }
    } as const
    for (const known of [builtInModels, list]) {
      const processing = processingByStream({ known, models, redactKey: Redacted.make("key") })({
        model: "ats.candidate"
      })
      assert.deepStrictEqual(processing?.applied.redact, { "/first_name": "hash", "/last_name": "drop" })
      assert.deepStrictEqual(
        processing?.reapply({ id: "c", first_name: null, last_name: "Lovelace" }, appliedRules(false, {})),
        { id: "c", first_name: null }
      )
    }
  })
})
