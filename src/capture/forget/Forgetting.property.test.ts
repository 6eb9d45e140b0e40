/**
 * Random histories of applications and offers of two candidates, who are forgotten and allowed again, by processes that are restarted
 * also in the middle. The oracle has the records as the API shows them, and shares no code with the removal.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import {
  apply,
  entries,
  forgetNow,
  integration,
  offer,
  scenario,
  startProcess,
  type World
} from "../../../test/support/capture/ForgettingWorld.ts"
import type * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { runs } from "../../../test/support/Runs.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import type { ForgettableRecord } from "../../domain/Forgotten.ts"
import { Store } from "../../store/Store.ts"

const names = ["ann", "bob"] as const
const Target = Schema.Literals(["ats.candidate/c-ann", "ats.candidate/c-bob", "ats.application/a1", "ats.offer/o1"])
const Step = Schema.Union([
  Schema.TaggedStruct("apply", {
    id: Schema.Literals(["a1", "a2", "a3"]),
    name: Schema.Literals(names),
    outcome: Schema.Literals(["PENDING", "HIRED", "DECLINED"])
  }),
  Schema.TaggedStruct("offer", { id: Schema.Literals(["o1", "o2"]), name: Schema.Literals(names) }),
  Schema.TaggedStruct("flag", { id: Schema.Literals(["a1", "a2"]) }),
  Schema.TaggedStruct("forget", { target: Target, ending: Schema.Literals(["wait", "wait", "restart"]) }),
  Schema.TaggedStruct("allow", { target: Target }),
  Schema.TaggedStruct("sweep", {}),
  Schema.TaggedStruct("restart", {})
])
type Step = typeof Step.Type

const recordOf = (target: typeof Target.Type): ForgettableRecord => {
  const [model, id] = target.split("/") as [ForgettableRecord["model"], string]
  return { integration, model, id }
}

type Process = Effect.Success<typeof startProcess>

const sweep = (process: Process) =>
  Effect.forEach(["ats.application", "ats.offer"] as const, (model) => process.capture.sweep({ integration, model }))

const run = Effect.fnUntraced(function*(world: World, process: Process, step: Step) {
  const now = yield* Clock.currentTimeMillis
  switch (step._tag) {
    case "apply":
      apply(world, step.id, step.name, now, { outcome: step.outcome })
      break
    case "offer":
      offer(world, step.id, step.name, now)
      break
    case "flag":
      if (world.applications.rows.has(step.id)) world.applications.flag(now, step.id)
      break
    case "sweep":
      yield* sweep(process)
      break
    case "allow":
      yield* Effect.ignore(process.allow(recordOf(step.target)))
      break
    case "forget": {
      const record = recordOf(step.target)
      if (step.ending === "wait") yield* Effect.ignore(forgetNow(process, record))
      else {
        // the process ends right after the request is committed
        const store = yield* Store
        const requested = { ...record, state: "erasing", requestedAt: now, doneAt: null, progress: null } as const
        yield* store.requestForgetting(process.capture.ownerOf(integration), requested, {
          at: now,
          command: "forget",
          target: "",
          detail: ""
        })
      }
      break
    }
    case "restart":
      break
  }
  if (step._tag !== "restart" && !(step._tag === "forget" && step.ending === "restart")) {
    yield* TestClock.adjust("3 minutes")
    return process
  }
  yield* process.stop
  return yield* startProcess
})

/** Per record: created, updated, deleted in turn, versions that rise by one, and each `before` is the `after` before it. */
const assertLives = (log: ReadonlyArray<LogEntry>) => {
  for (const own of Map.groupBy(log, ({ id, model }) => `${model}/${id}`).values()) {
    let last: LogEntry | null = null
    for (const entry of own) {
      const { after, before, id, kind, reason, version } = entry
      const isForgotten = kind === "deleted" && reason === "forgotten"
      const where = `${id} ${version} ${kind} ${reason}`
      if (last === null) assert.isTrue(kind === "created" || kind === "deleted", where)
      else {
        // the rows before a delete may be empty by now, and are not read
        assert.isTrue(version === last.version + 1 || isForgotten || kind === "deleted", where)
        assert.strictEqual(kind === "created", last.kind === "deleted", where)
        if (before !== null) assert.strictEqual(before, last.after, where)
      }
      assert.strictEqual(after === null, kind === "deleted", where)
      if (isForgotten) assert.deepStrictEqual([before, entry.changes], [null, "[]"], where)
      last = entry
    }
  }
}

const isHidden = (forgotten: ReadonlySet<string>, model: string, id: unknown) => forgotten.has(`${model}/${String(id)}`)

/** The rows as they should be stored, in the order of their ids. */
const expected = (api: Scripted.ScriptedApi, model: string, forgotten: ReadonlySet<string>) =>
  [...api.rows.values()].map(({ row }): Record<string, any> => structuredClone(row))
    .filter((row) => row["remote_deleted_at"] === null && !isHidden(forgotten, model, row["id"]))
    .map((row) => {
      if (isHidden(forgotten, "ats.candidate", row["candidate"]?.id)) row["candidate"] = null
      if (isHidden(forgotten, "ats.application", row["application_id"])) row["application"] = null
      if (isHidden(forgotten, "ats.candidate", row["application"]?.candidate?.id)) row["application"].candidate = null
      return row
    }).sort((a, b) => a["id"] < b["id"] ? -1 : 1)

/** `changed_at` alone makes no change. */
const withoutTimes = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, inner) => key === "changed_at" ? undefined : inner))

describe("forgetting in random histories", () => {
  it.effect.prop(
    "leaves no byte of a forgotten candidate, keeps every life consistent, and ends with the API's other content (I3, I8, I11)",
    [Schema.Array(Step)],
    ([steps]) =>
      scenario(function*(world) {
        const store = yield* Store
        let process = yield* startProcess
        for (const step of steps) {
          process = yield* run(world, process, step)
          const known = yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), store.forgotten), {
            until: (all) => all.every(({ state }) => state === "forgotten"),
            times: 60
          })
          assert.isTrue(known.every(({ state }) => state === "forgotten"))
          for (const name of names) {
            if (!known.some(({ id }) => id === `c-${name}`)) continue
            assert.strictEqual(world.inFiles(`${name}@people`), 0, `${name} after ${JSON.stringify(step)}`)
          }
        }
        for (let again = 0; again < 2; again++) {
          yield* sweep(process)
          yield* TestClock.adjust("3 minutes")
        }
        assertLives(yield* entries)
        const forgotten = new Set((yield* store.forgotten).map(({ id, model }) => `${model}/${id}`))
        const lists = [["ats.application", world.applications], ["ats.offer", world.offers]] as const
        for (const [model, api] of lists) {
          const { records } = yield* store.records({ integration, model }, null, 100)
          assert.deepStrictEqual(
            records.map(({ content }) => withoutTimes(JSON.parse(content))),
            expected(api, model, forgotten).map(withoutTimes)
          )
          const { differing } = yield* process.capture.audit({ integration, model })
          assert.strictEqual(differing, 0, model)
        }
        const before = (yield* entries).length
        yield* sweep(process)
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual((yield* entries).length, before)
      }),
    { arbitrary: { runs: runs(8), size: 12 } }
  )
})
