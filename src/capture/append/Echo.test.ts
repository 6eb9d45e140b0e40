/** Changes that plugins have made with their own writes are published with the write as their cause. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario } from "../../../test/support/capture/Rig.ts"
import {
  addTag,
  application,
  causeOf,
  person,
  polled,
  sweptTwice,
  unconfirmed
} from "../../../test/support/capture/TagWrites.ts"
import { isOwnChangeOnly, nextDepth } from "../../domain/Echo.ts"
import type { Model } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { refresh } from "../read/Refresh.ts"

const derivedProcessing = Processing.defaultProcessing("ats.candidate")

/** For each event after its record's first: id, kind, and the paths attributed to a plugin. */
const attributedIn = (rig: Rig, model: Model) =>
  Effect.map(rig.events, (entries) =>
    entries.filter((entry) => entry.model === model && entry.version > 1)
      .map((entry) => [entry.id, entry.kind, causeOf(entry)?.paths ?? null] as const))

const lastCause = (rig: Rig) => Effect.map(rig.events, (entries) => causeOf(entries.at(-1)!))

describe("echo", () => {
  it.effect("a plugin's write is attributed to it in every application of the candidate and in the candidate (L1)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []), application("b", []))
      yield* addTag(rig, "hot", { plugin: "stage-tags", delivery: "7", depth: 2 })
      yield* polled(rig, application("a", ["hot"]))
      yield* polled(rig, application("b", ["hot"]))
      assert.deepStrictEqual(yield* attributedIn(rig, "ats.application"), [
        ["a", "updated", ["/candidate/tags/t-hot"]],
        ["b", "updated", ["/candidate/tags/t-hot"]]
      ])
      assert.deepStrictEqual(yield* attributedIn(rig, "ats.candidate"), [["c", "updated", ["/tags/t-hot"]]])
      const [entry] = (yield* rig.events).filter(({ cause }) => cause !== null)
      assert.deepStrictEqual(causeOf(entry!), {
        plugin: "stage-tags",
        delivery: "7",
        depth: 2,
        paths: ["/candidate/tags/t-hot"]
      })
      assert.isTrue(isOwnChangeOnly(causeOf(entry!)!, JSON.parse(entry!.changes)))
    }, { derivedProcessing }))

  it.effect("a write is attributed once per record, and the same change made again later is external (L1)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      yield* addTag(rig, "hot")
      yield* polled(rig, application("a", ["hot"]))
      yield* polled(rig, application("a", []))
      yield* polled(rig, application("a", ["hot"]))
      assert.deepStrictEqual((yield* attributedIn(rig, "ats.application")).map(([, , paths]) => paths), [
        ["/candidate/tags/t-hot"],
        null,
        null
      ])
    }))

  it.effect("a removed tag is attributed to the write; another tag or another candidate's tag is not (L1)", () =>
    scenario(function*(rig) {
      const other = { ...application("o", []), candidate_id: "d", candidate: person([], { id: "d" }) }
      yield* rig.backfill(application("a", ["hot", "cold"]), other)
      yield* rig.write("removeTag", { candidate_id: "c" }, { tag: { name: " Hot " } })
      yield* polled(
        rig,
        application("a", ["new"]),
        { ...other, candidate: person(["hot"], { id: "d" }) }
      )
      assert.deepStrictEqual(yield* attributedIn(rig, "ats.application"), [
        ["a", "updated", ["/candidate/tags/t-hot"]],
        ["o", "updated", null]
      ])
    }))

  it.effect("applications with the candidate are refetched after a tag write, because updated_after does not return them (N1)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []), application("z", [], { candidate_id: null, candidate: null }))
      yield* rig.wait("1 hour")
      for (let polls = 0; polls < 2; polls++) yield* Effect.andThen(rig.poll, rig.wait("1 minute"))
      const write = yield* addTag(rig, "hot")
      yield* rig.put(application("a", ["hot"]), { silent: true })
      yield* write.answered()
      yield* refresh(rig.stream, Effect.succeed(false))
      yield* rig.poll
      assert.deepStrictEqual(yield* attributedIn(rig, "ats.application"), [["a", "updated", [
        "/candidate/tags/t-hot"
      ]]])
    }, { derivedProcessing }))

  it.effect("of several changes in one poll only the written one is attributed (L3)", () =>
    scenario(function*(rig) {
      const moved = (title: string, starting_at: string, stage: string) =>
        application("a", [], {
          interviews: [{ id: "i/1", title, starting_at, canceled: false }],
          current_stage_id: stage
        })
      yield* rig.backfill(moved("Call", "2026-03-05T09:00:00.000Z", "s1"))
      yield* rig.write("updateInterview", { application_id: "a" }, {
        interview_id: "i/1",
        start_time: "2026-03-06T11:00:00+01:00"
      })
      yield* polled(rig, moved("Interview", "2026-03-06T10:00:00.000Z", "s2"))
      assert.deepStrictEqual(yield* attributedIn(rig, "ats.application"), [
        ["a", "updated", ["/interviews/i~11/starting_at"]]
      ])
      const [entry] = (yield* rig.events).slice(-1)
      assert.deepStrictEqual(JSON.parse(entry!.changes).length, 3)
    }))

  it.effect("an event with an external change in the same poll is not the plugin's own change only, so the plugin receives it (E1)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      yield* addTag(rig, "hot")
      yield* polled(rig, application("a", ["hot", "vip"]))
      const [entry] = (yield* rig.events).slice(-1)
      assert.deepStrictEqual(causeOf(entry!)?.paths, ["/candidate/tags/t-hot"])
      assert.isFalse(isOwnChangeOnly(causeOf(entry!)!, JSON.parse(entry!.changes)))
    }))

  const applicant = { first_name: "Bea", last_name: "Kim", email_address: "Bea@example.com", phone_number: "1" }
  const applied = (id: string, email: string, details: Readonly<Record<string, unknown>> = {}) =>
    application(id, [], {
      remote_created_at: "2026-03-01T12:01:00.000Z",
      candidate_id: `c-${id}`,
      candidate: person([], {
        id: `c-${id}`,
        first_name: "Bea",
        last_name: "Kim",
        source: "API",
        email_addresses: [{ email_address: email, type: "PRIVATE" }]
      }),
      ...details
    })
  const created = (rig: Rig, model: Model) =>
    Effect.map(
      rig.events,
      (entries) =>
        entries.filter((entry) => entry.model === model && entry.id !== "z" && entry.kind === "created")
          .map((entry) => [entry.id, causeOf(entry)?.paths ?? null] as const)
    )

  it.effect("an application that a poll reads before the response arrives is recognized by the fields sent (E2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("z", [], { candidate: null, candidate_id: null }))
      const write = yield* rig.write("createApplication", { job_id: "j" }, { candidate: applicant })
      yield* polled(
        rig,
        applied("other", "someone@example.com"),
        applied("elsewhere", "bea@example.com", { job_id: "k" }),
        applied("new", "bea@example.com")
      )
      yield* write.answered({ "ats.application": "new", "ats.candidate": "c-new" })
      yield* polled(rig, applied("again", "bea@example.com"))
      assert.deepStrictEqual(yield* created(rig, "ats.application"), [
        ["other", null],
        ["elsewhere", null],
        ["new", [""]],
        ["again", null]
      ])
    }))

  it.effect("after the response, an application is recognized by its id only, and its candidate is attributed too (E2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("z", [], { candidate: null, candidate_id: null }))
      const write = yield* rig.write("createApplication", { job_id: "j" }, { candidate: applicant })
      yield* write.answered({ "ats.application": "new", "ats.candidate": "c-new" })
      yield* polled(rig, applied("same", "bea@example.com"), applied("new", "b.kim@elsewhere.example"))
      assert.deepStrictEqual(yield* created(rig, "ats.application"), [["same", null], ["new", [""]]])
      assert.deepStrictEqual(yield* created(rig, "ats.candidate"), [["c-same", null], ["c-new", [""]]])
    }, { derivedProcessing }))

  it.effect("two plugins that undo each other's tag increase the depth each time, even with external edits in between (L9)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      yield* polled(rig, application("a", [], { note: "0" }))
      const depths: Array<number> = []
      for (let round = 1; round <= 6; round++) {
        const depth = nextDepth([yield* lastCause(rig)])
        const adds = round % 2 === 1
        yield* rig.write(adds ? "addTag" : "removeTag", { candidate_id: "c" }, { tag: { name: "hot" } }, {
          plugin: adds ? "adder" : "remover",
          depth
        })
        yield* polled(rig, application("a", adds ? ["hot"] : [], { note: String(round) }))
        depths.push((yield* lastCause(rig))?.depth ?? 0)
      }
      assert.deepStrictEqual(depths, [1, 2, 3, 4, 5, 6])
    }))

  it.effect("of several writes in one poll the one with the greatest depth is the cause, with the paths of its plugin (L9)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(application("a", []))
      yield* addTag(rig, "hot", { plugin: "one", depth: 3 })
      yield* addTag(rig, "new", { plugin: "one", depth: 1 })
      yield* addTag(rig, "vip", { plugin: "two", depth: 2 })
      yield* polled(rig, application("a", ["hot", "new", "vip"]))
      assert.deepStrictEqual(yield* lastCause(rig), {
        plugin: "one",
        delivery: "1",
        depth: 3,
        paths: ["/candidate/tags/t-hot", "/candidate/tags/t-new"]
      })
    }))

  it.effect("a held change is still expected, and is attributed when it is published", () =>
    scenario(function*(rig) {
      const ids = ["a", "b", "d", "e", "f", "g"]
      yield* rig.backfill(...ids.map((id) => application(id, [])))
      yield* addTag(rig, "hot")
      yield* polled(rig, ...ids.map((id) => application(id, ["hot"])))
      yield* sweptTwice(rig)
      assert.deepStrictEqual(yield* attributedIn(rig, "ats.application"), [])
      const [hold] = yield* rig.holds
      yield* rig.approve(hold!.id)
      const paths = (yield* attributedIn(rig, "ats.application")).map(([, , paths]) => paths)
      assert.deepStrictEqual(paths, ids.map(() => ["/candidate/tags/t-hot"]))
      assert.deepStrictEqual(yield* unconfirmed, [])
    }))

  it.effect("an expected skill is attributed when it is added and when its proficiency changes, but not when it is renamed", () =>
    scenario(function*(rig) {
      const entity = (name: string, value: number | null) => ({
        id: "e",
        name: "Engineer",
        skills: value === null ? [] : [{
          skill_id: "s",
          skill: { id: "s", name },
          expected_proficiency: { type: "NUMERIC", value }
        }]
      })
      yield* rig.backfill(entity("Go", null))
      const expect = (expected_proficiency: number) =>
        rig.write("expectSkill", { staffing_entity_id: "e" }, { skill_id: "s", expected_proficiency })
      yield* expect(3)
      yield* polled(rig, entity("Go", 3))
      yield* expect(4)
      yield* polled(rig, entity("Golang", 4))
      assert.deepStrictEqual(yield* attributedIn(rig, "hris.staffing_entity"), [
        ["e", "updated", ["/skills/s"]],
        ["e", "updated", ["/skills/s/expected_proficiency/value"]]
      ])
    }, { model: "hris.staffing_entity" }))

  it.effect("replaced packages are attributed when they are created, updated with their timestamp, and deleted", () =>
    scenario(function*(rig) {
      const pack = (id: string, name: string, at: string) => ({
        id,
        name,
        type: "SKILLS_TEST",
        description: "d",
        updated_at: at
      })
      rig.api.intercept = (_, answer) => ({ ...answer, next: null })
      yield* rig.backfill(pack("kept", "Kept", "1"), pack("changed", "Old", "1"), pack("gone", "Gone", "1"))
      const body = [pack("kept", "Kept", ""), pack("changed", "New", ""), pack("new", "Fresh", "")]
      yield* rig.write("replacePackages", {}, {
        packages: body.map(({ description, id, name, type }) => ({ id, name, type, description }))
      })
      rig.api.vanish("gone")
      for (const row of [pack("changed", "New", "2"), pack("new", "Fresh", "2"), pack("foreign", "Other", "2")]) {
        yield* rig.put(row)
      }
      for (let minute = 0; minute < 12; minute++) {
        yield* rig.sweep
        yield* rig.wait("1 minute")
      }
      const entries = (yield* rig.events).filter(({ cause, version }) => cause !== null || version > 1)
      assert.deepStrictEqual(entries.map((entry) => [entry.id, entry.kind, causeOf(entry)?.paths]), [
        ["changed", "updated", ["/name", "/updated_at"]],
        ["new", "created", [""]],
        ["gone", "deleted", [""]]
      ])
      assert.deepStrictEqual(yield* unconfirmed, [])
    }, { model: "assessment.package" }))
})
