/** A process whose tool catalog was not available when it determined the models of `auto`. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { acme as tagged, startProcess as start } from "../../../test/support/capture/Capturing.ts"
import { start as startedAt } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { streamName } from "../../domain/Model.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import { Forbidden, Source, SourceError, Transient, Unauthorized, Unsupported } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import type { CaptureOptions } from "./Capture.ts"
import type { IntegrationSettings } from "./Integrations.ts"
import { discoverModels } from "./ModelDiscovery.ts"

const acme: IntegrationSettings = { ...tagged, models: "auto" }
/** Polled so rarely that a day of virtual time costs little. */
const quiet = { ...acme, interval: Duration.hours(30) }
const offered = ["ats.application", "ats.candidate", "ats.offer", "ats.scorecard"]

const down = new SourceError({ reason: new Transient({ code: null, message: "the API is down" }) })
const unsupported = new SourceError({ reason: new Unsupported({ code: null, message: "not offered" }) })
const forbidden = new SourceError({ reason: new Forbidden({ code: null, message: "not allowed" }) })
const tools = [{
  id: "greenhouse",
  coverage: { read_models: [{ id: "tags", coverage_status: "UNSUPPORTED" }] }
}]

interface World {
  readonly api: Scripted.ScriptedApi
  /** The categories that were requested. */
  readonly requested: Array<string>
  /** The lines of the log, with their annotations. */
  readonly lines: Array<string>
  /** Answers the request for the catalog of a category. */
  answer: (category: string) => Effect.Effect<typeof tools, SourceError>
}

const available = (category: string) => Effect.succeed(category === "ats" ? tools : [])

/** Starts a process like the program does: it discovers the models of the declared integrations, and then reads them. */
const startProcess = Effect.fnUntraced(function*(
  declared: ReadonlyArray<IntegrationSettings>,
  options: Partial<CaptureOptions> = {}
) {
  const discovered = yield* discoverModels(declared.filter(({ models }) => models === "auto"))
  return yield* start({ declared, discovered }, options)
})

const scenario = <A>(
  test: (world: World) => Effect.fn.Return<A, unknown, Store | Source | Scope.Scope>
): Effect.Effect<A, unknown> => {
  const api = Scripted.make()
  const world: World = { api, requested: [], lines: [], answer: () => Effect.fail(down) }
  for (const id of ["a", "b"]) api.put(startedAt, { id, name: "1" })
  api.intercept = (request, answer) => offered.includes(request.model) ? answer : Effect.fail(unsupported)
  const read = ({ params, read }: { readonly params: object; readonly read: string }) =>
    Effect.suspend(() => {
      const category = read === "tools" && "category" in params ? String(params.category) : read
      world.requested.push(category)
      return Effect.map(world.answer(category), (tools) => ({ tools }))
    })
  const source = Layer.effect(Source, Effect.map(Source, (lists) => ({ ...lists, read: read as never })))
  const logger = Logger.make(({ fiber, message }) => {
    world.lines.push(`${message} ${JSON.stringify(fiber.getRef(References.CurrentLogAnnotations))}`)
  })
  return TestClock.setTime(startedAt).pipe(
    Effect.andThen(Effect.gen(() => test(world))),
    Effect.scoped,
    Effect.provide(Layer.mergeAll(
      Layer.provide(source, Scripted.layer(api)),
      MemoryStore.layer(),
      Logger.layer([logger])
    ))
  )
}

/** The waits between the requests for the catalog in this time (seconds); all of them are multiples of ten seconds. */
const waitsIn = Effect.fnUntraced(function*({ requested }: World, seconds: number) {
  const times: Array<number> = []
  for (let time = 10; time <= seconds; time += 10) {
    requested.length = 0
    yield* TestClock.adjust("10 seconds")
    if (requested.length > 0) times.push(time)
  }
  return times.map((time, index) => time - (times[index - 1] ?? 0))
})

/** The models of an integration that are read. */
const modelsOf = Effect.fnUntraced(function*({ id }: Pick<IntegrationSettings, "id">) {
  const own = yield* (yield* Store).streamsOf(id)
  return own.filter(({ retired }) => retired !== true).map(({ model }) => model).sort()
})
const logged = ({ lines }: World, text: string) => lines.filter((line) => line.includes(text))
/** The `why` of other lines may mention the catalog too. */
const catalogLines = ({ lines }: World) => lines.filter((line) => line.startsWith("tool catalog"))

