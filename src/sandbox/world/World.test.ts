import { assert, describe, it } from "@effect/vitest"
import { type IncrementalModel, incrementalModels } from "../../api/Lists.ts"
import { activityKinds } from "./Activity.ts"
import { allRecords } from "./ListQuery.ts"
import { makeIntegrations, World } from "./World.ts"

const start = Date.parse("2026-03-01T12:00:00.000Z")
const day = 86_400_000
const integration = "sandbox:everything"

type Shown = Readonly<Record<string, unknown>>
const list = (world: World, model: IncrementalModel, query = allRecords, of = integration) =>
  world.list(of, model, query) as ReadonlyArray<Shown>
const idsOf = (rows: ReadonlyArray<Shown>) => rows.map((row) => String(row["id"]))
const first = (world: World, model: IncrementalModel) => world.ids(integration, model)[0] ?? assert.fail(`no ${model}`)

describe("a new world", () => {
  const world = World.make({ seed: 3, start, records: 300 })

  for (const model of incrementalModels) {
    it(`has ids of 24 base58 characters, each once, in ${model}`, () => {
      const ids = idsOf(list(world, model))
      assert.strictEqual(new Set(ids).size, ids.length)
      for (const id of ids) assert.match(id, /^[1-9A-HJ-NP-Za-km-z]{24}$/)
    })

    it(`starts with a ${model} list whose records were created and changed at least a day ago`, () => {
      for (const row of list(world, model)) {
        assert.isAtMost(Date.parse(String(row["changed_at"])), start - day)
        if ("remote_created_at" in row) assert.isAtMost(Date.parse(String(row["remote_created_at"])), start - day)
      }
    })
  }

  it("has an id of 24 base58 characters in every record and embedded record that has an id", () => {
    const idsWithin = (value: unknown, path = ""): ReadonlyArray<readonly [path: string, id: string]> => {
      if (typeof value !== "object" || value === null) return []
      return Object.entries(value).flatMap(([name, inner]) => {
        const isId = /^id$|_id$/.test(name) && !/^(remote|origin)_id$/.test(name) && typeof inner === "string"
        const isOurs = !/(remote_data|custom_fields|ordered_options)\b/.test(path)
        return isId && isOurs ? [[`${path}.${name}`, inner] as const] : idsWithin(inner, `${path}.${name}`)
      })
    }
    for (const model of [...incrementalModels, "lms.course", "hris.rating"] as const) {
      const found = [...world.truth(integration, model).values()].flatMap((record) => idsWithin(record, model))
      for (const [path, id] of found) assert.match(id, /^[1-9A-HJ-NP-Za-km-z]{24}$/, path)
    }
  })

  it("uses some ids in several models and several integrations (L6)", () => {
    const pair = World.make({ seed: 3, start, records: 300, integrations: 4 })
    const applications = new Set(idsOf(list(pair, "ats.application", allRecords, "greenhouse:acme")))
    const common = (rows: ReadonlyArray<Shown>) => idsOf(rows).filter((id) => applications.has(id)).length
    assert.isAbove(common(list(pair, "ats.offer", allRecords, "greenhouse:acme")), 0)
    assert.isAbove(common(list(pair, "ats.application", allRecords, "lever:globex")), 0)
  })

  it("has one integration with every model, or pairs of a recruiting and an HR system", () => {
    assert.deepStrictEqual(makeIntegrations(1).map(({ id }) => id), ["sandbox:everything"])
    const several = makeIntegrations(60)
    assert.strictEqual(new Set(several.map(({ id }) => id)).size, 60)
    const pair = World.make({ seed: 1, start, integrations: 2, records: 10 })
    assert.deepStrictEqual(
      incrementalModels.map((model) => [pair.hasModel("greenhouse:acme", model), pair.hasModel("workday:acme", model)]),
      incrementalModels.map((model) => [model.startsWith("ats."), model.startsWith("hris.")])
    )
  })
})

