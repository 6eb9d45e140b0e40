/** Each of the twelve writes, with each kind of failure, ends as the table of writes says. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeExamples } from "../../test/support/api/Examples.ts"
import { type ResolutionPolicy, type WriteName, writeNames, writes, writeSchemas } from "../api/Writes.ts"
import type { BuiltInModel as Model } from "../domain/BuiltInModels.ts"
import type { JsonObject } from "../domain/Canonical.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as Testing from "./Testing.ts"

type FailureMode = "Transient" | "RateLimited" | "Forbidden" | "response lost" | "request lost"
const failureModes: ReadonlyArray<FailureMode> = [
  "Transient",
  "RateLimited",
  "Forbidden",
  "response lost",
  "request lost"
]

const idOf = (write: WriteName): string => Object.values<string>(writeExamples[write].params)[0] ?? ""
const bodyOf = (write: WriteName): JsonObject => JSON.parse(JSON.stringify(writeExamples[write].body))

const candidate = idOf("addTag")
const interview = writeExamples.updateInterview.body.interview_id
const application = {
  id: idOf("updateInterview"),
  candidate_id: candidate,
  candidate: { id: candidate, tags: [] as ReadonlyArray<{ readonly name: string }> },
  interviews: [{ id: interview, title: "before" }]
}
/** The records before the write; for `removeTag` with the tag that it removes. */
const recordsFor = (write: WriteName): ReadonlyArray<readonly [Model, typeof application]> => {
  const tags = write === "removeTag" ? [{ name: writeExamples.removeTag.body.tag.name }] : []
  return [["ats.application", { ...application, candidate: { ...application.candidate, tags } }]]
}

const pluginOf = (write: WriteName) =>
  Plugin.make("one", { needs: { writes: [write] } }).on(
    "ats.application.updated",
    {},
    Effect.fnUntraced(function*() {
      const api = yield* Plugin.Api
      const call: (...given: ReadonlyArray<never>) => Effect.Effect<unknown, Plugin.HandlerError> = api[write]
      const { body, params } = writeSchemas[write]
      const given: ReadonlyArray<unknown> = [
        ...(Object.keys(params).length === 0 ? [] : [idOf(write)]),
        ...(body === writeSchemas.deactivateCourse.body ? [] : [bodyOf(write)])
      ]
      yield* call(...given as ReadonlyArray<never>)
    })
  )

interface Outcome {
  readonly effects: number
  readonly failure: ReadonlyArray<string | null>
}
const unknown = ["Permanent", "OutcomeUnknown"]

const outcomeOf = async (write: WriteName, fail: FailureMode): Promise<Outcome> => {
  const records = recordsFor(write)
  const testing = Testing.make(pluginOf(write), {
    records: records.map(([model, record]) => Testing.record(model, record)),
    faults: [{ on: write, fail }]
  })
  const { failure, writes } = await testing.deliver(
    Testing.event("ats.application.updated", {
      before: { ...records[0]?.[1], remote_url: "before" },
      after: { remote_url: "after" }
    })
  )
  const refusal = failure?._tag === "Permanent" ? failure.refusal : null
  return { effects: writes.length, failure: failure === null ? [] : [failure._tag, refusal] }
}

/** By resolution policy: how often the write takes effect, and the failure of the dead letter, if the delivery becomes one. */
const outcomes: Readonly<Record<ResolutionPolicy, Readonly<Record<"response lost" | "request lost", Outcome>>>> = {
  safe: { "response lost": { effects: 2, failure: [] }, "request lost": { effects: 1, failure: [] } },
  look: { "response lost": { effects: 1, failure: [] }, "request lost": { effects: 1, failure: [] } },
  find: { "response lost": { effects: 1, failure: [] }, "request lost": { effects: 0, failure: unknown } },
  never: { "response lost": { effects: 1, failure: unknown }, "request lost": { effects: 0, failure: unknown } }
}

const expectedOf = (write: WriteName, fail: FailureMode): Outcome => {
  switch (fail) {
    case "Transient":
    case "RateLimited":
      return { effects: 1, failure: [] }
    case "Forbidden":
      return { effects: 0, failure: ["Permanent", "Forbidden"] }
    default:
      return outcomes[writes[write].resolutionPolicy][fail]
  }
}

describe("the test kit", () => {
  for (const write of writeNames) {
    it(`a ${write} that fails is sent again, verified or becomes a dead letter, as the table of writes says (L5)`, async () => {
      for (const fail of failureModes) {
        assert.deepStrictEqual(await outcomeOf(write, fail), expectedOf(write, fail), fail)
      }
    })
  }
})
