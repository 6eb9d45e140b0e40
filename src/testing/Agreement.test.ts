/** The test kit and the engine give the same results for the same plugin. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { writeExamples } from "../../test/support/api/Examples.ts"
import { acme, make, notSent, rateLimited, unknownOutcome } from "../../test/support/delivery/Rig.ts"
import { type WriteName, writeNames, writeSchemas } from "../api/Writes.ts"
import type { JsonObject } from "../domain/Canonical.ts"
import type { Model } from "../domain/Model.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as SourcePort from "../source/Source.ts"
import * as Testing from "./Testing.ts"
import { type ApiRecords, applyWrite, recordKey, recordsOf } from "./WriteEffects.ts"

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
  Plugin.make("one").on(
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

const byKit = async (write: WriteName, fail: FailureMode): Promise<Outcome> => {
  const records = recordsFor(write)
  const testing = Testing.make(pluginOf(write), {
    records: records.map(([model, record]) => Testing.record(model, record, acme)),
    faults: [{ on: write, fail }]
  })
  const { failure, writes } = await testing.deliver(
    Testing.event("ats.application.updated", {
      integration: acme,
      before: { ...records[0]?.[1], remote_url: "before" },
      after: { remote_url: "after" }
    })
  )
  const refusal = failure?._tag === "Permanent" ? failure.refusal : null
  return { effects: writes.length, failure: failure === null ? [] : [failure._tag, refusal] }
}

const failures = {
  "Transient": notSent,
  "RateLimited": rateLimited(60_000),
  "Forbidden": Effect.fail(
    new SourcePort.WriteError({ reason: new SourcePort.Forbidden({ code: null, message: "no" }) })
  ),
  "response lost": unknownOutcome,
  "request lost": unknownOutcome
} as const

const byEngine = Effect.fnUntraced(function*(write: WriteName, fail: FailureMode) {
  const rig = yield* make
  const shown: ApiRecords = new Map()
  for (const [model, record] of recordsFor(write)) shown.set(recordKey(acme, model, record.id), { ...record })
  const show = () => {
    rig.script.rows = recordsOf(shown, acme, "ats.application")
  }
  show()
  let effects = 0
  rig.script.answer = (_, count) => {
    const failed = count === 1 ? failures[fail] : null
    if (failed !== null && fail !== "response lost") return failed
    const data = applyWrite(
      shown,
      { integration: acme, write, id: idOf(write), body: bodyOf(write) },
      `made-${++effects}`
    )
    show()
    return failed ?? Effect.succeed(data)
  }
  yield* rig.start([pluginOf(write)])
  yield* rig.append(application.id, { shows: candidate })
  yield* rig.append(application.id, { shows: candidate })
  for (let round = 0; round < 6; round++) {
    let rounds = 0
    yield* rig.until(() => ++rounds > 30)
    yield* TestClock.adjust("10 minutes")
  }
  const [letter] = yield* rig.deliveries.deadLetters({ limit: 10 })
  const outcome: Outcome = {
    effects,
    failure: letter === undefined ? [] : [letter.failure.reason, letter.failure.refusal]
  }
  if (letter === undefined) yield* rig.empty
  return outcome
}, Effect.scoped)

describe("the test kit and the engine", () => {
  for (const write of writeNames) {
    it.effect(`the test kit and the engine agree on ${write} for every kind of failure (L5)`, () =>
      Effect.gen(function*() {
        for (const fail of failureModes) {
          const kit = yield* Effect.promise(() => byKit(write, fail))
          assert.deepStrictEqual(yield* byEngine(write, fail), kit, fail)
        }
      }))
  }
})
