import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import { refresh } from "../../../src/capture/read/Refresh.ts"
import { type Cause, isOwnChangeOnly, nextDepth } from "../../../src/domain/Echo.ts"
import type { Model } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { Store } from "../../../src/store/Store.ts"
import { type Rig, scenario } from "./Rig.ts"
import type { Row } from "./ScriptedApi.ts"

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
/** An application of the one candidate. */
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

/** Of each event after the first of its record: who it is, what kind, and which paths are ours. */
const told = (rig: Rig, model: Model) =>
  Effect.map(rig.events, (entries) =>
    entries.filter((entry) => entry.model === model && entry.version > 1)
      .map((entry) => [entry.id, entry.kind, causeOf(entry)?.paths ?? null] as const))

const lastCause = (rig: Rig) => Effect.map(rig.events, (entries) => causeOf(entries.at(-1)!))

const backfilled = (rig: Rig, ...rows: ReadonlyArray<Row>) =>
  Effect.forEach(rows, (row) => rig.put(row)).pipe(
    Effect.andThen(rig.sweep),
    Effect.andThen(rig.wait("1 minute"))
  )
const polled = (rig: Rig, ...rows: ReadonlyArray<Row>) =>
  Effect.forEach(rows, (row) => rig.put(row)).pipe(Effect.andThen(rig.poll), Effect.andThen(rig.wait("1 minute")))
const sweptTwice = (rig: Rig) =>
  Effect.forEach([1, 2], () => Effect.andThen(rig.wait("6 hours"), Effect.andThen(rig.poll, rig.sweep)))

const addTag = (rig: Rig, name: string, author = {}) =>
  rig.write("addTag", { candidate_id: "c" }, { tag: { name } }, author)
const unconfirmed = Effect.flatMap(Store, (store) => store.unconfirmedWrites(10))