describe("a world with activity", () => {
  it("performs every kind of activity within twenty seconds at the speed of the demo", () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const world = World.make({ seed, start, records: 200, integrations: 2, speed: 300 })
      world.advance(start + 20_000)
      const missing = activityKinds.filter((kind) => world.mutations[kind] === 0)
      assert.deepStrictEqual(missing, [], `seed ${seed}, ${world.log.length} mutations`)
    }
  })

  it("performs every kind once before it repeats one", () => {
    const world = World.make({ seed: 8, start, records: 100, speed: 1000 })
    world.advance(start + 60_000)
    const first = world.log.slice(0, activityKinds.length).map(({ kind }) => kind)
    assert.deepStrictEqual([...first].sort(), [...activityKinds].sort())
  })

  it("continues while one kind depends on another, and performs it as soon as it is possible", () => {
    for (let seed = 1; seed <= 10; seed++) {
      const world = World.make({ seed, start, records: 100, sizes: { "ats.offer": 0 }, speed: 1000 })
      world.advance(start + 60_000)
      const order = world.log.map(({ kind }) => kind)
      // The only offer can be accepted or declined, not both: one kind waits for the next offer.
      const round = order.slice(0, activityKinds.length - 1)
      assert.strictEqual(new Set(round).size, round.length, `seed ${seed}`)
      assert.deepStrictEqual(activityKinds.filter((kind) => !order.includes(kind)), [])
    }
  })

  it("dates activity between the steps of time, never later than the current time", () => {
    const world = World.make({ seed: 5, start, records: 100, speed: 500 })
    world.advance(start + 30_000)
    assert.isAbove(world.log.length, 50)
    for (const { at } of world.log) assert.isTrue(at > start && at <= start + 30_000)
  })

  it("has no activity at speed 0 or while frozen, and does not catch up afterwards", () => {
    const still = World.make({ seed: 5, start, records: 100, speed: 0 })
    still.advance(start + day)
    assert.strictEqual(still.log.length, 0)
    const world = World.make({ seed: 5, start, records: 100, speed: 500 })
    world.freeze()
    world.advance(start + day)
    world.unfreeze()
    world.advance(start + day + 1)
    assert.isAtMost(world.log.length, 2)
    world.advance(start + day + 30_000)
    assert.isAbove(world.log.length, 50)
  })

  it("has as much activity per minute when it has several times as many records as at the start", () => {
    const world = World.make({ seed: 5, start, records: 20, speed: 2000 })
    const activity = (from: number) => {
      const before = world.log.length
      world.advance(start + from + 60_000)
      return world.log.length - before
    }
    const atFirst = activity(0)
    const records = world.ids(integration, "ats.application").length
    world.advance(start + 15 * 60_000)
    assert.isAbove(world.ids(integration, "ats.application").length, 3 * records)
    assert.isBelow(activity(15 * 60_000), 1.5 * atFirst)
  })

  it("shows a renamed tag at once in every candidate that has it", () => {
    const world = World.make({ seed: 5, start, records: 100, speed: 0 })
    const id = first(world, "ats.tag")
    const before = list(world, "ats.application").filter((row) => JSON.stringify(row).includes(id))
    world.mutate({ op: "rename", integration, model: "ats.tag", id, name: "renamed by the test" })
    const now = list(world, "ats.application").filter((row) => JSON.stringify(row).includes("renamed by the test"))
    assert.isAbove(before.length, 1)
    assert.deepStrictEqual(idsOf(now).sort(), idsOf(before).sort())
  })
})

