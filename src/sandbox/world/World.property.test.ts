import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { type IncrementalModel, incrementalModels } from "../../api/Lists.ts"
import { allRecords, type ListQuery } from "./ListQuery.ts"
import type { ListOrder } from "./Records.ts"
import { World } from "./World.ts"

const start = Date.parse("2026-03-01T12:00:00.000Z")
const integration = "sandbox:everything"

const Seed = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff_ffff }))
const Size = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 250 }))
const Steps = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20_000 }))).check(
  Schema.isMaxLength(6)
)
const Model = Schema.Literals(incrementalModels)
const AnyOrder = Schema.Literals(["drifting", "stable"])

type Shown = { readonly id: string; readonly [key: string]: unknown }
const list = (world: World, model: IncrementalModel, query: ListQuery = allRecords) =>
  world.list(integration, model, query) as unknown as ReadonlyArray<Shown>
const everyList = (world: World) => incrementalModels.map((model) => list(world, model))

const pages = (
  world: World,
  model: IncrementalModel,
  query: ListQuery,
  size: number
): ReadonlyArray<ReadonlyArray<Shown>> => {
  const all: Array<ReadonlyArray<Shown>> = []
  for (let cursor: string | null = null, more = true; more;) {
    const page = world.page(integration, model, query, size, cursor)
    if (page === "bad cursor") return assert.fail(page)
    all.push(page.results as unknown as ReadonlyArray<Shown>)
    cursor = page.next
    more = cursor !== null
  }
  return all
}

const lively = (seed: number, order: ListOrder = "drifting") =>
  World.make({ seed, start, records: 40, speed: 2000, order })

/** Compares long lists of JSON values, which `deepStrictEqual` takes ten times as long for. */
const assertSame = (actual: unknown, expected: unknown) =>
  assert.strictEqual(JSON.stringify(actual), JSON.stringify(expected))

describe("a world", () => {
  it.prop(
    "is the same for the same seed, regardless of the steps in which time advances",
    { seed: Seed, steps: Steps },
    ({ seed, steps }) => {
      const [one, two] = [lively(seed), lively(seed)]
      const end = steps.reduce((at, step) => {
        one.advance(at + step)
        return at + step
      }, start)
      two.advance(end)
      assertSame(one.log, two.log)
      assertSame(everyList(one), everyList(two))
    }
  )

  it.prop("pages over each record exactly once while no record changes", {
    seed: Seed,
    size: Size,
    model: Model,
    order: AnyOrder
  }, ({ model, order, seed, size }) => {
    const world = lively(seed, order)
    world.advance(start + 20_000)
    const read = pages(world, model, allRecords, size)
    assertSame(read.flat(), list(world, model))
    assert.isTrue(read.slice(0, -1).every((page) => page.length === size))
  })

  it.prop("shows every record that stays exactly once in stable order, while others come and go", {
    seed: Seed,
    model: Model
  }, ({ model, seed }) => {
    const world = lively(seed, "stable")
    const before = list(world, model).map(({ id }) => id)
    const seen: Array<string> = []
    let cursor: string | null = null
    do {
      const page = world.page(integration, model, allRecords, 7, cursor)
      if (page === "bad cursor") return assert.fail(page)
      seen.push(...(page.results as unknown as ReadonlyArray<Shown>).map(({ id }) => id))
      cursor = page.next
      world.advance(world.now + 500)
    } while (cursor !== null)
    const vanished = new Set(world.log.filter(({ kind }) => kind === "deleted_hard").map(({ id }) => id))
    assert.strictEqual(new Set(seen).size, seen.length)
    assert.deepStrictEqual(before.filter((id) => !seen.includes(id) && !vanished.has(id)), [])
  })

  it.prop("truth returns the live records that the list shows", { seed: Seed, model: Model }, ({ model, seed }) => {
    const world = lively(seed)
    world.advance(start + 10_000)
    const shown = list(world, model, { ...allRecords, includeDeleted: false })
    assert.deepStrictEqual([...world.truth(integration, model).keys()], shown.map(({ id }) => id))
    assert.strictEqual(JSON.stringify([...world.truth(integration, model).values()]), JSON.stringify(shown))
    assert.isTrue(shown.every((record) => record["remote_deleted_at"] === null))
  })

  it.prop(
    "matches more records for an older updated_after, and never misses an own change",
    { seed: Seed, model: Model },
    ({ model, seed }) => {
      const world = lively(seed)
      world.advance(start + 10_000)
      const middle = world.now
      world.advance(start + 20_000)
      const since = (updatedAfter: number) =>
        new Set(list(world, model, { ...allRecords, updatedAfter }).map(({ id }) => id))
      const [recent, older] = [since(middle), since(start)]
      for (const id of recent) assert.isTrue(older.has(id))
      for (const record of list(world, model)) {
        if (Date.parse(String(record["changed_at"])) >= middle) assert.isTrue(recent.has(record.id))
      }
    }
  )
})