describe("echo", () => {
  it.effect("L1: what a plugin wrote is told as its own, in every application of the candidate and in the candidate", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        yield* backfilled(rig, application("a", []), application("b", []))
        yield* addTag(rig, "hot", { plugin: "stage-tags", delivery: "7", depth: 2 })
        yield* polled(rig, application("a", ["hot"]))
        yield* polled(rig, application("b", ["hot"]))
        assert.deepStrictEqual(yield* told(rig, "ats.application"), [
          ["a", "updated", ["/candidate/tags/t-hot"]],
          ["b", "updated", ["/candidate/tags/t-hot"]]
        ])
        assert.deepStrictEqual(yield* told(rig, "ats.candidate"), [["c", "updated", ["/tags/t-hot"]]])
        const [entry] = (yield* rig.events).filter(({ cause }) => cause !== null)
        assert.deepStrictEqual(causeOf(entry!), {
          plugin: "stage-tags",
          delivery: "7",
          depth: 2,
          paths: ["/candidate/tags/t-hot"]
        })
        assert.isTrue(isOwnChangeOnly(causeOf(entry!)!, JSON.parse(entry!.changes)))
      }),
      { derivedProcessing }
    ))

  it.effect("L1: each record shows a write once; who does the same again later is not us", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* backfilled(rig, application("a", []))
      yield* addTag(rig, "hot")
      yield* polled(rig, application("a", ["hot"]))
      yield* polled(rig, application("a", []))
      yield* polled(rig, application("a", ["hot"]))
      assert.deepStrictEqual((yield* told(rig, "ats.application")).map(([, , paths]) => paths), [
        ["/candidate/tags/t-hot"],
        null,
        null
      ])
    })))

  it.effect("L1: a tag taken off is ours, a tag of another name is not, nor one of another candidate", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const other = { ...application("o", []), candidate_id: "d", candidate: person([], { id: "d" }) }
      yield* backfilled(rig, application("a", ["hot", "cold"]), other)
      yield* rig.write("removeTag", { candidate_id: "c" }, { tag: { name: " Hot " } })
      yield* polled(
        rig,
        application("a", ["new"]),
        { ...other, candidate: person(["hot"], { id: "d" }) }
      )
      assert.deepStrictEqual(yield* told(rig, "ats.application"), [
        ["a", "updated", ["/candidate/tags/t-hot"]],
        ["o", "updated", null]
      ])
    })))

  it.effect("N1: nothing announces a tag, so who shows the candidate is read again once the write is answered", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        yield* backfilled(rig, application("a", []), application("z", [], { candidate_id: null, candidate: null }))
        yield* rig.wait("1 hour")
        for (let polls = 0; polls < 2; polls++) yield* Effect.andThen(rig.poll, rig.wait("1 minute"))
        const write = yield* addTag(rig, "hot")
        yield* rig.put(application("a", ["hot"]), { silent: true })
        yield* write.answered()
        yield* refresh(rig.stream, { budget: 4, shouldYield: Effect.succeed(false) })
        yield* rig.poll
        assert.deepStrictEqual(yield* told(rig, "ats.application"), [["a", "updated", ["/candidate/tags/t-hot"]]])
      }),
      { derivedProcessing }
    ))

  it.effect("L3: of what changed in one poll only what was written is ours", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const moved = (title: string, starting_at: string, stage: string) =>
        application("a", [], {
          interviews: [{ id: "i/1", title, starting_at, canceled: false }],
          current_stage_id: stage
        })
      yield* backfilled(rig, moved("Call", "2026-03-05T09:00:00.000Z", "s1"))
      yield* rig.write("updateInterview", { application_id: "a" }, {
        interview_id: "i/1",
        start_time: "2026-03-06T11:00:00+01:00"
      })
      yield* polled(rig, moved("Interview", "2026-03-06T10:00:00.000Z", "s2"))
      assert.deepStrictEqual(yield* told(rig, "ats.application"), [
        ["a", "updated", ["/interviews/i~11/starting_at"]]
      ])
      const [entry] = (yield* rig.events).slice(-1)
      assert.deepStrictEqual(JSON.parse(entry!.changes).length, 3)
    })))

  it.effect("E1: with a foreign write in the same poll the event is not wholly ours, so its author hears of it", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* backfilled(rig, application("a", []))
      yield* addTag(rig, "hot")
      yield* polled(rig, application("a", ["hot", "vip"]))
      const [entry] = (yield* rig.events).slice(-1)
      assert.deepStrictEqual(causeOf(entry!)?.paths, ["/candidate/tags/t-hot"])
      assert.isFalse(isOwnChangeOnly(causeOf(entry!)!, JSON.parse(entry!.changes)))
    })))

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

  it.effect("E2: an application is told by the fields sent when a poll sees it before the answer arrives", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        yield* backfilled(rig, application("z", [], { candidate: null, candidate_id: null }))
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
      })
    ))

  it.effect("E2: once the answer told its id, that alone counts; the candidate is ours with it", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        yield* backfilled(rig, application("z", [], { candidate: null, candidate_id: null }))
        const write = yield* rig.write("createApplication", { job_id: "j" }, { candidate: applicant })
        yield* write.answered({ "ats.application": "new", "ats.candidate": "c-new" })
        yield* polled(rig, applied("same", "bea@example.com"), applied("new", "b.kim@elsewhere.example"))
        assert.deepStrictEqual(yield* created(rig, "ats.application"), [["same", null], ["new", [""]]])
        assert.deepStrictEqual(yield* created(rig, "ats.candidate"), [["c-same", null], ["c-new", [""]]])
      }),
      { derivedProcessing }
    ))

  it.effect("L9: two plugins that undo each other's tag, each time with a foreign edit, come deeper each time", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* backfilled(rig, application("a", []))
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
    })))

  it.effect("L9: of several writes that one poll shows the deepest counts, with the paths of its plugin", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* backfilled(rig, application("a", []))
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
    })))

  it.effect("what waits in a hold is still expected, and ours when it is published", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const ids = ["a", "b", "d", "e", "f", "g"]
      yield* backfilled(rig, ...ids.map((id) => application(id, [])))
      yield* addTag(rig, "hot")
      yield* polled(rig, ...ids.map((id) => application(id, ["hot"])))
      yield* sweptTwice(rig)
      assert.deepStrictEqual(yield* told(rig, "ats.application"), [])
      const [hold] = yield* rig.holds
      yield* rig.approve(hold!.id)
      const paths = (yield* told(rig, "ats.application")).map(([, , paths]) => paths)
      assert.deepStrictEqual(paths, ids.map(() => ["/candidate/tags/t-hot"]))
      assert.deepStrictEqual(yield* unconfirmed, [])
    })))

  it.effect("an expected skill is ours where it is attached and where its proficiency changes, its renaming is not", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        const entity = (name: string, value: number | null) => ({
          id: "e",
          name: "Engineer",
          skills: value === null ? [] : [{
            skill_id: "s",
            skill: { id: "s", name },
            expected_proficiency: { type: "NUMERIC", value }
          }]
        })
        yield* backfilled(rig, entity("Go", null))
        const expect = (expected_proficiency: number) =>
          rig.write("expectSkill", { staffing_entity_id: "e" }, { skill_id: "s", expected_proficiency })
        yield* expect(3)
        yield* polled(rig, entity("Go", 3))
        yield* expect(4)
        yield* polled(rig, entity("Golang", 4))
        assert.deepStrictEqual(yield* told(rig, "hris.staffing_entity"), [
          ["e", "updated", ["/skills/s"]],
          ["e", "updated", ["/skills/s/expected_proficiency/value"]]
        ])
      }),
      { model: "hris.staffing_entity" }
    ))

  it.effect("packages that are replaced are ours as created, updated with their stamp, and gone", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        const pack = (id: string, name: string, at: string) => ({
          id,
          name,
          type: "SKILLS_TEST",
          description: "d",
          updated_at: at
        })
        rig.api.intercept = (_, answer) => Effect.succeed({ ...answer, next: null })
        yield* backfilled(rig, pack("kept", "Kept", "1"), pack("changed", "Old", "1"), pack("gone", "Gone", "1"))
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
      }),
      { model: "assessment.package" }
    ))
})