describe("deletes", () => {
  const fresh = () => World.make({ seed: 9, start, records: 60, speed: 0 })

  it("a flagged record is hidden by default, and matches updated_after with include_deleted (D1)", () => {
    const world = fresh()
    const id = first(world, "ats.application")
    world.mutate({ op: "delete", integration, model: "ats.application", id })
    assert.notInclude(idsOf(list(world, "ats.application", { ...allRecords, includeDeleted: false })), id)
    const [row, ...others] = list(world, "ats.application", { ...allRecords, updatedAfter: start })
    assert.deepStrictEqual([row?.["id"], row?.["remote_deleted_at"], others.length], [
      id,
      "2026-03-01T12:00:00.000Z",
      0
    ])
  })

  it("a record deleted without a flag leaves every list, even for a query by id (D2)", () => {
    const world = fresh()
    const id = first(world, "ats.application")
    world.mutate({ op: "delete", integration, model: "ats.application", id, flag: false })
    assert.notInclude(idsOf(list(world, "ats.application")), id)
    assert.deepStrictEqual(list(world, "ats.application", { ...allRecords, ids: [id] }), [])
    assert.deepStrictEqual(world.page(integration, "ats.application", { ...allRecords, ids: [id] }, 250, null), {
      results: [],
      next: null
    })
    assert.deepStrictEqual(list(world, "ats.application", { ...allRecords, updatedAfter: start }), [])
  })

  it("a restored record is back under its id, with a new changed_at (D9)", () => {
    for (const flag of [true, false]) {
      const world = fresh()
      const id = first(world, "ats.offer")
      world.mutate({ op: "delete", integration, model: "ats.offer", id, flag })
      world.advance(start + 1000)
      world.mutate({ op: "restore", integration, model: "ats.offer", id })
      const [row] = list(world, "ats.offer", { ...allRecords, ids: [id] })
      assert.deepStrictEqual([row?.["remote_deleted_at"], row?.["changed_at"]], [null, "2026-03-01T12:00:01.000Z"])
      assert.strictEqual(new Set(idsOf(list(world, "ats.offer"))).size, list(world, "ats.offer").length)
    }
  })

  /** Ids in the order in which a client reads them, in pages of 20, with a change after the first page. */
  const readWithChange = (world: World, change: () => void) => {
    const seen: Array<string> = []
    let cursor: string | null = null
    do {
      const page = world.page(integration, "ats.application", allRecords, 20, cursor)
      if (page === "bad cursor") return assert.fail(page)
      seen.push(...idsOf(page.results as ReadonlyArray<Shown>))
      if (cursor === null) change()
      cursor = page.next
    } while (cursor !== null)
    return seen
  }

  it("a record that changes during a read moves to the end, and the next page skips another record (P1)", () => {
    const world = fresh()
    const before = idsOf(list(world, "ats.application"))
    const id = before[0] ?? ""
    const seen = readWithChange(
      world,
      () => world.mutate({ op: "update", integration, model: "ats.application", id, fields: { outcome: "X" } })
    )
    assert.deepStrictEqual(seen, [...before.slice(0, 20), ...before.slice(21), id])
  })

  it("a record that vanishes during a read makes the next page skip another only in drifting order (P2)", () => {
    for (const order of ["drifting", "stable"] as const) {
      const world = World.make({ seed: 9, start, records: 60, speed: 0, order })
      const before = idsOf(list(world, "ats.application"))
      const target = { integration, model: "ats.application", id: before[0] ?? "" }
      const seen = readWithChange(world, () => world.mutate({ op: "delete", flag: false, ...target }))
      assert.deepStrictEqual(seen, order === "stable" ? before : before.toSpliced(20, 1))
      world.mutate({ op: "restore", ...target })
      const after = idsOf(list(world, "ats.application"))
      assert.deepStrictEqual(after, order === "stable" ? before : [...before.slice(1), target.id])
    }
  })
})

describe("mutations", () => {
  it("explain why they are not possible", () => {
    const world = World.make({ seed: 9, start, records: 20, speed: 0, integrations: 2 })
    const id = world.ids("greenhouse:acme", "ats.tag")[0] ?? ""
    const of = { integration: "greenhouse:acme", model: "ats.tag", id }
    const refused = (target: Parameters<World["mutate"]>[0]) => {
      const done = world.mutate(target)
      return "refused" in done ? done.refused : "done"
    }
    assert.match(refused({ op: "restore", ...of, integration: "a:b" }), /no integration "a:b"/)
    assert.match(refused({ op: "restore", ...of, model: "ats.nothing" }), /no model "ats.nothing"/)
    assert.match(refused({ op: "restore", ...of, model: "hris.skill" }), /has no hris.skill/)
    assert.match(refused({ op: "restore", ...of, id: "x" }), /no ats.tag "x"/)
    assert.match(refused({ op: "restore", ...of }), /is not deleted/)
    assert.match(refused({ op: "update", ...of, fields: { id: "y" } }), /has no own property id/)
    assert.match(refused({ op: "attach", ...of, path: "tags", entry: id }), /has no "tags"/)
    assert.match(refused({ op: "simulate", integration: of.integration, kind: "payroll_run" }), /cannot happen/)
    assert.strictEqual(refused({ op: "delete", ...of, flag: false }), "done")
    assert.match(refused({ op: "rename", ...of }), /is hard-deleted/)
  })
})
