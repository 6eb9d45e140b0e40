/**
 * Random histories of one stream: with any changes, failed runs and decisions about holds, the log satisfies I1, I3, I4, I6
 * and I8. The oracle shares no code with capture.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import { type Rig, scenario } from "../../../test/support/capture/Rig.ts"
import { refuse, type Row, type ScriptedApi } from "../../../test/support/capture/ScriptedApi.ts"
import { runs } from "../../../test/support/Runs.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import * as Guard from "../../domain/Guard.ts"
import { Rejected, Transient } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"

const id = Schema.Literals(["a", "b", "c", "d", "e"])
const title = Schema.NullOr(Schema.Literals(["x", "y", "z"]))
const page = Schema.Literals([0, 1, 2])
const Step = Schema.Union([
  Schema.TaggedStruct("put", { id, title }),
  Schema.TaggedStruct("silent", { id, title }),
  Schema.TaggedStruct("flag", { id }),
  Schema.TaggedStruct("vanish", { id }),
  /** The same change on every record at once. */
  Schema.TaggedStruct("wave", { what: Schema.Literals(["flag", "vanish", "null", "value"]) }),
  Schema.TaggedStruct("wait", { minutes: Schema.Literals([1, 3, 11, 400]) }),
  Schema.TaggedStruct("poll", {}),
  Schema.TaggedStruct("sweep", {}),
  Schema.TaggedStruct("confirm", {}),
  Schema.TaggedStruct("decide", { on: Schema.Literals(["approve", "reject"]) }),
  /** The next runs have this fault on page `page`, until `clear`. */
  Schema.TaggedStruct("fault", {
    page,
    kind: Schema.Literals(["broken", "expired", "skipped", "empty", "repeated", "stale", "nameless", "filterEmpty"])
  }),
  Schema.TaggedStruct("move", { id, title, page }),
  Schema.TaggedStruct("clear", {})
])
type Step = typeof Step.Type

const quietly = Effect.ignore
/** Thresholds so low that five records can form a wave. */
const guard: Guard.Thresholds = { ...Guard.defaultThresholds, smallCount: 3, scopeCount: 2 }

const apply = Effect.fnUntraced(function*(rig: Rig, step: Step, memory: Map<string, Row>) {
  const { api } = rig
  const put = (row: Row, silent: boolean) => {
    const known = api.rows.get(row.id)?.row
    if (known !== undefined) memory.set(row.id, structuredClone(known))
    return rig.put({ source: "s", ...row }, { silent: silent && known !== undefined })
  }
  switch (step._tag) {
    case "put":
      return yield* put({ id: step.id, title: step.title }, false)
    case "silent":
      return yield* put({ id: step.id, title: step.title }, true)
    case "flag":
      return api.rows.has(step.id) ? yield* rig.flag(step.id) : undefined
    case "vanish":
      return api.vanish(step.id)
    case "wave":
      for (const id of api.rows.keys()) {
        if (step.what === "flag") yield* rig.flag(id)
        else if (step.what === "vanish") api.vanish(id)
        else yield* put({ id, title: step.what === "null" ? null : "x" }, false)
      }
      return
    case "wait":
      return yield* rig.wait(`${step.minutes} minutes`)
    case "poll":
      return yield* quietly(rig.poll)
    case "sweep":
      return yield* quietly(rig.sweep)
    case "confirm":
      return yield* quietly(rig.confirm)
    case "decide":
      for (const { id } of yield* rig.holds) yield* rig[step.on](id)
      return
    case "clear":
      api.intercept = (_, answer) => answer
      api.meanwhile = () => {}
      return
    case "move":
      api.meanwhile = (request) => {
        if (request.cursor !== (step.page === 0 ? null : String(step.page)) || request.ids !== null) return
        api.meanwhile = () => {}
        api.put(Date.parse("2026-03-01T12:00:00Z") + 60_000, { id: step.id, title: step.title, source: "s" })
      }
      return
    case "fault": {
      const shown = new Set<string>()
      api.intercept = (request, answer) => {
        if (request.cursor === null) shown.clear()
        for (const row of answer.results) shown.add((row as Row).id)
        const first = request.cursor === null ? 0 : Number.parseInt(request.cursor, 10)
        if (step.kind === "filterEmpty") {
          return request.ids === null ? answer : { ...answer, results: [] }
        }
        if (first !== step.page || request.ids !== null) return answer
        switch (step.kind) {
          case "broken":
            return refuse(new Transient({ code: null, message: "502" }))
          case "expired":
            return refuse(new Rejected({ code: null, message: "400" }))
          case "skipped":
            return { ...answer, results: answer.results.slice(1) }
          case "empty":
            return { ...answer, results: [], next: null }
          case "repeated":
            return { ...answer, results: [...answer.results, ...answer.results] }
          case "stale":
            // P3: an older copy of a record that this run has already read. An older copy before the newer one, with
            // the same changed_at, cannot be distinguished from a change.
            return {
              ...answer,
              results: [...answer.results, ...[...shown].flatMap((id) => memory.get(id) ?? []).slice(0, 1)]
            }
          default:
            return { ...answer, results: [{ title: "without id" }, ...answer.results] }
        }
      }
      return
    }
  }
})

