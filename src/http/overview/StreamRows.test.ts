import { assert, describe, it } from "@effect/vitest"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import type { StreamRow } from "../contract/OverviewApi.ts"
import { conditionOf, defaultIntervals } from "../matters/StreamConditions.ts"
import { rowOf, select } from "./StreamRows.ts"

describe("a list of streams", () => {
  const row = (stream: string, change: Partial<StreamRow> = {}): StreamRow => ({
    ...rowOf(conditionOf(streamView("greenhouse:acme", "ats.tag"), defaultIntervals)),
    stream,
    ...change
  })
  const names = (rows: ReadonlyArray<StreamRow>) => rows.map(({ stream }) => stream)

  it("begins with what is blocked, and with the latest of the late; the others keep their order while their freshness changes", () => {
    const rows = [
      row("d", { freshness_seconds: 9 }),
      row("c", { freshness_seconds: 5 }),
      row("b", { state: "late", freshness_seconds: 300 }),
      row("a", { state: "late", freshness_seconds: 400 }),
      row("e", { state: "blocked" })
    ]
    assert.deepStrictEqual(names(select(rows, {}).items), ["e", "a", "b", "c", "d"])
  })

  it("counts the held changes of a stream among its pending ones", () => {
    const stream = streamView("greenhouse:acme", "ats.tag", { pending: { held: 8, absent: 1 } })
    const { held, pending } = rowOf(conditionOf(stream, defaultIntervals))
    assert.deepStrictEqual([held, pending], [8, 9])
  })

  it("has each matching row on exactly one page", () => {
    const rows = Array.from({ length: 25 }, (_, index) => row(`s${index}`, { records_live: index % 3 }))
    const found: Array<string> = []
    for (let after: string | null = "0"; after !== null;) {
      const page: ReturnType<typeof select> = select(rows, { order: "records", after: Number(after), limit: 10 })
      assert.strictEqual(page.total, 25)
      found.push(...names(page.items))
      after = page.next
    }
    assert.sameMembers(found, names(rows))
    assert.lengthOf(found, 25)
  })
})
