import { assert, describe, it } from "@effect/vitest"
import { type IncrementalModel, incrementalModels, lists, type Propagation } from "../../api/Lists.ts"
import { allRecords } from "./ListQuery.ts"
import type { MutationRequest } from "./Mutations.ts"
import { World } from "./World.ts"

const start = Date.parse("2026-03-01T12:00:00.000Z")
const integration = "sandbox:everything"

interface Shown {
  readonly id: string
  readonly changed_at: string
  readonly [key: string]: unknown
}

/** A world without activity, one second after its start; only the test changes it. */
const quietWorld = () => {
  const world = World.make({ seed: 11, start, records: 40, speed: 0 })
  world.advance(start + 1000)
  const list = (model: IncrementalModel, updatedAfter: number | null) =>
    world.list(integration, model, { ...allRecords, updatedAfter }) as unknown as ReadonlyArray<Shown>
  const act = (mutation: MutationRequest): string => {
    const done = world.mutate(mutation)
    return "refused" in done ? assert.fail(done.refused) : done.id
  }
  return { world, list, act }
}

type QuietWorld = ReturnType<typeof quietWorld>

/** The record linked at a path: its model, and how to find its id in the record that shows it. */
interface Linked {
  readonly model: string
  readonly idIn: (record: Shown) => string | null | undefined
  /** Whether a reader of the list can see that the linked record changed. */
  readonly visible: boolean
}

const dig = (...path: ReadonlyArray<string>) => (record: Shown): string | undefined => {
  let at: unknown = record
  for (const step of path) {
    if (Array.isArray(at)) at = at[0]
    at = typeof at === "object" && at !== null ? (at as Record<string, unknown>)[step] : undefined
  }
  return typeof at === "string" ? at : undefined
}
const shows = (model: string, ...path: ReadonlyArray<string>): Linked => ({ model, idIn: dig(...path), visible: true })
const hides = (model: string, ...path: ReadonlyArray<string>): Linked => ({ model, idIn: dig(...path), visible: false })

const paths: Record<string, Record<string, Linked>> = {
  "ats.application": {
    "candidate": shows("ats.candidate", "candidate", "id"),
    "candidate.tags": shows("ats.tag", "candidate", "tags", "id"),
    "current_stage": shows("ats.stage", "current_stage", "id"),
    "job": shows("ats.job", "job", "id"),
    "interviews": shows("ats.interview", "interviews", "id"),
    "offers": shows("ats.offer", "offers", "id")
  },
  "ats.scorecard": {
    "author": shows("ats.user", "author", "id"),
    "application": hides("ats.application", "application_id"),
    "candidate": hides("ats.candidate", "candidate_id"),
    "interview": hides("ats.interview", "interview_id")
  },
  "ats.offer": {
    "application": hides("ats.application", "application_id"),
    "application.candidate": shows("ats.candidate", "application", "candidate", "id"),
    "application.job": shows("ats.job", "application", "job", "id")
  },
  "hris.payslip": {
    "employee": shows("hris.employee", "employee", "id"),
    "pay_run": shows("hris.pay_run", "pay_run", "id"),
    "line_items": shows("hris.line_item", "line_items", "id"),
    "line_items.salary_type": { model: "hris.salary_type", idIn: () => null, visible: false }
  },
  "hris.performance_review": {
    "review_cycle": shows("hris.performance_review_cycle", "review_cycle", "id"),
    "reviewee": shows("hris.employee", "reviewee", "id"),
    "reviewer": shows("hris.employee", "reviewer", "id")
  },
  "hris.staffing_entity": {
    "locations": shows("hris.location", "locations", "id"),
    "legal_entities": shows("hris.legal_entity", "legal_entities", "id"),
    "groups": shows("hris.group", "groups", "id"),
    "skills": shows("hris.skill", "skills", "skill", "id")
  },
  "hris.skill": { "proficiency_scale": shows("hris.proficiency_scale", "proficiency_scale", "id") }
}