const content = (value: unknown): string => {
  const { changed_at: _, ...rest } = value as Record<string, unknown>
  return JSON.stringify(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Checks I3, I4 and gap-free positions; returns the records that result from the events. */
const fold = (entries: ReadonlyArray<LogEntry>): Map<string, string> => {
  const latest = new Map<string, { version: number; after: string | null }>()
  const ids = new Map<string, string>()
  entries.forEach((entry, index) => {
    const before = latest.get(entry.id)
    assert.strictEqual(entry.position, index + 1)
    assert.strictEqual(entry.version, (before?.version ?? 0) + 1, "gap-free versions")
    assert.strictEqual(entry.kind === "created", (before?.after ?? null) === null, `${entry.kind} of ${entry.id}`)
    assert.strictEqual(entry.before, before?.after ?? null, "before is the previous after")
    assert.strictEqual(entry.after === null, entry.kind === "deleted")
    if (entry.kind === "updated") {
      assert.notStrictEqual(content(JSON.parse(entry.before!)), content(JSON.parse(entry.after!)))
    }
    const known = ids.get(entry.eventId)
    if (known !== undefined) assert.strictEqual(known, entry.after, "an event id carries one content")
    ids.set(entry.eventId, entry.after ?? "")
    latest.set(entry.id, { version: entry.version, after: entry.after })
  })
  return new Map([...latest].flatMap(([id, { after }]) => after === null ? [] : [[id, content(JSON.parse(after))]]))
}

/** All states of each record, in order; null if it is gone or deleted. */
const remembering = (api: ScriptedApi): ReadonlyMap<string, ReadonlyArray<string | null>> => {
  const histories = new Map<string, Array<string | null>>()
  const note = (id: string, was: string | null) => histories.set(id, [...(histories.get(id) ?? []), was])
  const { flag, put, vanish } = api
  Object.assign(api, {
    put: (...args: Parameters<typeof put>) => {
      put(...args)
      note(args[1].id, content(api.rows.get(args[1].id)!.row))
    },
    flag: (...args: Parameters<typeof flag>) => {
      flag(...args)
      note(args[1], null)
    },
    vanish: (id: string) => {
      vanish(id)
      note(id, null)
    }
  })
  return histories
}

/** The published states of a record are states it had, in order: it never returns to an earlier state. */
const assertSubsequence = (entries: ReadonlyArray<LogEntry>, histories: ReturnType<typeof remembering>): void => {
  const reached = new Map<string, number>()
  for (const entry of entries) {
    // The record was never read as live: its content is that of the tombstone.
    if (entry.reason === "unseen" && entry.kind === "created") continue
    const published = entry.after === null ? null : content(JSON.parse(entry.after))
    const at = (histories.get(entry.id) ?? []).indexOf(published, reached.get(entry.id) ?? 0)
    assert.isAtLeast(at, 0, `${entry.kind} ${entry.version} of ${entry.id} was never true after what came before it`)
    reached.set(entry.id, at + 1)
  }
}

describe("random histories", () => {
  it.effect.prop(
    "the log contains every change and no other (I1, I3, I4, I6, I8)",
    [Schema.Array(Step)],
    ([steps]) =>
      scenario(function*(rig) {
        const memory = new Map<string, Row>()
        const histories = remembering(rig.api)
        rig.api.pageSize = 1
        yield* rig.fill(...["a", "b"].map((id) => ({ id, title: "x", source: "s" })))
        let watermark = (yield* rig.state).watermark!
        for (const step of steps) {
          yield* apply(rig, step, memory)
          const now = (yield* rig.state).watermark!
          assert.isAtLeast(now, watermark, "the watermark never goes back")
          watermark = now
        }
        yield* apply(rig, { _tag: "clear" }, memory)
        // A record that always exists: without a live record no confirm can count.
        yield* rig.put({ id: "control", title: "x", source: "s" })
        // Every open or rejected hold is approved.
        for (let round = 0; round < 3; round++) {
          for (const run of [rig.poll, rig.sweep, rig.confirm, rig.poll]) {
            yield* rig.wait("11 minutes")
            yield* run
          }
          yield* apply(rig, { _tag: "decide", on: "approve" }, memory)
        }
        const store = yield* Store
        const entries = yield* store.readLog({ after: 0, limit: 1000 })
        assertSubsequence(entries, histories)
        const truth = [...rig.api.rows.values()].filter((stored) => stored.row["remote_deleted_at"] === null)
          .map((stored) => [stored.row.id, content(stored.row)] as const)
        const sorted = (contents: Iterable<readonly [string, string]>) => Object.fromEntries([...contents].sort())
        assert.deepStrictEqual(sorted(fold(entries)), sorted(truth))
        assert.deepStrictEqual(yield* rig.pending, {})
        assert.deepStrictEqual(yield* rig.holds, [])
      }, { guard }).pipe(Effect.provideService(References.MinimumLogLevel, "None")),
    { arbitrary: { runs: runs(30), size: 40 } }
  )
})
