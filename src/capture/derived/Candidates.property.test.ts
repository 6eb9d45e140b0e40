/**
 * Random histories of applications with few candidates, in random order and pages. The oracle has the applications as
 * the API returns them, and shares no code with the derivation.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import { type Rig, scenario } from "../../../test/support/capture/Rig.ts"
import { runs } from "../../../test/support/Runs.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import * as Guard from "../../domain/Guard.ts"
import * as Processing from "../../domain/Processing.ts"

const id = Schema.Literals(["a", "b", "c", "d"])
const who = Schema.NullOr(Schema.Literals(["x", "y"]))
const title = Schema.Literals(["1", "2", "3"])
/** Minutes after the epoch. */
const changed = Schema.Literals([1, 2, 3, 4, 5])
const Step = Schema.Union([
  Schema.TaggedStruct("put", { id, who, title, changed, deleted: Schema.Literals([false, false, true]) }),
  Schema.TaggedStruct("flag", { id }),
  Schema.TaggedStruct("vanish", { id }),
  Schema.TaggedStruct("read", { by: Schema.Literals(["poll", "sweep", "confirm"]) }),
  Schema.TaggedStruct("pages", { size: Schema.Literals([1, 2, 10]) })
])
type Step = typeof Step.Type

const instant = (minutes: number) => new Date(minutes * 60_000).toISOString()

const apply = (rig: Rig, step: Step): Effect.Effect<unknown, never, never> => {
  switch (step._tag) {
    case "put": {
      const { deleted, who } = step
      const marks = {
        changed_at: instant(step.changed),
        remote_created_at: instant(0),
        remote_deleted_at: deleted ? instant(step.changed) : null
      }
      return rig.put({
        id: step.id,
        outcome: "PENDING",
        candidate: who === null ? null : { id: who, title: step.title, tags: [], ...marks }
      })
    }
    case "flag":
      return rig.api.rows.has(step.id) ? rig.flag(step.id) : Effect.void
    case "vanish":
      return Effect.sync(() => rig.api.vanish(step.id))
    case "pages":
      return Effect.sync(() => {
        rig.api.pageSize = step.size
      })
    default:
      return Effect.void
  }
}

const changedAt = (content: string): number => Date.parse(JSON.parse(content).changed_at)

/** Checks I3, I4 and N5: `changed_at` never decreases. */
const assertLives = (entries: ReadonlyArray<LogEntry>) => {
  const last = new Map<string, { readonly version: number; readonly after: string | null; readonly newest: number }>()
  for (const { after, before, id, kind, version } of entries) {
    const known = last.get(id) ?? { version: 0, after: null, newest: -Infinity }
    assert.strictEqual(version, known.version + 1)
    assert.strictEqual(kind === "created", known.after === null)
    assert.strictEqual(before, known.after)
    assert.strictEqual(after === null, kind === "deleted")
    const at = after === null ? known.newest : changedAt(after)
    assert.isAtLeast(at, known.newest, `${id} ${version} went back`)
    last.set(id, { version, after, newest: at })
  }
  return last
}

interface Copy {
  readonly parent: string
  readonly candidate: {
    readonly id: string
    readonly title: string
    readonly changed_at: string
    readonly deleted: boolean
  }
}

/** Copies in live applications, the preferred one first. */
const copiesOf = (rig: Rig, who: string): ReadonlyArray<Copy> =>
  [...rig.api.rows.values()].flatMap(({ row }) => {
    const candidate = row["candidate"] as
      | { id: string; title: string; changed_at: string; remote_deleted_at: unknown }
      | null
    if (row["remote_deleted_at"] !== null || candidate?.id !== who) return []
    return [{ parent: row.id, candidate: { ...candidate, deleted: candidate.remote_deleted_at !== null } }]
  }).sort((a, b) =>
    a.candidate.changed_at === b.candidate.changed_at
      ? a.parent < b.parent ? -1 : 1
      : a.candidate.changed_at > b.candidate.changed_at
      ? -1
      : 1
  )

/** The latest `changed_at` of a candidate in all published applications. */
const newestOf = (events: ReadonlyArray<LogEntry>, who: string): number =>
  Math.max(...events.flatMap(({ after, model }) => {
    const candidate = model === "ats.application" && after !== null ? JSON.parse(after).candidate : null
    return candidate?.id === who ? [Date.parse(candidate.changed_at)] : []
  }))

describe("candidates of random application histories", () => {
  it.effect.prop(
    "each candidate has one lifecycle, never goes back in time, and ends with the preferred copy (N5, N6, I3, I4)",
    [Schema.Array(Step)],
    ([steps]) =>
      scenario(function*(rig) {
        yield* rig.fill({ id: "control", candidate: null })
        for (const step of steps) {
          yield* rig.wait("1 minute")
          yield* apply(rig, step)
          if (step._tag === "read") yield* rig[step.by]
        }
        for (const run of [rig.poll, rig.sweep, rig.confirm, rig.poll, rig.sweep]) {
          yield* rig.wait("11 minutes")
          yield* run
        }
        const events = yield* rig.events
        const entries = events.filter(({ model }) => model === "ats.candidate")
        const last = assertLives(entries)
        for (const who of ["x", "y"]) {
          const [first] = copiesOf(rig, who)
          const copy = first?.candidate
          // a candidate that no application contains now, or only as an older copy, stays as it was
          if (copy === undefined || Date.parse(copy.changed_at) < newestOf(events, who)) continue
          // an application with only changed timestamps is unchanged, so its candidate keeps the older changed_at
          const shown = events.findLast(({ id, model }) => model === "ats.application" && id === first?.parent)?.after
          if (JSON.parse(shown ?? "{}").candidate?.changed_at !== copy.changed_at) continue
          const after = last.get(who)?.after ?? null
          if (copy.deleted) assert.isNull(after, `${who} is deleted`)
          else assert.strictEqual(JSON.parse(after ?? "{}").title, copy.title, `published content of ${who}`)
        }
        assert.isTrue(entries.every(({ reason }) => reason !== "erased" && reason !== "absent"))
      }, {
        derivedProcessing: Processing.defaultProcessing("ats.candidate"),
        guard: {
          ...Guard.defaultThresholds,
          smallCount: 1000,
          count: 1000,
          share: 1,
          smallShare: 1,
          scopeCount: 1000
        }
      }).pipe(Effect.provideService(References.MinimumLogLevel, "None")),
    { arbitrary: { runs: runs(30), size: 40 } }
  )
})