const cases = incrementalModels.flatMap((model) =>
  Object.entries<Propagation>(lists[model].propagation).map(([path, propagation]) => ({ model, path, propagation }))
)

/** Every array with a path in the table, and the model of its entries. */
const arrays: ReadonlyArray<readonly [IncrementalModel, string, string]> = [
  ["ats.application", "candidate.tags", "ats.tag"],
  ["ats.application", "interviews", "ats.interview"],
  ["ats.application", "offers", "ats.offer"],
  ["hris.payslip", "line_items", "hris.line_item"],
  ["hris.staffing_entity", "locations", "hris.location"],
  ["hris.staffing_entity", "legal_entities", "hris.legal_entity"],
  ["hris.staffing_entity", "groups", "hris.group"],
  ["hris.staffing_entity", "skills", "hris.expectation"]
]
const propagationOf = (model: IncrementalModel, path: string): Propagation =>
  Object.entries<Propagation>(lists[model].propagation).find(([name]) => name === path)?.[1] ??
    assert.fail(`${model} has no path ${path}`)

/** A visible own property of each linked model, with another value. */
const edit: Record<string, Record<string, string | number>> = {
  "ats.application": { rejection_reason_name: "Changed by the test" },
  "ats.offer": { status: "UNDER_TEST" },
  "ats.interview": { title: "Changed by the test" },
  "ats.candidate": { first_name: "Changed" },
  "ats.user": { first_name: "Changed" },
  "hris.employee": { first_name: "Changed" },
  "hris.pay_run": { end_date: "2031-01-31" },
  "hris.proficiency_scale": { type: "OTHER" }
}

const recordLinking = ({ list, world }: QuietWorld, model: IncrementalModel, linked: Linked) => {
  const record = list(model, null).find((record) =>
    record["remote_deleted_at"] === null && linked.idIn(record) !== undefined
  )
  if (record === undefined) return assert.fail("the world has no such record")
  const id = linked.idIn(record) ?? world.ids(integration, "hris.salary_type")[0] ?? assert.fail("no salary type")
  return { record, id }
}

const after = ({ list }: QuietWorld, model: IncrementalModel, id: string, since = start + 1) => ({
  now: list(model, null).find((record) => record.id === id) ?? assert.fail("the record is not in the list"),
  matches: list(model, since).some((record) => record.id === id)
})

