/** Writes whose change no complete run has shown. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { scenario } from "../../../test/support/capture/Rig.ts"
import {
  addTag,
  application,
  causeOf,
  person,
  polled,
  sweptTwice,
  unconfirmed
} from "../../../test/support/capture/TagWrites.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import * as Processing from "../../domain/Processing.ts"
import { sweep } from "../read/Sweep.ts"

const derivedProcessing = Processing.defaultProcessing("ats.candidate")

describe("writes that are never seen", () => {
  const counted = Effect.map(
    Metric.snapshot,
    (all) => all.filter(({ id }) => id === "rollcall_writes_unconfirmed_total").map(({ attributes }) => attributes)
  )

  it.effect("a lost write is reported once after two complete sweeps: counted, logged without the written values, and listed (L2)", () => {
    const lines: Array<string> = []
    const logged = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
    return scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      const write = yield* addTag(rig, "secret", { plugin: "stage-tags", delivery: "7" })
      yield* write.answered()
      yield* rig.poll
      yield* rig.sweep
      assert.deepStrictEqual(yield* unconfirmed, [])
      yield* sweptTwice(rig)
      yield* sweptTwice(rig)
      const listed = yield* unconfirmed
      assert.deepStrictEqual(listed.map((write) => ({ ...write, reportedAt: 0 })), [{
        integration: "greenhouse:acme",
        model: "ats.application",
        key: "candidate:c",
        name: "addTag",
        plugin: "stage-tags",
        delivery: "7",
        depth: 1,
        reportedAt: 0
      }])
      assert.deepStrictEqual(yield* counted, [{ model: "ats.application" }])
      assert.strictEqual(lines.filter((line) => line.startsWith("plugin write not found")).length, 1)
      assert.notInclude(lines.join() + JSON.stringify(listed), "secret")
    }).pipe(Effect.provide(logged), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  it.effect("a write to a candidate is no longer expected after two sweeps of the list of candidates, if there is one (L2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      for (let polls = 0; polls < 5; polls++) yield* rig.poll
      const models = withLists([defineList("ats.candidate", { path: "/ats/candidates" })])
      const list = {
        ...rig.stream,
        key: { ...rig.stream.key, model: "ats.candidate" as const },
        processing: Processing.defaultProcessing("ats.candidate", models),
        derivedProcessing: null
      }
      const swept = Effect.andThen(rig.wait("6 hours"), sweep(list, Effect.succeed(false)))
      yield* Effect.gen(function*() {
        rig.api.rows.clear()
        yield* Effect.andThen(rig.put({ ...person([]), changed_at: undefined }), swept)
        yield* addTag(rig, "hot")
        for (let sweeps = 0; sweeps < 3; sweeps++) yield* swept
        yield* Effect.andThen(rig.put({ ...person(["hot"]), changed_at: undefined }), swept)
      }).pipe(Effect.provideService(CurrentModels, models))
      const events = (yield* rig.events).filter(({ model }) => model === "ats.candidate")
      assert.deepInclude(events.at(-1), { id: "c", kind: "updated", cause: null })
    }, { derivedProcessing }))

  it.effect("an unconfirmed write is listed for a week, even if no later write is unconfirmed (L2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      const write = yield* addTag(rig, "hot")
      yield* write.answered()
      yield* sweptTwice(rig)
      yield* sweptTwice(rig)
      yield* rig.wait("6 days")
      assert.lengthOf(yield* unconfirmed, 1)
      yield* rig.wait("1 day")
      assert.deepStrictEqual(yield* unconfirmed, [])
    }))

  it.effect("the missing part of a partly applied write is reported (L2)", () =>
    scenario(function*(rig) {
      const interview = (title: string) => application("a", [], { interviews: [{ id: "i", title, canceled: false }] })
      yield* rig.backfill(interview("Call"))
      yield* rig.write("updateInterview", { application_id: "a" }, {
        interview_id: "i",
        title: "Talk",
        end_time: "2026-03-06T11:00:00Z"
      })
      yield* polled(rig, interview("Talk"))
      yield* sweptTwice(rig)
      assert.deepStrictEqual((yield* unconfirmed).map(({ key, name }) => [key, name]), [["id:a", "updateInterview"]])
    }))

  it.effect("a write is not reported if the record already had its values, if it was rejected, or if a later write replaced it (L2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", ["old"]))
      yield* addTag(rig, "old")
      const refused = yield* addTag(rig, "refused")
      yield* refused.refused
      yield* addTag(rig, "brief")
      yield* rig.write("removeTag", { candidate_id: "c" }, { tag: { name: "brief" } })
      yield* sweptTwice(rig)
      assert.deepStrictEqual(yield* unconfirmed, [])
    }, { derivedProcessing }))

  it.effect("a write that no polled model shows, or that is in a model that is not read, is not expected (L2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "t", name: "vip" })
      yield* rig.write("addResultLink", { application_id: "a" }, { label: "l", url: "https://example.com" })
      yield* addTag(rig, "hot")
      yield* polled(rig, { id: "t-hot", name: "hot", remote_created_at: "2026-03-01T12:01:00.000Z" })
      yield* sweptTwice(rig)
      const events = yield* rig.events
      assert.deepStrictEqual(causeOf(events.at(-1)!)?.paths, [""])
      assert.deepStrictEqual(yield* unconfirmed, [])
    }, { model: "ats.tag" }))
})
