import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { acme, make, type Rig, unknownOutcome } from "../../../test/support/delivery/Rig.ts"
import { listsOnly } from "../../../test/support/source/Doubles.ts"
import { hooked } from "../../../test/support/source/Hooked.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import * as MemoryJournal from "../../testing/MemoryJournal.ts"
import * as Attempt from "./Attempt.ts"
import * as StepJournal from "./StepJournal.ts"
import * as WriteBack from "./WriteBack.ts"

const trigger = "ats.application.created"
const failing = new Plugin.Transient({ message: "not yet" })
const tag = { tag: { name: "met" } }
const link = { label: "Result", url: "https://x.example" }

/** Fails `fails` times, then succeeds. */
const then = (fails: number) => {
  let left = fails
  return Effect.suspend(() => left-- > 0 ? failing : Effect.void)
}
const one = (rig: Rig) => Effect.andThen(rig.append("a1"), Effect.void)
const lettersOf = (rig: Rig) =>
  Effect.map(
    rig.deliveries.deadLetters({ limit: 100 }),
    (letters) => letters.map(({ failure }) => [failure.reason, failure.refusal])
  )
const later = TestClock.adjust("10 minutes")

/** An attempt with its journal in memory. */
const attemptInMemory = () => {
  const plugin = Plugin.make("p", { needs: { writes: ["addTag"] } }).on(trigger, {}, () => Effect.void)
  const [handler] = plugin.handlers
  const state: MemoryJournal.JournalState = { rows: [], newest: { delivery: 1, claim: 1 }, counted: new Map() }
  const stored = MemoryJournal.make(state, {
    content: () => Effect.succeed(null),
    applicationsOf: () => Effect.succeed([])
  })
  const attempt = Attempt.make({
    subscription: { key: 1, plugin, handler: handler!, batchWindow: 0 },
    fence: { owner: { scope: "deliveries/0", epoch: 1 }, delivery: 1, claim: 1 },
    integration: acme,
    dedupKeys: ["e1"],
    record: { model: "ats.application", id: "a1" },
    depth: 1
  }, stored)
  return { attempt, state, stored }
}

