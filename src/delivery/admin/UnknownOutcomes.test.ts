import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { writeExamples } from "../../../test/support/api/Examples.ts"
import { acme, make, type Rig, unknownOutcome } from "../../../test/support/delivery/Rig.ts"
import { type WriteName, writeNames, writes } from "../../api/Writes.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import * as DeadLetters from "./DeadLetters.ts"
import * as UnknownOutcomes from "./UnknownOutcomes.ts"

const workday = "workday:acme"
const later = TestClock.adjust("10 minutes")
const link = { label: "Result", url: "https://x.example" }

const on = <A, E>(rig: Rig, effect: Effect.Effect<A, E, Deliveries>) =>
  Effect.provideService(effect, Deliveries, rig.deliveries)

/** The first attempt gets no response, and the second one becomes a dead letter. */
const died = Effect.fnUntraced(function*(rig: Rig) {
  yield* rig.until(() => rig.sent.length > 0)
  yield* TestClock.adjust("1 minute")
  yield* rig.dead(1)
})

/** The newest dead letter and its unresolved steps. */
const letterOf = Effect.fnUntraced(function*(rig: Rig) {
  const letter = (yield* rig.deliveries.deadLetters({ limit: 100 })).at(-1)
  if (letter === undefined) return assert.fail("there is no dead letter")
  return { letter, steps: yield* on(rig, UnknownOutcomes.openStepsOf(letter)) }
})

/** Resolves the only unresolved step of the newest dead letter. */
const resolve = Effect.fnUntraced(function*(rig: Rig, report: UnknownOutcomes.ReportedOutcome) {
  const { letter, steps } = yield* letterOf(rig)
  assert.lengthOf(steps, 1)
  return yield* on(rig, UnknownOutcomes.resolve(letter.id, steps[0]?.name ?? "", report))
})

const refusal = (rig: Rig, report: UnknownOutcomes.ReportedOutcome) =>
  Effect.map(Effect.flip(resolve(rig, report)), (error) => `${error._tag}: ${error.message}`)

const redrive = Effect.fnUntraced(function*(rig: Rig, fresh: boolean) {
  const { hash } = yield* on(rig, DeadLetters.plan({}))
  return yield* on(rig, DeadLetters.redrive({}, hash, { over: 0, fresh } as never))
})

const discard = Effect.fnUntraced(function*(rig: Rig) {
  const { hash } = yield* on(rig, DeadLetters.plan({}))
  return yield* on(rig, DeadLetters.discard({}, hash))
})

/** A plugin that creates an employee for each hire, once per record or once per event, and links to it. */
const hiring = (oncePerRecord: boolean, bodyOf: () => string = () => "same") => {
  const links: Array<unknown> = []
  const plugin = Plugin.make("welcome", { needs: { writes: ["createEmployee", "addResultLink"] } }).on(
    "ats.application.hired",
    {},
    Effect.fnUntraced(function*({ recordId }) {
      const api = yield* Plugin.Api
      const create = Effect.flatMap(
        Plugin.Api.for(workday),
        (hris) => hris.createEmployee({ properties: { name: bodyOf() } })
      )
      const employee = oncePerRecord
        ? yield* Plugin.Journal.oncePerRecord("employee", Schema.Struct({ id: Schema.NullOr(Schema.String) }), create)
        : yield* create
      links.push(employee.id)
      yield* api.addResultLink(recordId, { label: "Employee", url: `https://x.example/${employee.id}` })
    })
  )
  return { plugin, links }
}

/** A hire whose first `createEmployee` has an unknown outcome; a second one would create E2. */
const hiredUnknown = Effect.fnUntraced(function*(oncePerRecord: boolean, bodyOf?: () => string) {
  const rig = yield* make
  rig.script.answer = ({ write }, count) =>
    write !== "createEmployee" ? Effect.succeed({}) : count === 1 ? unknownOutcome : Effect.succeed({ id: "E2" })
  const { links, plugin } = hiring(oncePerRecord, bodyOf)
  yield* rig.start([plugin])
  yield* rig.hire("a1")
  yield* died(rig)
  return { rig, links }
})

