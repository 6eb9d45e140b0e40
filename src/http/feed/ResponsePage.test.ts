import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ResponsePage from "./ResponsePage.ts"

const mebibyte = 1024 * 1024

/** Numbers from 0 to below `end`; `sizeOf` gives the size of each. */
const pageOf = (end: number, limit: number, sizeOf: (row: number) => number, asked: Array<number> = []) =>
  ResponsePage.fill(
    limit,
    (last: number | undefined, count) => {
      asked.push(count)
      const first = (last ?? -1) + 1
      return Effect.succeed(Array.from({ length: Math.max(0, Math.min(count, end - first)) }, (_, i) => first + i))
    },
    (row) => "ü".repeat(sizeOf(row) / 2)
  ).pipe(Effect.map(({ full, rows }) => ({ full, rows: rows.length })))

describe("a page", () => {
  it.effect("ends after the last row, and is full if it has as many rows as requested", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* pageOf(0, 100, () => 2), { full: false, rows: 0 })
      assert.deepStrictEqual(yield* pageOf(60, 100, () => 2), { full: false, rows: 60 })
      assert.deepStrictEqual(yield* pageOf(100, 100, () => 2), { full: true, rows: 100 })
      assert.deepStrictEqual(yield* pageOf(1_000, 100, () => 2), { full: true, rows: 100 })
    }))

  it.effect("is full before it exceeds 8 MiB, and always has at least one row (I9)", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* pageOf(9, 100, () => mebibyte), { full: true, rows: 8 })
      assert.deepStrictEqual(yield* pageOf(8, 100, () => mebibyte), { full: false, rows: 8 })
      assert.deepStrictEqual(yield* pageOf(9, 100, () => 9 * mebibyte), { full: true, rows: 1 })
      assert.deepStrictEqual(yield* pageOf(1, 100, () => 9 * mebibyte), { full: false, rows: 1 })
    }))

  it.effect("is read in batches, and not beyond its last row (I9)", () =>
    Effect.gen(function*() {
      const asked: Array<number> = []
      yield* pageOf(1_000, 60, () => 2, asked)
      assert.deepStrictEqual(asked, [25, 35])
      asked.length = 0
      yield* pageOf(1_000, 300, () => 2, asked)
      assert.deepStrictEqual(asked, [25, 100, 100, 75])
      asked.length = 0
      yield* pageOf(1_000, 1_000, (row) => row === 30 ? 8 * mebibyte : 2, asked)
      assert.deepStrictEqual(asked, [25, 100])
    }))

  it.effect("is read in batches of about as many rows as fit (I9)", () =>
    Effect.gen(function*() {
      const asked: Array<number> = []
      yield* pageOf(1_000, 1_000, () => mebibyte / 4, asked)
      assert.deepStrictEqual(asked, [25, 7, 1])
    }))
})