describe("the propagation table", () => {
  it("is tested on every path of every list", () => {
    for (const { model, path } of cases) assert.property(paths[model], path)
  })

  for (const { model, path, propagation } of cases) {
    const linked = (paths[model] as Record<string, Linked>)[path] as Linked

    it(`a change at ${model} ${path} ${propagation.linked ? "matches" : "never matches"} updated_after (N1)`, () => {
      const world = quietWorld()
      const { id, record } = recordLinking(world, model, linked)
      const fields = edit[linked.model] ?? { name: "Changed by the test" }
      world.act({ op: "update", integration, model: linked.model, id, fields })
      const { matches, now } = after(world, model, record.id)
      assert.strictEqual(now.changed_at, record.changed_at)
      assert.strictEqual(JSON.stringify(now) !== JSON.stringify(record), linked.visible)
      assert.strictEqual(matches, propagation.linked)
    })
  }

  for (const [model, path, entry] of arrays) {
    const { entries } = propagationOf(model, path)

    it(`an entry added and removed at ${model} ${path} ${entries ? "matches" : "never matches"} updated_after (N1)`, () => {
      const world = quietWorld()
      const { id, record } = recordLinking(world, model, (paths[model] as Record<string, Linked>)[path] as Linked)
      const holder = path === "candidate.tags"
        ? { model: "ats.candidate", id: dig("candidate", "id")(record) ?? "", path: "tags" }
        : { model, id: record.id, path }
      const links = entry === "hris.expectation" ? { skill: id } : {}
      const added = world.act({ op: "create", integration, model: entry, links, fields: { name: "Added by the test" } })
      world.act({ op: "attach", integration, ...holder, entry: added })
      const with_ = after(world, model, record.id)
      assert.strictEqual(with_.now.changed_at, record.changed_at)
      assert.notStrictEqual(JSON.stringify(with_.now), JSON.stringify(record))
      assert.strictEqual(with_.matches, entries)

      world.world.advance(start + 2000)
      world.act({ op: "detach", integration, ...holder, entry: added })
      const without = after(world, model, record.id, start + 2000)
      assert.deepStrictEqual(without.now, record)
      assert.strictEqual(without.matches, entries)
    })
  }

  for (
    const [model, linked] of [
      ["ats.application", shows("ats.offer", "offers", "id")],
      ["ats.application", shows("ats.interview", "interviews", "id")],
      ["hris.payslip", shows("hris.line_item", "line_items", "id")],
      ["hris.staffing_entity", shows("hris.legal_entity", "legal_entities", "id")],
      ["hris.staffing_entity", shows("hris.skill", "skills", "skill", "id")]
    ] as const
  ) {
    for (const flag of [true, false]) {
      it(`a ${linked.model} deleted ${flag ? "with" : "without"} a flag leaves its ${model}, which matches`, () => {
        const world = quietWorld()
        const { id, record } = recordLinking(world, model, linked)
        world.act({ op: "delete", integration, model: linked.model, id, flag })
        const { matches, now } = after(world, model, record.id)
        assert.notStrictEqual(JSON.stringify(now), JSON.stringify(record))
        assert.isTrue(matches)
        world.world.advance(start + 2000)
        world.act({ op: "restore", integration, model: linked.model, id })
        const back = after(world, model, record.id, start + 2000)
        assert.deepStrictEqual(back.now, record)
        assert.isTrue(back.matches)
      })
    }
  }

  for (const flag of [true, false]) {
    it(`a tag deleted ${flag ? "with" : "without"} a flag leaves its candidates, which never match (N1)`, () => {
      const world = quietWorld()
      const { id, record } = recordLinking(world, "ats.application", shows("ats.tag", "candidate", "tags", "id"))
      world.act({ op: "delete", integration, model: "ats.tag", id, flag })
      const { matches, now } = after(world, "ats.application", record.id)
      assert.isFalse(JSON.stringify(now).includes(id))
      assert.isFalse(matches)
    })
  }

  it("an own change matches and moves changed_at", () => {
    for (const model of incrementalModels) {
      const world = quietWorld()
      const [record] = world.list(model, null)
      world.act({ op: "delete", integration, model, id: record?.id ?? "" })
      const { matches, now } = after(world, model, record?.id ?? "")
      assert.isTrue(matches)
      assert.strictEqual(now.changed_at, "2026-03-01T12:00:01.000Z")
    }
  })

  it("an offer does not match when only its application's candidate is renamed", () => {
    const world = quietWorld()
    const offer = world.list("ats.offer", null)[0] ?? assert.fail("no offer")
    const id = dig("application", "candidate", "id")(offer) ?? assert.fail("no candidate")
    world.act({ op: "rename", integration, model: "ats.candidate", id, name: "Changed" })
    assert.isTrue(after(world, "ats.application", dig("application_id")(offer) ?? "").matches)
    assert.isFalse(after(world, "ats.offer", offer.id).matches)
  })

  it("a change of remote_updated_at alone never matches", () => {
    const world = quietWorld()
    const record = world.list("ats.application", null)[0] ?? assert.fail("no application")
    world.act({ op: "touch", integration, model: "ats.application", id: record.id })
    const { matches, now } = after(world, "ats.application", record.id)
    assert.isFalse(matches)
    assert.deepStrictEqual({ ...now, remote_updated_at: record["remote_updated_at"] }, record)
    assert.notStrictEqual(now["remote_updated_at"], record["remote_updated_at"])
  })
})
