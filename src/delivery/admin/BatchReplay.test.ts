/** Replays of events that were delivered in batches. The journal is shared, even if the batches of the replay have other members. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { acme, action, make, type Rig } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const trigger = "ats.application.created"

/** Makes two writes per event, one of them in a step, and one step per batch. `ended` decides how a run ends. */
const linker = (
  size: number,
  ended: (ids: ReadonlyArray<string>) => Effect.Effect<void, Plugin.HandlerError> = () => Effect.void
) => {
  const runs: Array<string> = []
  const posted: Array<string> = []
  const plugin = Plugin.make("linker", { needs: { writes: ["addResultLink"] } }).batch(
    trigger,
    { as: "links", size, within: "1 minute", onDeadLetter: "skip" },
    (events) =>
      Effect.gen(function*() {
        const api = yield* Plugin.Api
        const ids = events.map(({ recordId }) => recordId)
        runs.push(ids.join(" "))
        for (const { id, recordId } of events) {
          const link = api.addResultLink(recordId, { label: "step", url: "https://x.example" })
          yield* Plugin.Journal.once(`link ${id}`, Schema.Unknown, link)
          yield* api.addResultLink(recordId, { label: "write", url: "https://x.example" })
        }
        yield* Plugin.Journal.once("post", Schema.Number, Effect.sync(() => posted.push(ids.join(" "))))
        yield* ended(ids)
      })
  )
  return { plugin, runs, posted }
}

const linksOf = ({ sent }: Rig) =>
  sent.map(({ body, params }) => Object.values({ ...params as object, ...body as object }).slice(0, 2).join(" "))
    .toSorted()
const both = (...ids: ReadonlyArray<string>) => ids.flatMap((id) => [`${id} step`, `${id} write`])

const request = { plugin: "linker", handler: "links", fresh: false } as const

/** Waits until the events of a replay are batched and delivered. */
const delivered = (rig: Rig, delivery: Parameters<Rig["quiet"]>[0]) =>
  Effect.gen(function*() {
    yield* rig.quiet(delivery)
    yield* TestClock.adjust("1 minute")
    yield* rig.until(
      () => rig.deliveries.backlog,
      (backlog) => backlog.every(({ due, later, running, waiting }) => due + later + running + waiting === 0)
    )
  })

/** A started linker that has taken these records. */
const batched = Effect.fnUntraced(function*(size: number, ids: ReadonlyArray<string>) {
  const rig = yield* make
  const { plugin, ...seen } = linker(size)
  const { delivery, plugins } = yield* rig.start([plugin])
  for (const id of ids) yield* rig.append(id)
  yield* delivered(rig, delivery)
  return { delivery, plugins, rig, ...seen }
})