const sentOf = ({ sent }: Rig, write: WriteName) => sent.filter((one) => one.write === write).length

describe("an unknown outcome", () => {
  for (const oncePerRecord of [false, true]) {
    const step = oncePerRecord ? "in a step once per record" : "a write of the event"
    it.effect(`an outcome reported as happened is returned to the handler, which continues: ${step} (L5)`, () =>
      Effect.gen(function*() {
        const { links, rig } = yield* hiredUnknown(oncePerRecord)
        const { steps: [step] } = yield* letterOf(rig)
        assert.deepInclude(step, {
          write: "createEmployee",
          state: "unknown",
          target: { integration: workday, params: {} }
        })
        assert.deepStrictEqual((yield* resolve(rig, { happened: true, id: "E7" })).left, 0)
        yield* rig.empty
        assert.deepStrictEqual(links, ["E7"])
        assert.deepStrictEqual([sentOf(rig, "createEmployee"), sentOf(rig, "addResultLink")], [1, 1])
        const [act] = yield* rig.store.auditLog(1)
        assert.deepInclude(act, {
          command: "deadletters.resolve",
          detail: "createEmployee /hris/employees/form workday:acme happened E7"
        })
      }))

    it.effect(`a write that did not happen is sent again, but only after the API could show it: ${step} (L5)`, () =>
      Effect.gen(function*() {
        const { links, rig } = yield* hiredUnknown(oncePerRecord)
        assert.include(
          yield* refusal(rig, { happened: false }),
          "OutcomeRejected: it was sent less than five minutes ago"
        )
        yield* later
        yield* resolve(rig, { happened: false })
        yield* rig.empty
        assert.deepStrictEqual(links, ["E2"])
        assert.strictEqual(sentOf(rig, "createEmployee"), 2)
      }))

    it.effect(`a fresh redrive is refused while an outcome is unknown, and says what to do: ${step} (L5)`, () =>
      Effect.gen(function*() {
        const { rig } = yield* hiredUnknown(oncePerRecord)
        const { letter } = yield* letterOf(rig)
        const error = yield* Effect.flip(redrive(rig, true))
        assert.strictEqual(error._tag, "Unresolved")
        assert.include("hint" in error ? error.hint : "", `rollcall deadletters resolve ${letter.id} --happened`)
        yield* rig.dead(1)
        assert.strictEqual(sentOf(rig, "createEmployee"), 1)
      }))
  }

  it.effect("an unknown outcome of a discarded hire does not block the next hire, even with different content (L5)", () =>
    Effect.gen(function*() {
      let body = "first"
      const { links, rig } = yield* hiredUnknown(true, () => body)
      const { letter: first } = yield* letterOf(rig)
      yield* discard(rig)
      body = "second"
      yield* rig.hire("a1")
      yield* died(rig)
      const { letter: second, steps } = yield* letterOf(rig)
      assert.notStrictEqual(second.id, first.id)
      assert.deepStrictEqual(steps.map(({ delivery, write }) => [delivery, write]), [[first.id, "createEmployee"]])
      yield* resolve(rig, { happened: true, id: "E1" })
      yield* rig.empty
      body = "third"
      yield* rig.hire("a1")
      yield* rig.until(() => links.length === 2)
      yield* rig.empty
      assert.deepStrictEqual(links, ["E1", "E1"])
      assert.strictEqual(sentOf(rig, "createEmployee"), 1)
    }))

  it.effect("a write with different content than the resolved one is not sent before an operator decides (L5)", () =>
    Effect.gen(function*() {
      let body = "first"
      const { links, rig } = yield* hiredUnknown(false, () => body)
      body = "second"
      yield* resolve(rig, { happened: true, id: "E1" })
      yield* rig.dead(0)
      yield* rig.dead(1)
      const { letter, steps } = yield* letterOf(rig)
      assert.include(letter.failure.message, "an operator reported that the same write with different content happened")
      assert.deepStrictEqual(steps.map(({ state }) => state), ["unsent"])
      yield* resolve(rig, { happened: false })
      yield* rig.empty
      assert.deepStrictEqual(links, ["E2"])
      assert.strictEqual(sentOf(rig, "createEmployee"), 2)
    }))

  it.effect("an unknown outcome in a batch is resolved once, and each event has its effect once (L5, L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const done: Array<string> = []
      rig.script.answer = ({ params }) =>
        Effect.suspend(() => {
          const { application_id } = params as { readonly application_id: string }
          done.push(application_id)
          return application_id === "a2" && done.filter((id) => id === "a2").length === 1
            ? unknownOutcome
            : Effect.succeed({})
        })
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).batch(
        "ats.application.created",
        { size: 4, within: "1 minute" },
        (events) =>
          Effect.flatMap(
            Plugin.Api,
            (api) => Effect.forEach(events, ({ recordId }) => api.addResultLink(recordId, link), { discard: true })
          )
      )
      yield* rig.start([plugin])
      for (const id of ["a1", "a2", "a3", "a4"]) yield* rig.append(id)
      yield* rig.until(() => rig.sent.length > 1)
      for (let round = 0; round < 5; round++) {
        yield* TestClock.adjust("1 minute")
        yield* rig.until(
          () => rig.deliveries.backlog,
          (backlog) => backlog.every(({ due, running }) => due + running === 0)
        )
      }
      yield* rig.dead(1)
      const { letter, steps } = yield* letterOf(rig)
      assert.deepStrictEqual([letter.event?.id, steps.map(({ target }) => target?.params)], ["a2", [
        { application_id: "a2" }
      ]])
      yield* resolve(rig, { happened: true })
      yield* rig.empty
      assert.deepStrictEqual(done.toSorted(), ["a1", "a2", "a3", "a4"])
    }))

  it.effect("an unknown outcome in a tick can be resolved (L5, L8)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = (_, count) => count === 1 ? unknownOutcome : Effect.succeed({})
      const plugin = Plugin.make("p", { needs: { writes: ["addResultLink"] } }).every("1 day", { as: "daily" }, () =>
        Effect.flatMap(Plugin.Api, (api) =>
          api.addResultLink("a1", link)))
      yield* rig.start([plugin.with({ others: false, integrations: { [acme]: true } })])
      yield* rig.until(() =>
        Effect.succeed(rig.sent.length), () => true)
      yield* TestClock.adjust("1 day")
      yield* died(rig)
      yield* resolve(rig, { happened: true })
      yield* rig.empty
      assert.strictEqual(rig.sent.length, 1)
    }))

  it.effect("a step is resolved with a result, which can be corrected if it does not match the schema (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let requests = 0
      const results: Array<number> = []
      rig.script.http = () => Effect.sync(() => ++requests && 502)
      const plugin = Plugin.make("p").on("ats.application.created", {}, () =>
        Effect.gen(function*() {
          const send = Effect.gen(function*() {
            const { status } = yield* Effect.orDie(HttpClient.post("https://x.example"))
            return status < 500 ? status : yield* new Plugin.Transient({ message: "in trouble" })
          })
          results.push(yield* Plugin.Journal.once("notify", Schema.Number, send, { onUnknown: "deadLetter" }))
        }))
      yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.until(() => requests === 1)
      yield* later
      yield* rig.dead(1)
      const { steps: [step] } = yield* letterOf(rig)
      assert.deepInclude(step, { step: "notify", write: null, target: null, state: "unknown" })
      assert.include(yield* refusal(rig, { happened: true, id: "E1" }), "a step that is not a write has no id")
      yield* resolve(rig, { happened: true, result: "two hundred" })
      yield* rig.dead(0)
      yield* rig.dead(1)
      assert.include((yield* letterOf(rig)).letter.failure.message, "does not match its schema")
      yield* resolve(rig, { happened: true, result: 200 })
      yield* rig.empty
      assert.deepStrictEqual([results, requests], [[200], 1])
    }))

  it.effect("a resolved application gets its published content, and its echo is attributed (E2)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      rig.script.answer = () => unknownOutcome
      const seen: Array<unknown> = []
      const candidate = { first_name: "Ada", last_name: "Lovelace", email_address: "ada@example.org" }
      const plugin = Plugin.make("p", { needs: { writes: ["createApplication"] } }).on(
        "ats.application.hired",
        {},
        () =>
          Effect.gen(function*() {
            const api = yield* Plugin.Api
            seen.push(yield* api.createApplication("j1", { candidate }, { onUnknown: "deadLetter" }))
          })
      )
      yield* rig.start([plugin])
      yield* rig.hire("a1")
      yield* died(rig)
      yield* rig.append("new", { after: '{"id":"new","candidate_id":"c9"}' })
      yield* resolve(rig, { happened: true, id: "new" })
      yield* rig.empty
      assert.deepStrictEqual(seen, [{ id: "new", candidate_id: "c9" }])
      const owner = yield* rig.store.takeOwnership("capture")
      const open = yield* rig.store.transact(
        owner,
        { integration: acme, model: "ats.application" },
        (tx) => tx.openExpectations(["id:new"])
      )
      assert.deepStrictEqual(open.map(({ name }) => name), ["createApplication"])
    }))

  it.effect("each of the twelve writes is resolved with a result in the form of its response", () =>
    Effect.gen(function*() {
      for (const write of writeNames) {
        yield* Effect.gen(function*() {
          const rig = yield* make
          rig.script.answer = () => unknownOutcome
          const { body, params } = writeExamples[write]
          const plugin = Plugin.make("p", { needs: { writes: [write] } }).on(
            "ats.application.created",
            {},
            () =>
              Effect.flatMap(Plugin.Api, (api) => {
                const call: (...given: ReadonlyArray<never>) => Effect.Effect<unknown, Plugin.HandlerError> = api[write]
                const given: ReadonlyArray<unknown> = [
                  ...Object.values(params),
                  ...(write === "deactivateCourse" ? [] : [body]),
                  { onUnknown: "deadLetter" }
                ]
                return call(...given as ReadonlyArray<never>)
              })
          )
          yield* rig.start([plugin])
          yield* rig.append("a1")
          yield* died(rig)
          const { steps: [step] } = yield* letterOf(rig)
          if (step === undefined) return assert.fail(write)
          assert.notInclude(UnknownOutcomes.pathOf(step), "{", write)
          assert.deepStrictEqual(step.target?.params, params, write)
          if (UnknownOutcomes.returnsId(write)) {
            assert.include(
              yield* refusal(rig, { happened: true }),
              "InvalidOutcome: the handler needs the result",
              write
            )
            for (const id of ["", " x", "x\n", "x".repeat(1_001), "\ud800"]) {
              assert.include(
                yield* refusal(rig, { happened: true, id }),
                "InvalidOutcome: this is not a valid id"
              )
            }
            for (const result of [{}, "x", { id: "" }, { id: 7 }]) {
              assert.include(yield* refusal(rig, { happened: true, result }), "InvalidOutcome", write)
            }
            yield* resolve(rig, { happened: true, id: "x1" })
          } else {
            assert.include(yield* refusal(rig, { happened: true, id: "x1" }), "InvalidOutcome: ", write)
            yield* resolve(rig, { happened: true })
          }
          yield* rig.empty
          assert.strictEqual(rig.sent.length, 1, write)
        }).pipe(Effect.scoped)
      }
      assert.deepStrictEqual(
        writeNames.filter(UnknownOutcomes.returnsId),
        ["createApplication", "createEmployee", "rateSkill", "expectSkill", "deactivateCourse"]
      )
      assert.strictEqual(writes.createEmployee.resolutionPolicy, "never")
    }))
})
