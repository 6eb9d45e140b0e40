import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { integration, running, stateOf } from "../../../test/support/capture/Capturing.ts"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { Forbidden, Transient } from "../../source/Source.ts"
import type { EndedRun } from "../../store/Run.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "../schedule/Capture.ts"

const minute = 60_000
const model = "ats.application"
const runsOf = (key: { readonly integration: string; readonly model: string }) =>
  Effect.flatMap(Store, (store) => store.runs(key as Parameters<typeof store.runs>[0]))
const history = ({ stream }: Rig) => runsOf(stream.key)
const captured = runsOf({ integration, model })

const short = ({ kind, outcome, published }: EndedRun) => [
  kind,
  outcome,
  ...published === undefined ? [] : [`${published.created} ${published.updated} ${published.deleted}`]
]

describe("the history of a stream's runs", () => {
  it.effect("has each run that found something, with what it read and published", () =>
    scenario(function*(rig) {
      yield* rig.backfill(...["a", "b", "c"].map((id) => ({ id, outcome: "PENDING" })))
      yield* rig.put({ id: "a", outcome: "DECLINED" })
      yield* rig.put({ id: "d", outcome: "PENDING" })
      yield* rig.flag("b")
      rig.api.pageSize = 2
      yield* rig.poll
      const [poll, sweep, ...others] = yield* history(rig)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(sweep, {
        number: 1,
        id: 1,
        kind: "sweep",
        backfill: true,
        outcome: "complete",
        published: { created: 3, updated: 0, deleted: 0 },
        idle: null
      })
      // a delete is published at the end of the run
      assert.deepInclude(poll, {
        number: 2,
        kind: "poll",
        startedAt: start + minute,
        endedAt: start + minute,
        published: { created: 1, updated: 1, deleted: 1 }
      })
      assert.deepStrictEqual([poll?.rowCounts.read, poll?.pages], [4, 2])
      assert.deepStrictEqual((yield* rig.state).lastPoll?.published, poll?.published)
    }))

  it.effect("counts the polls that found nothing new, and says between which runs they were", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", outcome: "PENDING" })
      // the overlap still covers the record
      for (let polls = 0; polls < 8; polls++) {
        yield* rig.wait("1 minute")
        yield* rig.poll
      }
      const { idlePolls } = yield* rig.state
      assert.deepStrictEqual(idlePolls, { polls: 8, read: 7, since: start + minute, until: start + 8 * minute })
      yield* rig.change({ id: "b", outcome: "PENDING" })
      assert.deepStrictEqual((yield* history(rig)).map(({ idle }) => idle), [idlePolls!, null])
      assert.isUndefined((yield* rig.state).idlePolls)
    }))

  it.effect("does not list a poll again because rows of a hold or unreadable rows are read again", () =>
    scenario(function*(rig) {
      for (let index = 0; index < 20; index++) yield* rig.put({ id: `r${index}`, outcome: "PENDING" })
      yield* rig.sweep
      yield* rig.wait("10 minutes")
      yield* rig.poll
      for (let index = 0; index < 19; index++) yield* rig.flag(`r${index}`)
      for (let polls = 0; polls < 3; polls++) {
        yield* rig.poll
        yield* rig.wait("1 second")
      }
      assert.strictEqual((yield* rig.holds).length, 1)
      const [held, ...others] = yield* history(rig)
      assert.strictEqual(held?.rowCounts.pending, 19)
      assert.deepStrictEqual(others.map(short), [["sweep", "complete", "20 0 0"]])
    }))

  it.effect("has a poll whose last page is empty, if an earlier one was not", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "zero", outcome: "PENDING" })
      yield* rig.wait("30 minutes")
      yield* rig.poll
      yield* rig.poll
      yield* rig.put({ id: "a", outcome: "PENDING" })
      rig.api.intercept = ({ cursor }, answer) =>
        cursor === null ? { ...answer, next: "1" } : { ...answer, results: [], next: null }
      yield* rig.poll
      assert.deepStrictEqual(short((yield* history(rig))[0]!), ["poll", "complete", "1 0 0"])
    }))

  it.effect("has failures in a row as one entry, with the newest message and how far the run came", () =>
    running([model], function*(api) {
      yield* TestClock.adjust("5 minutes")
      const before = yield* captured
      let message = "502"
      api.pageSize = 1
      api.intercept = ({ cursor }, answer) =>
        cursor === null ? { ...answer, next: "1" } : refuse(new Transient({ code: null, message }))
      yield* TestClock.adjust("3 minutes")
      message = "503"
      yield* TestClock.adjust("10 minutes")
      const { failing } = yield* stateOf(model)
      const [failed, ...others] = yield* captured
      assert.deepStrictEqual(others, before)
      assert.deepInclude(failed, { kind: "poll", outcome: "failed", times: failing!.count, pages: 1 })
      assert.include(failed?.reason, "503")
      assert.isAbove(failing!.count, 2)
      assert.isAtLeast(failed!.endedAt - failed!.startedAt, 3 * minute)
      // after a poll that works, a failure is another entry
      api.intercept = (_, answer) => answer
      yield* TestClock.adjust("30 minutes")
      api.intercept = () => refuse(new Forbidden({ code: "X", message: "not allowed" }))
      yield* TestClock.adjust("40 minutes")
      const [blocked, ...rest] = yield* captured
      assert.deepInclude(blocked, { outcome: "blocked", pages: 0 })
      assert.include(blocked?.reason, "not allowed")
      assert.isAbove(blocked!.times, 1)
      assert.isAbove(blocked!.idle?.polls ?? 0, 10)
      assert.deepStrictEqual(rest, [failed!, ...others])
    }))

  it.effect("has a sweep that an operator's sweep replaced, as far as it came", () =>
    running([model], function*(api) {
      yield* TestClock.adjust("5 minutes")
      const { execute } = yield* Capture
      const key = { integration, model } as const
      api.pageSize = 1
      api.intercept = ({ cursor, updatedAfter }, answer) =>
        updatedAfter === null && cursor !== null ? Effect.never : answer
      yield* execute(key, { kind: "sweep" })
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* stateOf(model)).sweep?.pages, 1)
      yield* execute(key, { kind: "sweep" })
      const [replaced] = yield* captured
      assert.deepInclude(replaced, { kind: "sweep", outcome: "replaced", pages: 1 })
    }))
})