describe("a replayed batch", () => {
  it.effect("a replay repeats no step and no write, even if its batches have other members (L4)", () =>
    Effect.gen(function*() {
      const { delivery, plugins, posted, runs, rig } = yield* batched(4, ["a1", "a2"])
      for (const id of ["a3", "a4", "a5"]) yield* rig.append(id)
      yield* delivered(rig, delivery)
      assert.deepStrictEqual(runs, ["a1 a2", "a3 a4 a5"])
      for (let again = 0; again < 3; again++) {
        yield* plugins.replay(request)
        yield* delivered(rig, delivery)
      }
      assert.deepStrictEqual(linksOf(rig), both("a1", "a2", "a3", "a4", "a5"))
      assert.deepStrictEqual(posted, ["a1 a2", "a3 a4 a5"])
      assert.isAbove(runs.length, 2)
    }))

  it.effect("a dead letter lists the steps of all batches that its event was part of (L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let posts = 0
      const plugin = Plugin.make("poster").batch(
        trigger,
        { as: "posts", size: 2, within: "1 minute", attempts: 1 },
        (events) =>
          Effect.gen(function*() {
            yield* Plugin.Journal.once("first", Schema.Number, Effect.succeed(1))
            if (posts++ === 0) return
            yield* Plugin.Journal.once(`post ${events.length}`, Schema.Number, Effect.succeed(1))
            if (events.some(({ recordId }) => recordId === "a2")) yield* new Plugin.Permanent({ message: "poison" })
          })
      )
      const { delivery, plugins } = yield* rig.start([plugin])
      for (const id of ["a1", "a2"]) yield* rig.append(id)
      yield* delivered(rig, delivery)
      yield* plugins.replay({ plugin: "poster", handler: "posts", fresh: false })
      yield* delivered(rig, delivery)
      const [letter] = yield* rig.deliveries.deadLetters({ limit: 10 })
      const detail = yield* rig.deliveries.deadLetterDetail(letter?.id ?? 0)
      assert.deepStrictEqual(detail?.journal.map(({ step }) => step).toSorted(), ["first", "post 1", "post 2"])
    }))

  it.effect("a replayed batch that mixes old and new events repeats and skips nothing (L4)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin, posted } = linker(3)
      const { delivery, plugins } = yield* rig.start([plugin])
      const positions: Array<number> = []
      for (const id of ["a1", "a2", "a3"]) positions.push(yield* rig.append(id))
      yield* delivered(rig, delivery)
      // waits for its batch to fill
      yield* rig.append("a4")
      yield* rig.quiet(delivery)
      yield* plugins.replay({ ...request, from: `${rig.store.identity.store}-1-${positions[1]}` })
      yield* rig.append("a5")
      yield* delivered(rig, delivery)
      yield* delivered(rig, delivery)
      assert.deepStrictEqual(linksOf(rig), both("a1", "a2", "a3", "a4", "a5"))
      assert.deepStrictEqual(posted.flatMap((ids) => ids.split(" ")).toSorted(), ["a1", "a2", "a3", "a4", "a5"])
    }))

  it.effect("a fresh replay does everything once more, even if the events run in separate batches (L4)", () =>
    Effect.gen(function*() {
      const { delivery, plugins, posted, rig } = yield* batched(3, ["a1", "a2", "a3"])
      yield* plugins.replay({ ...request, fresh: true })
      yield* delivered(rig, delivery)
      assert.deepStrictEqual(linksOf(rig), both("a1", "a2", "a3").flatMap((link) => [link, link]))
      assert.deepStrictEqual(posted, ["a1 a2 a3", "a1 a2 a3"])
    }))

  it.effect("a fresh replay runs the batch step even for members that are delivered later than the others (I1)", () =>
    Effect.gen(function*() {
      const { delivery, plugins, posted, rig } = yield* batched(3, ["a1", "a2", "a3"])
      // the second replay of a2 waits for the first one, because both have the same record
      yield* plugins.replay({
        ...request,
        fresh: true,
        from: `${rig.store.identity.store}-1-2`,
        to: `${rig.store.identity.store}-1-2`
      })
      yield* TestClock.adjust("1 second")
      yield* plugins.replay({ ...request, fresh: true })
      yield* delivered(rig, delivery)
      yield* delivered(rig, delivery)
      const [, ...fresh] = posted
      assert.deepStrictEqual(fresh.flatMap((ids) => ids.split(" ")).toSorted(), ["a1", "a2", "a2", "a3"])
    }))

  it.effect("a replay shares the journal with the halves of the first batch, and with a redrive (L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let broken = true
      const { plugin, posted } = linker(
        4,
        (ids) => broken && ids.includes("a3") ? new Plugin.Permanent({ message: "no" }) : Effect.void
      )
      const { delivery, plugins } = yield* rig.start([plugin])
      for (const id of ["a1", "a2", "a3", "a4"]) yield* rig.append(id)
      yield* delivered(rig, delivery)
      yield* rig.dead(1)
      broken = false
      yield* plugins.replay(request)
      yield* delivered(rig, delivery)
      yield* rig.redrive
      yield* rig.empty
      assert.deepStrictEqual(linksOf(rig), both("a1", "a2", "a3", "a4"))
      assert.deepStrictEqual(posted, ["a1 a2 a3 a4"])
    }))

  it.effect("a redriven dead letter finds the results of an earlier replay in the journal (L7)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let broken = true
      const done: Array<string> = []
      const plugin = Plugin.make("linker").batch(
        trigger,
        { as: "links", size: 2, within: "1 minute", onDeadLetter: "skip" },
        (events) =>
          Effect.gen(function*() {
            if (broken) return yield* new Plugin.Permanent({ message: "no" })
            const ids = events.map(({ recordId }) => recordId).join(" ")
            yield* Plugin.Journal.once("post", Schema.Number, Effect.sync(() => done.push(ids)))
          })
      )
      const { delivery, plugins } = yield* rig.start([plugin])
      for (const id of ["a1", "a2"]) yield* rig.append(id)
      yield* delivered(rig, delivery)
      yield* rig.dead(2)
      broken = false
      yield* plugins.replay(request)
      yield* delivered(rig, delivery)
      yield* rig.redrive
      yield* rig.empty
      assert.deepStrictEqual(done.toSorted(), ["a1", "a2"])
    }))

  it.effect("a dry run of a replayed batch uses the journal that the replay would find", () =>
    Effect.gen(function*() {
      const { plugins } = yield* batched(3, ["a1", "a2", "a3"])
      const { results } = yield* plugins.dryRun({ ...request, limit: 10 })
      assert.deepStrictEqual(results.map(({ integration, requests }) => [integration, requests]), [[acme, []]])
    }))

  it.effect("the journal is kept while a replayed batch waits, even after the log was pruned (L4)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugin } = linker(2)
      const first = yield* rig.start([plugin])
      for (const id of ["a1", "a2"]) yield* rig.append(id)
      yield* delivered(rig, first.delivery)
      yield* rig.deliveries.setSwitch({ _tag: "Plugin", plugin: "linker", integration: null }, false, action)
      yield* first.plugins.replay(request)
      yield* TestClock.adjust("1 second")
      yield* rig.append("b1", { integration: "lever:beta" })
      yield* rig.store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 2 })
      yield* rig.deliveries.prune(Number.MAX_SAFE_INTEGER)
      yield* rig.deliveries.setSwitch({ _tag: "Plugin", plugin: "linker", integration: null }, true, action)
      yield* delivered(rig, first.delivery)
      assert.deepStrictEqual(linksOf(rig).filter((link) => link.startsWith("a")), both("a1", "a2"))
      assert.isAbove(yield* rig.deliveries.prune(Number.MAX_SAFE_INTEGER), 0)
    }))
})