/** The value that a filter compares with, in the record as the API shows it. */
const filteredValues: ReadonlyArray<readonly [IncrementalModel, string, (record: Shown) => unknown]> = [
  ["ats.application", "outcomes", (record) => record["outcome"]],
  ["ats.application", "outcome", (record) => record["outcome"]],
  ["ats.application", "job_ids", (record) => record["job_id"]],
  ["ats.scorecard", "candidate_ids", (record) => record["candidate_id"]],
  ["ats.scorecard", "application_ids", (record) => record["application_id"]],
  ["hris.payslip", "employee_ids", (record) => idAt(record, "employee")],
  ["hris.payslip", "payrun_ids", (record) => idAt(record, "pay_run")],
  ["hris.payslip", "legal_entity_ids", (record) => (record["pay_run"] as Shown)["legal_entity_id"]],
  ["hris.performance_review", "types", (record) => record["type"]],
  ["hris.performance_review", "review_cycle_ids", (record) => idAt(record, "review_cycle")],
  ["hris.performance_review", "reviewee_ids", (record) => idAt(record, "reviewee")],
  ["hris.staffing_entity", "model_types", (record) => record["model_type"]],
  ["hris.staffing_entity", "statuses", (record) => record["status"]]
]
const idAt = (record: Shown, path: string): string => (record[path] as Shown).id

describe("filters", () => {
  it.prop("values combine with OR, different filters with AND, and no value selects all", {
    seed: Seed,
    every: Size
  }, ({ every, seed }) => {
    const world = lively(seed)
    for (const [model, filter, filteredValue] of filteredValues) {
      const all = list(world, model)
      const values = [...new Set(all.map((record) => String(filteredValue(record))))].filter((_, i) => i % 2 === 0)
      const ids = all.filter((_, i) => i % (1 + every % 3) === 0).map(({ id }) => id)
      const filtered = list(world, model, { ...allRecords, filters: { [filter]: values } })
      const label = `${model} ${filter}`
      assertSame([label, filtered], [label, all.filter((record) => values.includes(String(filteredValue(record))))])
      assertSame(
        [label, list(world, model, { ...allRecords, ids, filters: { [filter]: values } })],
        [label, filtered.filter(({ id }) => ids.includes(id))]
      )
      assertSame([label, list(world, model, { ...allRecords, filters: { [filter]: [] } })], [label, all])
    }
  })

  it("ids and remote_ids combine with AND", () => {
    const world = lively(1)
    const [a, b, c] = list(world, "ats.tag") as readonly [Shown, Shown, Shown]
    const both = list(world, "ats.tag", {
      ...allRecords,
      ids: [a.id, b.id],
      remoteIds: [b["remote_id"], c["remote_id"]].map(String)
    })
    assert.deepStrictEqual(both, [b])
  })

  it("name_contains finds each of its words in the name, ignoring case", () => {
    const world = lively(1)
    const name = String(list(world, "hris.legal_entity")[0]?.["name"])
    const word = name.slice(2, 6).toUpperCase()
    const found = list(world, "hris.legal_entity", {
      ...allRecords,
      filters: { name_contains: [word, "no such word"] }
    })
    assert.isTrue(found.length > 0 && found.every((record) => String(record["name"]).toUpperCase().includes(word)))
  })
})