describe("writes that are never seen", () => {
  const counted = Effect.map(
    Metric.snapshot,
    (all) => all.filter(({ id }) => id === "rollcall_writes_unconfirmed_total").map(({ attributes }) => attributes)
  )

  it.effect("L2: after two complete sweeps a lost write is told once: counted, logged without what was written, listed", () => {
    const lines: Array<string> = []
    const logged = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
    return scenario(Effect.fnUntraced(function*(rig) {
      yield* backfilled(rig, application("a", []))
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
      assert.deepStrictEqual(yield* counted, [{ integration: "greenhouse:acme", model: "ats.application" }])
      assert.strictEqual(lines.filter((line) => line.startsWith("plugin write not found")).length, 1)
      assert.notInclude(lines.join() + JSON.stringify(listed), "secret")
    })).pipe(Effect.provide(logged), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  it.effect("L2: of a write that is applied in part the rest is told", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const interview = (title: string) => application("a", [], { interviews: [{ id: "i", title, canceled: false }] })
      yield* backfilled(rig, interview("Call"))
      yield* rig.write("updateInterview", { application_id: "a" }, {
        interview_id: "i",
        title: "Talk",
        end_time: "2026-03-06T11:00:00Z"
      })
      yield* polled(rig, interview("Talk"))
      yield* sweptTwice(rig)
      assert.deepStrictEqual((yield* unconfirmed).map(({ key, name }) => [key, name]), [["id:a", "updateInterview"]])
    })))

  it.effect("L2: nothing is told of what the record showed before, of what was refused, or overtaken by a later write", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        yield* backfilled(rig, application("a", ["old"]))
        yield* addTag(rig, "old")
        const refused = yield* addTag(rig, "refused")
        yield* refused.refused
        yield* addTag(rig, "brief")
        yield* rig.write("removeTag", { candidate_id: "c" }, { tag: { name: "brief" } })
        yield* sweptTwice(rig)
        assert.deepStrictEqual(yield* unconfirmed, [])
      }),
      { derivedProcessing }
    ))

  it.effect("L2: a write that no polled model shows, or in a model that is not read, is not waited for", () =>
    scenario(
      Effect.fnUntraced(function*(rig) {
        yield* backfilled(rig, { id: "t", name: "vip" })
        yield* rig.write("addResultLink", { application_id: "a" }, { label: "l", url: "https://example.com" })
        yield* addTag(rig, "hot")
        yield* polled(rig, { id: "t-hot", name: "hot", remote_created_at: "2026-03-01T12:01:00.000Z" })
        yield* sweptTwice(rig)
        const events = yield* rig.events
        assert.deepStrictEqual(causeOf(events.at(-1)!)?.paths, [""])
        assert.deepStrictEqual(yield* unconfirmed, [])
      }),
      { model: "ats.tag" }
    ))
})
