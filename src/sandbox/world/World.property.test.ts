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