describe("a write", () => {
  it.effect("a write with a response is not sent again: the next attempt gets the response (L4)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = (_, count) => Effect.succeed({ id: `e${count}` })
      const ids: Array<string> = []
      const fails = then(2)
      const plugin = Plugin.make("p", { needs: { writes: ["createEmployee"] } }).on(
        trigger,
        {},
        () =>
          Effect.gen(function*() {
            const api = yield* Plugin.Api.for("workday:acme")
            const { id } = yield* api.createEmployee({ staffing_entity_id: "s", properties: {} })
            ids.push(id ?? "")
            yield* fails
          })
      )
      yield* rig.start([plugin])
      yield* one(rig)
      yield* rig.until(() => ids.length === 1)
      yield* later
      yield* rig.empty
      assert.deepStrictEqual(ids, ["e1", "e1", "e1"])
      assert.deepStrictEqual(rig.sent.map(({ integration, write }) => [integration, write]), [[
        "workday:acme",
        "createEmployee"
      ]])
      assert.deepStrictEqual(rig.reads, ["employeeForm"])
    }))

  it.effect("a write of unknown outcome that must not happen twice is never repeated (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = () => unknownOutcome
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).on(
        trigger,
        {},
        ({ recordId }) =>
          Effect.gen(function*() {
            const api = yield* Plugin.Api
            // a retry by the handler is still the same write
            yield* Effect.retry(Effect.suspend(() => api.addResultLink(recordId, link)), { times: 3 })
          })
      )
      yield* rig.start([plugin])
      yield* one(rig)
      yield* rig.dead(1)
      assert.strictEqual(rig.sent.length, 1)
      assert.deepStrictEqual(yield* lettersOf(rig), [["Permanent", "OutcomeUnknown"]])
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 1 })
      const detail = yield* rig.deliveries.deadLetterDetail(letter?.id ?? 0)
      assert.deepStrictEqual(detail?.journal.map(({ done, write }) => [write, done]), [["addResultLink", false]])
      assert.deepStrictEqual(detail?.failedAttempts[0]?.requests.map(({ outcome, what }) => [what, outcome]), [[
        "addResultLink",
        "unknown"
      ]])
    }))

  it.effect("a write of unknown outcome is not followed by one with different content in the same attempt (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = () => unknownOutcome
      const plugin = Plugin.make("p", { needs: { writes: ["createEmployee"] } }).on(
        "ats.application.hired",
        {},
        () =>
          Effect.gen(function*() {
            const hris = yield* Plugin.Api.for("workday:acme")
            yield* hris.createEmployee({ properties: { name: "first" } }).pipe(
              Effect.catch(() => hris.createEmployee({ properties: { name: "second" } }))
            )
          })
      )
      yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* rig.dead(1)
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 1 })
      assert.strictEqual(letter?.failure.refusal, "OutcomeUnknown")
      assert.lengthOf(rig.sent, 1)
    }))

  const tagging = Plugin.make("p", { needs: { writes: ["addTag"] } }).on(
    trigger,
    {},
    () => Effect.flatMap(Plugin.Api, (api) => api.addTag("c1", tag))
  )
  const showing = (names: ReadonlyArray<string>) => [
    { id: "a1", candidate: { id: "c1", tags: names.map((name) => ({ name })) } }
  ]

  it.effect("a write of unknown outcome is sent again if the API does not show its effect after a while (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = (_, count) => count === 1 ? unknownOutcome : Effect.succeed({})
      rig.script.rows = showing([])
      yield* rig.start([tagging])
      yield* rig.append("a1", { shows: "c1" })
      yield* rig.until(() => rig.sent.length === 1)
      yield* TestClock.adjust("2 seconds")
      yield* rig.until(() => rig.reads.length === 1)
      yield* TestClock.adjust("4 minutes")
      assert.strictEqual(rig.sent.length, 1)
      yield* later
      yield* rig.empty
      assert.strictEqual(rig.sent.length, 2)
    }))

  it.effect("a write of unknown outcome is neither sent again nor kept waiting if the clock was set back far since it was sent (W4, L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = (_, count) => count === 1 ? unknownOutcome : Effect.succeed({})
      rig.script.rows = showing([])
      yield* TestClock.setTime(Duration.toMillis("365 days"))
      const first = yield* rig.start([tagging])
      yield* rig.append("a1", { shows: "c1" })
      yield* rig.until(() => rig.deliveries.backlog, ([own]) => own?.later === 1)
      yield* first.stop
      yield* TestClock.setTime(Duration.toMillis("30 days"))
      yield* rig.start([tagging])
      yield* rig.dead(1)
      assert.strictEqual(rig.sent.length, 1)
      assert.deepStrictEqual(yield* lettersOf(rig), [["Permanent", "OutcomeUnknown"]])
    }))

  for (const created of ["2026-03-01T11:47:00.000Z", "2026-03-01T13:47:00+02"]) {
    it.effect(`a new application of ${created} is found even if the API's clock is far behind ours (W4, W9, L5)`, () =>
      Effect.gen(function*() {
        const rig = yield* make
        const candidate = { first_name: "A", last_name: "B", email_address: "a@example.com" }
        const plugin = Plugin.make("p", { needs: { writes: ["createApplication"] } }).on(
          trigger,
          {},
          () => Effect.flatMap(Plugin.Api, (api) => api.createApplication("j", { candidate }))
        )
        yield* TestClock.setTime(Date.parse("2026-03-01T12:00:00Z"))
        rig.script.offset = -13 * 60_000
        rig.script.rows = [{
          id: "new",
          job_id: "j",
          remote_created_at: created,
          candidate: { ...candidate, email_addresses: [{ email_address: candidate.email_address }] }
        }]
        rig.script.answer = () => unknownOutcome
        yield* rig.start([plugin])
        yield* one(rig)
        yield* rig.until(() => rig.sent.length === 1)
        yield* later
        yield* rig.empty
        assert.strictEqual(rig.sent.length, 1)
      }))
  }

  it.effect("an empty list proves nothing, and neither do two matches: the full list is searched, and otherwise an operator decides (C6, L5)", () =>
    Effect.gen(function*() {
      const candidate = { first_name: "A", last_name: "B", email_address: "a@example.com" }
      const plugin = Plugin.make("p", { needs: { writes: ["createApplication"] } }).on(
        trigger,
        {},
        () => Effect.flatMap(Plugin.Api, (api) => api.createApplication("j", { candidate }))
      )
      const shown = {
        id: "new",
        job_id: "j",
        candidate: { ...candidate, email_addresses: [{ email_address: candidate.email_address }] }
      }
      const cases: ReadonlyArray<[rows: ReadonlyArray<unknown>, letters: Array<Array<string | null>>]> = [
        [[shown], []],
        [[], [["Permanent", "OutcomeUnknown"]]],
        [[shown, { ...shown, id: "other" }], [["Permanent", "OutcomeUnknown"]]]
      ]
      for (const [rows, letters] of cases) {
        const rig = yield* make
        rig.script.mute = true
        rig.script.rows = rows
        rig.script.answer = () => unknownOutcome
        yield* rig.start([plugin])
        yield* one(rig)
        yield* rig.until(() => rig.sent.length === 1)
        yield* later
        yield* letters.length === 0 ? rig.empty : rig.dead(1)
        assert.deepStrictEqual(yield* lettersOf(rig), letters)
        assert.strictEqual(rig.sent.length, 1)
      }
    }))

  it.effect("a write whose outcome cannot be verified is a dead letter (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = () => unknownOutcome
      yield* rig.start([tagging])
      yield* one(rig)
      yield* rig.until(() => rig.sent.length === 1)
      yield* later
      yield* rig.dead(1)
      assert.deepStrictEqual(yield* lettersOf(rig), [["Permanent", "OutcomeUnknown"]])
      assert.strictEqual(rig.sent.length, 1)
    }))

  it.effect("a write is not sent, and leaves no intent, if its attempt ends while the intent is committed (X16)", () =>
    Effect.gen(function*() {
      const { attempt, state, stored } = attemptInMemory()
      let sent = 0
      const write = WriteBack.make({
        accounts: { of: () => Effect.succeed("default") },
        journal: {
          ...stored,
          begin: (fence, intent) => Effect.tap(stored.begin(fence, intent), () => Effect.sync(attempt.end))
        },
        packageLocks: new Map(),
        source: {
          ...listsOnly(() => Effect.die("no list is read")),
          write: (_, hooks) => hooked(hooks, Effect.sync(() => ++sent as never))
        }
      }, attempt)
      const refused = yield* Effect.flip(
        write({ integration: acme, write: "addTag", params: { candidate_id: "c1" }, body: tag, options: {} })
      )
      assert.deepStrictEqual([refused.message, sent, state.rows], ["this attempt is over", 0, []])
    }))
})

