import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Rig from "../../../test/support/delivery/Rig.ts"
import type { OpenExpectation } from "../../domain/Expectation.ts"
import { Api } from "../../plugin/Capabilities.ts"
import * as Plugin from "../../plugin/Plugin.ts"

/** The open expectations of a stream. */
const expected = Effect.fnUntraced(function*(rig: Rig.Rig, stream = Rig.applications) {
  const owner = yield* rig.store.takeOwnership("capture")
  const keys = ["candidate:c", "job:j", "id:new"]
  return yield* rig.store.transact(owner, stream, (tx) => tx.openExpectations(keys))
}, Effect.orDie)

const describeExpectation = ({ depth, key, name, plugin }: OpenExpectation) => `${plugin} ${name} ${key} ${depth}`

const tagger = Plugin.make("tagger", { needs: { writes: ["addTag"] } }).on(
  "ats.application.hired",
  {},
  () => Effect.flatMap(Api, (api) => api.addTag("c", { tag: { name: "hot" } }))
)

const caused = (plugin: string, depth: number, paths: ReadonlyArray<string>) => ({
  cause: JSON.stringify({ plugin, delivery: "1", depth, paths }),
  changes: JSON.stringify(["/a", "/b"].map((path) => ({ path, before: 1, after: 2 }))),
  transitions: "[]"
})

describe("echo of the engine's writes", () => {
  it.effect("the expected change of a write is stored before it is sent, one level deeper than its cause (E2)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const seen: Array<string> = []
      rig.script.answer = () =>
        Effect.as(Effect.map(expected(rig), (open) => void seen.push(...open.map(describeExpectation))), {})
      const { delivery } = yield* rig.start([tagger])
      yield* rig.append("a", {
        cause: JSON.stringify({ plugin: "other", delivery: "9", depth: 2, paths: ["/x"] }),
        transitions: '[{"name":"hired","from":null,"to":"HIRED"}]'
      })
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(seen, ["tagger addTag candidate:c 3"])
    }))

  it.effect("a write that was not done leaves no expectation (L2)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      rig.script.answer = () => Rig.notSent
      const { delivery } = yield* rig.start([tagger])
      yield* rig.hire("a")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(yield* expected(rig), [])
    }))

  it.effect("a write of unknown outcome leaves all its expectations (L5)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      rig.script.answer = () => Rig.unknownOutcome
      const { delivery } = yield* rig.start([tagger])
      yield* rig.hire("a")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual((yield* expected(rig)).map(describeExpectation), ["tagger addTag candidate:c 1"])
    }))

  it.effect("the id in the response identifies a created application in later events (E2)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      rig.script.answer = () => Effect.succeed({ id: "new", candidate: { id: "person" } })
      const candidate = { first_name: "A", last_name: "B", email_address: "a@example.com" }
      const plugin = Plugin.make("referrer", { needs: { writes: ["createApplication"] } }).on(
        "ats.application.hired",
        {},
        () => Effect.flatMap(Api, (api) => api.createApplication("j", { candidate }))
      )
      const { delivery } = yield* rig.start([plugin])
      yield* rig.hire("a")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual((yield* expected(rig)).map(describeExpectation), ["referrer createApplication id:new 1"])
    }))

  it.effect("the id in the response identifies a created employee, if the integration has a list of employees", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      rig.script.answer = () => Effect.succeed({ id: "new", remote_id: null })
      const plugin = Plugin.make("welcome", { needs: { writes: ["createEmployee"] } }).on(
        "ats.application.hired",
        {},
        () => Effect.flatMap(Api, (api) => api.createEmployee({ properties: {} }))
      )
      const employees = { ...Rig.applications, model: "hris.employee" } as const
      yield* rig.append("e", { model: employees.model })
      const { delivery } = yield* rig.start([plugin])
      yield* rig.hire("a")
      yield* rig.quiet(delivery)
      assert.deepStrictEqual((yield* expected(rig, employees)).map(describeExpectation), [
        "welcome createEmployee id:new 1"
      ])
    }))

  it.effect("an author skips events that only it caused, but gets mixed ones; other plugins get both (L1, E1)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const received: Array<string> = []
      const listener = (name: string) =>
        Plugin.make(name).on(
          "ats.application.updated",
          {},
          ({ cause, recordId }) => Effect.sync(() => received.push(`${name} ${recordId} ${cause?.paths.join(" ")}`))
        )
      const { delivery } = yield* rig.start([listener("author"), listener("other")])
      for (const id of ["whole", "part"]) yield* rig.append(id)
      yield* rig.append("whole", caused("author", 1, ["/a", "/b"]))
      yield* rig.append("part", caused("author", 1, ["/a"]))
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received.sort(), ["author part /a", "other part /a", "other whole /a /b"])
    }))

  it.effect("an event caused by five plugins in a row is a dead letter for the sixth (L9)", () =>
    Effect.gen(function*() {
      const rig = yield* Rig.make
      const received: Array<string> = []
      const plugin = Plugin.make("listener").on(
        "ats.application.updated",
        {},
        ({ recordId }) => Effect.sync(() => received.push(recordId))
      )
      const { delivery } = yield* rig.start([plugin])
      for (const id of ["four", "five"]) yield* rig.append(id)
      yield* rig.append("four", caused("other", 4, ["/a"]))
      yield* rig.append("five", caused("other", 5, ["/a"]))
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(received, ["four"])
      const dead = yield* rig.deliveries.deadLetters({ limit: 10 })
      assert.deepStrictEqual(dead.map(({ event, failure }) => [event?.id, failure.reason]), [["five", "LoopDetected"]])
    }))
})
