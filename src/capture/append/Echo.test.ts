import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { type Rig, scenario } from "../../../test/support/capture/Rig.ts"
import type { Row } from "../../../test/support/capture/ScriptedApi.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import { type Cause, isOwnChangeOnly, nextDepth } from "../../domain/Echo.ts"
import type { Model } from "../../domain/Model.ts"
import * as Processing from "../../domain/Processing.ts"
import { Store } from "../../store/Store.ts"
import { refresh } from "../read/Refresh.ts"
import { sweep } from "../read/Sweep.ts"

const derivedProcessing = Processing.defaultProcessing("ats.candidate")

const tag = (name: string) => ({ id: `t-${name}`, remote_id: `r-${name}`, name })
const person = (tags: ReadonlyArray<string>, details: Readonly<Record<string, unknown>> = {}) => ({
  id: "c",
  remote_id: "r-c",
  first_name: "Ann",
  changed_at: "2026-03-01T11:00:00.000Z",
  remote_created_at: "2026-03-01T11:00:00.000Z",
  remote_deleted_at: null,
  tags: tags.map(tag),
  ...details
})
/** An application of the only candidate. */
const application = (
  id: string,
  tags: ReadonlyArray<string>,
  details: Readonly<Record<string, unknown>> = {}
): Row => ({
  id,
  outcome: "PENDING",
  job_id: "j",
  candidate_id: "c",
  candidate: person(tags),
  ...details
})

const causeOf = (entry: { readonly cause: string | null }): Cause | null =>
  entry.cause === null ? null : JSON.parse(entry.cause)

/** For each event after its record's first: id, kind, and the paths attributed to a plugin. */
const attributedIn = (rig: Rig, model: Model) =>
  Effect.map(rig.events, (entries) =>
    entries.filter((entry) => entry.model === model && entry.version > 1)
      .map((entry) => [entry.id, entry.kind, causeOf(entry)?.paths ?? null] as const))

const lastCause = (rig: Rig) => Effect.map(rig.events, (entries) => causeOf(entries.at(-1)!))

const polled = (rig: Rig, ...rows: ReadonlyArray<Row>) => Effect.andThen(rig.change(...rows), rig.wait("1 minute"))
const sweptTwice = (rig: Rig) =>
  Effect.forEach([1, 2], () => Effect.andThen(rig.wait("6 hours"), Effect.andThen(rig.poll, rig.sweep)))

const addTag = (rig: Rig, name: string, author = {}) =>
  rig.write("addTag", { candidate_id: "c" }, { tag: { name } }, author)
const unconfirmed = Effect.flatMap(Store, (store) => store.unconfirmedWrites(10))

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