describe("a step", () => {
  const Made = Schema.Struct({ id: Schema.String, at: Schema.Date })

  it.effect("a step with a result is not run again: the next attempt gets the decoded result (L4)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let runs = 0
      const seen: Array<number> = []
      const fails = then(1)
      const plugin = Plugin.make("p").on(trigger, {}, () =>
        Effect.gen(function*() {
          const { at } = yield* Plugin.Journal.once(
            "make",
            Made,
            Effect.sync(() => ({ id: "x", at: new Date(++runs) }))
          )
          yield* Plugin.Journal.once("nothing", Schema.Void, Effect.void)
          seen.push(at.getTime())
          yield* fails
        }))
      yield* rig.start([plugin])
      yield* one(rig)
      yield* rig.until(() => seen.length === 1)
      yield* later
      yield* rig.empty
      assert.deepStrictEqual([runs, seen], [1, [1, 1]])
    }))

  it.effect("a step once per record runs once forever, and once in each integration (T1, L6)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const Employee = Schema.Struct({ id: Schema.NullOr(Schema.String) })
      rig.script.answer = (_, count) => Effect.succeed({ id: `e${count}` })
      const made: Array<string> = []
      const plugin = Plugin.make("p", { needs: { writes: ["createEmployee"] } }).on(
        "ats.application.hired",
        {},
        ({ integration, recordId }) =>
          Effect.gen(function*() {
            const api = yield* Plugin.Api.for("workday:acme")
            const create = api.createEmployee({ staffing_entity_id: "s", properties: {} })
            const { id } = yield* Plugin.Journal.oncePerRecord("create", Employee, create)
            made.push(`${integration} ${recordId} ${id}`)
          })
      )
      const { delivery } = yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* rig.append("a1")
      yield* rig.hire("a1")
      yield* rig.hire("a1", "lever:beta")
      yield* rig.quiet(delivery)
      assert.strictEqual(rig.sent.length, 2)
      assert.deepStrictEqual(made.toSorted(), [
        `${acme} a1 e1`,
        `${acme} a1 e1`,
        "lever:beta a1 e2"
      ])
    }))

  it.effect("an employee of unknown outcome is not created by a second hire either (T1)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = () => unknownOutcome
      const plugin = Plugin.make("p", { needs: { writes: ["createEmployee"] } }).on("ats.application.hired", {
        onDeadLetter: "skip"
      }, () =>
        Effect.gen(function*() {
          const api = yield* Plugin.Api
          const create = api.createEmployee({ staffing_entity_id: "s", properties: {} })
          yield* Plugin.Journal.oncePerRecord("create", Schema.Struct({ id: Schema.NullOr(Schema.String) }), create)
        }))
      yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* rig.hire("a1")
      yield* rig.until(() => rig.sent.length === 1)
      yield* later
      yield* rig.dead(2)
      assert.strictEqual(rig.sent.length, 1)
    }))

  it.effect("a step whose attempt is interrupted while its result is stored is not run again (L4)", () =>
    Effect.gen(function*() {
      const { attempt, stored } = attemptInMemory()
      const slow = {
        ...stored,
        finish: (...step: Parameters<typeof stored.finish>) => Effect.delay(stored.finish(...step), "1 second")
      }
      let runs = 0
      const once = (journal: typeof stored) =>
        StepJournal.make(journal, attempt).once("post", Schema.Void, Effect.sync(() => void runs++))
      const first = yield* Effect.forkChild(once(slow), { startImmediately: true })
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(first), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(interrupting)
      yield* once(stored)
      assert.strictEqual(runs, 1)
    }))
})
