/** Candidates are redacted by their own rules and by those of the applications that show them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { find } from "../../../test/support/capture/Redactions.ts"
import { owning, scenario, start } from "../../../test/support/capture/Rig.ts"
import * as Processing from "../../domain/Processing.ts"
import { sweep } from "../read/Sweep.ts"
import { redactStored } from "./Redactor.ts"

describe("content of a candidate that was stored before a rule was added", () => {
  it.effect("is not published with its value if the rules of its applications change too, and back (V1)", () => {
    const rulesOf = (remoteData: Processing.RemoteData, redact: Processing.ProcessingRules["redact"]) => {
      const source = { remoteData: "carry", redact } as const
      return {
        processing: Processing.make("ats.application", { ...source, key: "k" }),
        derivedProcessing: Processing.make("ats.candidate", { remoteData, redact: {}, key: "k", source })
      }
    }
    const first = rulesOf("carry", {})
    const later = rulesOf("track", { "/candidate/title": "drop" })
    const row = (stage: string, changed: number) => ({
      id: "a",
      stage,
      candidate: {
        id: "c",
        title: "secret",
        remote_data: { a: 1 },
        changed_at: new Date(start + changed).toISOString()
      }
    })
    return scenario(function*(rig) {
      yield* rig.backfill(row("1", 0))
      yield* redactStored(
        owning(rig.stream.owner),
        ({ model }) => model === "ats.candidate" ? later.derivedProcessing : later.processing
      )
      assert.isNull(yield* find("secret"))
      yield* rig.change(row("2", 1_000))
      const events = yield* rig.events
      assert.deepStrictEqual(events.map(({ id, kind }) => `${id} ${kind}`), ["a created", "c created", "a updated"])
    }, first)
  })

  it.effect("is not published with its value if the rule is removed before its content changes (V1)", () => {
    const of = (remoteData: Processing.RemoteData, redact: Processing.ProcessingRules["redact"]) =>
      Processing.make("ats.candidate", { remoteData, redact, key: "k" })
    const hidden = of("drop", { "/first_name": "hash" })
    const shown = (changed: string, details: object) => ({
      id: "c",
      tags: [],
      remote_data: { raw: 1 },
      changed_at: `${changed}T00:00:00.000Z`,
      ...details
    })
    return scenario(function*(rig) {
      yield* rig.fill({ id: "a", candidate: shown("2025-01-01", { first_name: "secret" }) })
      yield* redactStored(owning(rig.stream.owner), ({ model }) => model === "ats.candidate" ? hidden : null)
      const published = Effect.map(rig.events, (all) => all.filter(({ model }) => model === "ats.candidate"))
      const redacted = yield* published
      assert.match(JSON.parse(redacted[0]!.after!).first_name, /^redacted:/)
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", note: "1", candidate: shown("2025-01-02", { first_name: "secret" }) })
      assert.deepStrictEqual(yield* published, redacted)
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", note: "1", candidate: shown("2025-01-03", { first_name: "secret", title: "x" }) })
      assert.strictEqual(JSON.parse((yield* published).at(-1)!.after!).first_name, "secret")
    }, {
      processing: Processing.make("ats.application", { remoteData: "carry", redact: {}, key: "k" }),
      derivedProcessing: of("carry", {})
    })
  })

  it.effect("is redacted by the rules of its application", () => {
    const derivedProcessing = Processing.defaultProcessing("ats.candidate")
    const source = { remoteData: "drop", redact: { "/candidate/first_name": "hash" } } as const
    const processingOf = ({ model }: { readonly model: string }) =>
      model === "ats.application"
        ? Processing.make(model, { ...source, key: "k" })
        : Processing.make("ats.candidate", { remoteData: "drop", redact: {}, key: "k", source })
    return scenario(function*(rig) {
      yield* rig.fill({ id: "a", candidate: { id: "c", first_name: "secret", tags: [] } })
      yield* redactStored(owning(rig.stream.owner), processingOf)
      assert.isNull(yield* find("secret"))
      const processing = processingOf({ model: "ats.application" })
      yield* sweep(
        { ...rig.stream, processing, derivedProcessing: processingOf({ model: "ats.candidate" }) },
        Effect.succeed(false)
      )
      const [application, candidate, ...more] = yield* rig.events
      assert.strictEqual(more.length, 0)
      assert.strictEqual(
        JSON.parse(candidate!.after!).first_name,
        JSON.parse(application!.after!).candidate.first_name
      )
    }, { derivedProcessing })
  })
})
