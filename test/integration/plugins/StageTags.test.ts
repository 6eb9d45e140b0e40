/** Stages and tags over HTTP: two applications of one candidate, no loop, and a kill at every point. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import stageTags from "../../../plugins/stage-tags/plugin.ts"
import * as Acme from "./Acme.ts"

const model = "ats.application"
const integration = Acme.ats

interface Candidate {
  readonly id: string
  readonly tags: ReadonlyArray<{ readonly name: string }>
}
/** The candidate, as an application shows them. */
const candidateOf = Effect.fnUntraced(function*({ records }: Acme.Acme, application: string) {
  const [shown] = (yield* records(model)).filter(({ id }) => id === application)
  return shown?.["candidate"] as Candidate
})

/** The stage tags of an application's candidate, without the prefix. */
const tagsOf = Effect.fnUntraced(function*(acme: Acme.Acme, application: string) {
  const { tags } = yield* candidateOf(acme, application)
  return tags.flatMap(({ name }) => name.startsWith("Stage: ") ? name.slice("Stage: ".length) : [])
})

const settle = Effect.fnUntraced(function*(acme: Acme.Acme, killPoint?: Acme.KillPoint) {
  yield* acme.read
  yield* acme.deliver([stageTags], killPoint)
})
/** Delivers as a process that starts this many minutes later. */
const later = (acme: Acme.Acme, minutes: number) => acme.deliver([stageTags], Acme.never(), `${minutes} minutes`)

const writes = ({ sandbox }: Acme.Acme) =>
  Effect.map(sandbox.requests, (requests) => requests.filter(({ path }) => path.endsWith("/tags")).length)

const company = Effect.gen(function*() {
  const acme = yield* Acme.make
  yield* settle(acme)
  const stages = yield* acme.records("ats.stage")
  const at = (name: string) => ({ current_stage: String(stages.find((stage) => stage["name"] === name)?.["id"]) })
  return {
    acme,
    applies: (stage: string, more: Readonly<Record<string, string>> = {}) =>
      Effect.map(
        acme.sandbox.mutate({ op: "create", integration, model, links: { ...at(stage), ...more } }),
        ({ id }) => id
      ),
    moves: (id: string, stage: string) =>
      acme.sandbox.mutate({ op: "update", integration, model, id, links: at(stage) }),
    ends: (id: string, outcome: string) =>
      acme.sandbox.mutate({ op: "update", integration, model, id, fields: { outcome } })
  }
})

describe("stage-tags, over HTTP", () => {
  it.live("tags follow the stages of a candidate's two applications, and then no more writes are sent", () =>
    Effect.scoped(Effect.gen(function*() {
      const { acme, applies, ends, moves } = yield* company
      const first = yield* applies("Applied")
      yield* settle(acme)
      assert.deepStrictEqual(yield* tagsOf(acme, first), ["Applied"])

      const { id: candidate } = yield* candidateOf(acme, first)
      const second = yield* applies("Applied", { candidate })
      yield* moves(first, "Interview")
      yield* settle(acme)
      assert.sameMembers(yield* tagsOf(acme, second), ["Applied", "Interview"])

      yield* moves(second, "Interview")
      yield* settle(acme)
      yield* ends(first, "DECLINED")
      yield* settle(acme)
      assert.deepStrictEqual(yield* tagsOf(acme, second), ["Interview"])

      yield* acme.sandbox.mutate({ op: "delete", integration, model, id: second })
      yield* settle(acme)
      assert.deepStrictEqual(yield* tagsOf(acme, first), [])
      assert.deepStrictEqual(yield* acme.deliveries.deadLetters({ limit: 10 }), [])

      const before = yield* writes(acme)
      for (const _ of [1, 2, 3]) yield* settle(acme)
      assert.strictEqual(yield* writes(acme), before)
    })))

  for (const route of [["Interview", "Offer"], ["Interview", "Applied"]]) {
    it.live(`no stale tag is left if lists lag while a candidate moves to ${route.join(" and ")} (L2)`, () =>
      Effect.scoped(Effect.gen(function*() {
        const { acme, applies, moves } = yield* company
        const id = yield* applies("Applied")
        yield* settle(acme)
        yield* acme.lag
        for (const stage of route) {
          yield* moves(id, stage)
          yield* settle(acme)
        }
        yield* acme.catchUp
        yield* later(acme, 2)
        assert.deepStrictEqual(yield* tagsOf(acme, id), route.slice(-1))
        assert.deepStrictEqual(yield* acme.deliveries.deadLetters({ limit: 10 }), [])
        assert.deepStrictEqual(yield* acme.deliveries.backlog, [])
      })))
  }

  it.live("no stale tag is left if lists lag behind writes for another application of the candidate (L2)", () =>
    Effect.scoped(Effect.gen(function*() {
      const { acme, applies, moves } = yield* company
      const first = yield* applies("Applied")
      yield* settle(acme)
      const { id: candidate } = yield* candidateOf(acme, first)
      const second = yield* applies("Interview", { candidate })
      yield* settle(acme)
      yield* acme.lag
      yield* moves(first, "Offer")
      yield* settle(acme)
      yield* moves(second, "Applied")
      yield* settle(acme)
      yield* moves(first, "Final round")
      yield* settle(acme)
      yield* acme.catchUp
      yield* later(acme, 2)
      assert.sameMembers(yield* tagsOf(acme, first), ["Final round", "Applied"])
      assert.deepStrictEqual(yield* acme.deliveries.deadLetters({ limit: 10 }), [])
    })))

  it.live(
    "no stale tag is left if lists lag, wherever the process is killed (L5)",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { acme, applies, moves } = yield* company
        let count = 0
        for (let at = 0;; at++) {
          const id = yield* applies("Applied")
          yield* settle(acme)
          yield* acme.lag
          yield* moves(id, "Interview")
          yield* settle(acme)
          yield* moves(id, "Offer")
          const killPoint = { ...Acme.never(), at }
          yield* settle(acme, killPoint)
          yield* acme.deliver([stageTags])
          yield* acme.catchUp
          yield* later(acme, 2 * (at + 1))
          if (killPoint.label === null) break
          count++
          assert.deepStrictEqual(yield* tagsOf(acme, id), ["Offer"], killPoint.label)
        }
        assert.isAbove(count, 8)
        assert.deepStrictEqual(yield* acme.deliveries.deadLetters({ limit: 10 }), [])
      }))
  )
})
