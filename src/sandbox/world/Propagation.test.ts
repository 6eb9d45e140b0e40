import { assert, describe, it } from "@effect/vitest"
import { type IncrementalModel, incrementalModels, lists, type Propagation } from "../../api/Lists.ts"
import { allRecords } from "./ListQuery.ts"
import type { MutationRequest } from "./Mutations.ts"
import { isLive, type Row } from "./Records.ts"
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

/** The record at the end of a path, below this record; the first entry of each array. An expectation stands for the skill that it expects. */
const linkedAt = (row: Row | null | undefined, path: string): Row | null | undefined => {
  const found = path.split(".").reduce<Row | null | undefined>((at, step) => at?.one[step] ?? at?.many[step]?.[0], row)
  return found?.model === "hris.expectation" ? found.one["skill"] : found
}

const cases = incrementalModels.flatMap((model) =>
  Object.entries<Propagation>(lists[model].propagation).map(([path, propagation]) => ({ model, path, propagation }))
)

/** A record of the model, and the record that it links at the path. */
const recordLinking = ({ list, world }: QuietWorld, model: IncrementalModel, path: string) => {
  const { records } = world.writeContext(integration)
  const row = records.rows(model).find((row) => isLive(row) && linkedAt(row, path) != null) ??
    assert.fail(`no ${model} has a record at ${path}`)
  const linked = linkedAt(row, path) as Row
  const record = list(model, null).find(({ id }) => id === row.id) ?? assert.fail("the record is not in the list")
  return { row, record, linked }
}

/** The array at each path that ends at one, the record that has it, and the model of its entries. */
const arrays = cases.flatMap(({ model, path, propagation }) => {
  const { row } = recordLinking(quietWorld(), model, path)
  const [last = "", ...above] = path.split(".").toReversed()
  const holder = above.length === 0 ? row : linkedAt(row, above.toReversed().join("."))
  const entry = holder?.many[last]?.[0]
  return holder == null || entry === undefined ? [] : [{ model, path, propagation, last, holder, entry: entry.model }]
})

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

const after = ({ list }: QuietWorld, model: IncrementalModel, id: string, since = start + 1) => ({
  now: list(model, null).find((record) => record.id === id) ?? assert.fail("the record is not in the list"),
  matches: list(model, since).some((record) => record.id === id)
})

describe("the propagation table", () => {
  it("is tested on every path of every list, and on every array", () => {
    assert.lengthOf(cases, 25)
    assert.deepStrictEqual(arrays.map(({ path }) => path), [
      "candidate.tags",
      "interviews",
      "offers",
      "line_items",
      "locations",
      "legal_entities",
      "groups",
      "skills"
    ])
  })

  for (const { model, path, propagation } of cases) {
    it(`a change at ${model} ${path} ${propagation.linked ? "matches" : "never matches"} updated_after (N1)`, () => {
      const world = quietWorld()
      const { linked, record } = recordLinking(world, model, path)
      const fields = edit[linked.model] ?? { name: "Changed by the test" }
      world.act({ op: "update", integration, model: linked.model, id: linked.id, fields })
      const { matches, now } = after(world, model, record.id)
      assert.strictEqual(now.changed_at, record.changed_at)
      const isShown = JSON.stringify(record).includes(`"id":"${linked.id}","remote_id":"${linked.remoteId}"`)
      assert.strictEqual(JSON.stringify(now) !== JSON.stringify(record), isShown)
      assert.strictEqual(matches, propagation.linked)
    })
  }

  for (const { entry, holder, last, model, path, propagation: { entries } } of arrays) {
    it(`an entry added and removed at ${model} ${path} ${entries ? "matches" : "never matches"} updated_after (N1)`, () => {
      const world = quietWorld()
      const { linked, record } = recordLinking(world, model, path)
      const at = { model: holder.model, id: holder.id, path: last }
      const links = entry === "hris.expectation" ? { skill: linked.id } : {}
      const added = world.act({ op: "create", integration, model: entry, links, fields: { name: "Added by the test" } })
      world.act({ op: "attach", integration, ...at, entry: added })
      const with_ = after(world, model, record.id)
      assert.strictEqual(with_.now.changed_at, record.changed_at)
      assert.notStrictEqual(JSON.stringify(with_.now), JSON.stringify(record))
      assert.strictEqual(with_.matches, entries)

      world.world.advance(start + 2000)
      world.act({ op: "detach", integration, ...at, entry: added })
      const without = after(world, model, record.id, start + 2000)
      assert.deepStrictEqual(without.now, record)
      assert.strictEqual(without.matches, entries)
    })
  }

  const shownEntries = arrays.filter(({ path }) =>
    ["offers", "interviews", "line_items", "legal_entities", "skills"].includes(path)
  )
  for (const { model, path } of shownEntries) {
    for (const flag of [true, false]) {
      it(`a record in ${path} deleted ${flag ? "with" : "without"} a flag leaves its ${model}, which matches`, () => {
        const world = quietWorld()
        const { linked: { id, model: deleted }, record } = recordLinking(world, model, path)
        world.act({ op: "delete", integration, model: deleted, id, flag })
        const { matches, now } = after(world, model, record.id)
        assert.notStrictEqual(JSON.stringify(now), JSON.stringify(record))
        assert.isTrue(matches)
        world.world.advance(start + 2000)
        world.act({ op: "restore", integration, model: deleted, id })
        const back = after(world, model, record.id, start + 2000)
        assert.deepStrictEqual(back.now, record)
        assert.isTrue(back.matches)
      })
    }
  }

  for (const flag of [true, false]) {
    it(`a tag deleted ${flag ? "with" : "without"} a flag leaves its candidates, which never match (N1)`, () => {
      const world = quietWorld()
      const { linked: { id }, record } = recordLinking(world, "ats.application", "candidate.tags")
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
    const { linked: { id }, record: offer, row } = recordLinking(world, "ats.offer", "application.candidate")
    world.act({ op: "rename", integration, model: "ats.candidate", id, name: "Changed" })
    assert.isTrue(after(world, "ats.application", linkedAt(row, "application")?.id ?? "").matches)
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