describe("a tool catalog that was not available", () => {
  it.effect("is requested again, and streams that the tool does not offer are retired with one line of the log (C1)", () =>
    scenario(function*(world) {
      yield* startProcess([{ ...acme, interval: Duration.minutes(30) }])
      yield* TestClock.adjust("1 hour")
      const store = yield* Store
      const before = yield* store.streamsOf(acme.id)
      assert.isAbove(before.filter(({ blocked }) => blocked?.reason === "unsupported").length, 5)
      assert.strictEqual(logged(world, "tool catalog not available").length, 3, "one line for each category")
      assert.deepStrictEqual(logged(world, "tool catalog available"), [])
      const events = yield* store.logRange

      world.answer = available
      world.lines.length = 0
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* modelsOf(acme), offered)
      assert.strictEqual((yield* store.streamsOf(acme.id)).length, before.length, "no stream is deleted")
      assert.deepStrictEqual(yield* store.logRange, events)
      assert.lengthOf(world.lines, 1)
      assert.include(world.lines[0], "tool catalog available")
      assert.include(world.lines[0], "greenhouse:acme/ats.tag")

      const requests = world.api.requests.length
      yield* TestClock.adjust("25 hours")
      const read = new Set(world.api.requests.slice(requests).map(({ model }) => model))
      assert.sameMembers([...read], offered.filter((model) => model !== "ats.candidate"))
      const later = world.lines.filter((line) => !line.startsWith("sweep complete"))
      assert.deepStrictEqual(later, [world.lines[0]])
    }))

  it.effect("changes an integration that an operator added meanwhile, and no integration with explicit models", () =>
    scenario(function*(world) {
      const explicit = { ...acme, id: "greenhouse:explicit", models: ["ats.tag"] } as const
      const added = { ...acme, id: "greenhouse:added" }
      const { add } = yield* startProcess([explicit])
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(world.requested, [], "no integration needs the catalog")
      yield* add(added)
      yield* add({ ...explicit, id: "greenhouse:explicit-added" })
      yield* TestClock.adjust("1 minute")
      assert.include(yield* modelsOf(added), "ats.tag")
      world.answer = available
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* modelsOf(added), offered)
      assert.deepStrictEqual(yield* modelsOf(explicit), ["ats.tag"])
      assert.deepStrictEqual(yield* modelsOf({ id: "greenhouse:explicit-added" }), ["ats.tag"])
    }))

  it.effect("is not used for an integration that was removed during the request and is added again later", () =>
    scenario(function*(world) {
      const { add, remove } = yield* startProcess([])
      yield* add(acme)
      const answered = yield* Deferred.make<void>()
      world.answer = (category) => Effect.andThen(Deferred.await(answered), available(category))
      yield* TestClock.adjust("10 seconds")
      yield* remove(acme.id, "keep")
      yield* Deferred.succeed(answered, undefined)
      yield* TestClock.adjust("1 minute")
      world.answer = (category) =>
        Effect.succeed(category === "ats" ? [{ id: "greenhouse", coverage: { read_models: [] } }] : [])
      yield* add(acme)
      assert.include(yield* modelsOf(acme), "ats.tag", "the tool offers tags by now")
    }))

  it.effect("does not change an integration to which another process of the fleet gave explicit models", () =>
    scenario(function*(world) {
      const scope = captureScopeOf(acme.id)
      const taking = ({ capture, resume }: Effect.Success<ReturnType<typeof startProcess>>) =>
        Effect.andThen(capture.take([scope]), resume(new Set([scope])))
      const one = yield* startProcess([], { takesAll: false })
      const two = yield* startProcess([], { takesAll: false })
      yield* taking(one)
      yield* one.add(acme)
      yield* one.capture.handOver(new Set([scope]))
      yield* taking(two)
      yield* two.remove(acme.id, "keep")
      yield* two.add({ ...acme, models: ["ats.tag"] })
      yield* two.stop
      yield* taking(one)
      world.answer = available
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(yield* modelsOf(acme), ["ats.tag"])
      assert.strictEqual(logged(world, "tool catalog available").length, 1)
    }))

  it.effect("is applied by each process of a fleet to the streams of its shards, also of those that it takes later", () =>
    scenario(function*(world) {
      const other = { ...acme, id: "greenhouse:other" }
      const scopes = [captureScopeOf(acme.id), captureScopeOf(other.id)] as const
      assert.notStrictEqual(scopes[0], scopes[1])
      const store = yield* Store
      const first = yield* startProcess([acme, other])
      yield* TestClock.adjust("1 second")
      yield* first.stop
      const all = yield* modelsOf(other)
      const written = new Set<string>()
      const { capture, resume } = yield* Effect.provideService(
        startProcess([acme, other], { takesAll: false }),
        Store,
        {
          ...store,
          transact: (owner, key, body) => {
            written.add(key.integration)
            return store.transact(owner, key, body)
          }
        }
      )
      yield* capture.take([scopes[0]])
      yield* resume(new Set([scopes[0]]))
      world.answer = available
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* modelsOf(acme), offered)
      assert.deepStrictEqual(yield* modelsOf(other), all, "the shard of another process")
      assert.deepStrictEqual([...written], [acme.id])
      yield* capture.take([scopes[1]])
      yield* resume(new Set([scopes[1]]))
      assert.deepStrictEqual(yield* modelsOf(other), offered)
      assert.strictEqual((yield* store.streamsOf(other.id)).length, (yield* store.streamsOf(acme.id)).length)
    }))

  it.effect("is applied to the other shards if another process has taken one over (I10)", () =>
    scenario(function*(world) {
      const other = { ...acme, id: "greenhouse:other" }
      const store = yield* Store
      yield* startProcess([acme, other])
      yield* store.takeOwnership(captureScopeOf(acme.id))
      world.answer = available
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* modelsOf(other), offered)
      assert.include(yield* modelsOf(acme), "ats.tag")
      assert.deepStrictEqual(logged(world, "acme/"), [])
    }))

  it.effect("is requested again if it has not answered within 30 seconds", () =>
    scenario(function*(world) {
      yield* startProcess([acme])
      world.requested.length = 0
      world.answer = () => Effect.never
      yield* TestClock.adjust("58 seconds")
      assert.sameMembers(world.requested, ["ats", "hris", "assessment"])
      world.answer = available
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* modelsOf(acme), offered)
    }))

  it.effect("that does not answer for a long time delays no command of an operator", () =>
    scenario(function*(world) {
      const { add, remove } = yield* startProcess([])
      yield* add(acme)
      world.answer = () => Effect.never
      yield* TestClock.adjust("11 seconds")
      assert.strictEqual((yield* remove(acme.id, "keep")).state, "removed")
    }))

  it.effect("does not interrupt the streams that the tool offers", () =>
    scenario(function*(world) {
      yield* startProcess([acme])
      yield* TestClock.adjust("5 minutes")
      const waiting = yield* Deferred.make<void>()
      const sent: Array<string> = []
      world.api.intercept = (request, answer) => {
        sent.push(streamName(request))
        const isOffered = offered.includes(request.model)
        return Effect.andThen(Deferred.await(waiting), isOffered ? Effect.succeed(answer) : Effect.fail(unsupported))
      }
      yield* TestClock.adjust("2 minutes")
      const before = sent.length
      world.answer = available
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* modelsOf(acme), offered)
      assert.strictEqual(sent.length, before, "each stream still waits for its response")
    }))

  it.effect("is requested at intervals of up to an hour if the API refuses it, with one line when that begins and one when it ends", () =>
    scenario(function*(world) {
      world.answer = (category) => category === "hris" ? Effect.fail(forbidden) : available(category)
      yield* startProcess([quiet])
      const [line, ...more] = catalogLines(world)
      assert.deepStrictEqual(more, [])
      assert.match(line ?? "", /not available.*"category":"hris".*not allowed.*the API refuses it/)
      assert.deepStrictEqual(yield* waitsIn(world, 12_400), [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600])
      assert.deepStrictEqual(catalogLines(world), [line])
      world.answer = available
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(world.requested, ["hris"], "only the part that was not available")
      const [, last, ...others] = catalogLines(world)
      assert.match(last ?? "", /^tool catalog available .*greenhouse:acme\/hris\.skill/)
      assert.notInclude(last, "missing")
      assert.deepStrictEqual(others, [])
      assert.deepStrictEqual(yield* waitsIn(world, 7200), [])
    }))

  it.effect("is requested every five minutes while the key is wrong, because a key can be replaced", () =>
    scenario(function*(world) {
      const wrongKey = new SourceError({ reason: new Unauthorized({ code: null, message: "wrong key" }) })
      world.answer = () => Effect.fail(wrongKey)
      yield* startProcess([quiet])
      assert.deepStrictEqual(yield* waitsIn(world, 1000), [10, 20, 40, 80, 160, 300, 300])
      assert.deepStrictEqual(catalogLines(world), [], "the streams of the account log that the key is wrong")
      assert.deepStrictEqual(logged(world, "refuses"), [])
    }))

  it.effect("has a further line if the API refuses it from now on, and names the parts that are still missing", () =>
    scenario(function*(world) {
      yield* startProcess([quiet])
      assert.lengthOf(logged(world, "tool catalog not available"), 3)
      assert.deepStrictEqual(logged(world, "refuses"), [])
      world.answer = (category) => category === "hris" ? Effect.fail(forbidden) : Effect.fail(down)
      yield* TestClock.adjust("20 minutes")
      assert.lengthOf(logged(world, "refuses"), 1)
      world.answer = (category) => category === "hris" ? Effect.fail(down) : available(category)
      yield* TestClock.adjust("20 minutes")
      assert.match(logged(world, "tool catalog available").join(), /"missing":"hris"/)
      world.answer = (category) => category === "hris" ? Effect.fail(forbidden) : available(category)
      yield* TestClock.adjust("1 day")
      assert.lengthOf(catalogLines(world), 5, "a refusal that returns is not logged again")
    }))

  it.effect("is requested soon for an integration that is added while the API refuses the others", () =>
    scenario(function*(world) {
      world.answer = (category) => category === "hris" ? Effect.fail(forbidden) : available(category)
      const { add } = yield* startProcess([quiet])
      yield* TestClock.adjust("5 hours")
      const added = { ...quiet, id: "greenhouse:added" }
      world.answer = () => Effect.fail(down)
      yield* add(added)
      world.requested.length = 0
      world.answer = available
      yield* TestClock.adjust("9 seconds")
      assert.deepStrictEqual(world.requested, [])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* modelsOf(added), offered)
      assert.deepStrictEqual(yield* modelsOf(acme), offered)
    }))
})
