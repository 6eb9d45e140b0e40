/** Forgetting a record that very many others repeat, now or in earlier versions. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import {
  apply,
  candidate,
  entries,
  forgetNow,
  integration,
  later,
  scenario,
  startProcess
} from "../../../test/support/capture/ForgettingWorld.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import { Store } from "../../store/Store.ts"

const count = 60
const tag = { id: "t-1", name: "in-therapy" }

describe("forgetting a tag", () => {
  it.effect(
    "that more applications repeat than fit into a transaction removes it from all of them, in transactions of bounded size (I9, I11)",
    () =>
      scenario(function*(world) {
        for (let index = 0; index < count; index++) {
          const name = `p${index}`
          apply(world, `a-${name}`, name, start, { candidate: { ...candidate(name, start), tags: [tag] } })
        }
        const store = yield* Store
        const sizes: Array<number> = []
        const noted: Array<string> = []
        const process = yield* Effect.provideService(startProcess, Store, {
          ...store,
          noteForgetting: (owner, record, progress) => {
            noted.push(`${progress.done} of ${progress.total}`)
            return store.noteForgetting(owner, record, progress)
          },
          transact: (owner, key, use) =>
            store.transact(owner, key, (tx) =>
              use({
                ...tx,
                write: (records, derived) => {
                  sizes.push(records.length)
                  return tx.write(records, derived)
                }
              }))
        })
        // a third of the candidates lost the tag meanwhile: only an earlier version has it
        for (let index = 0; index < count; index += 3) apply(world, `a-p${index}`, `p${index}`, later(4))
        yield* TestClock.adjust("10 minutes")
        assert.isAbove(world.inFiles(tag.name), count)
        sizes.length = 0
        const record = { integration, model: "ats.tag", id: tag.id } as const
        const { copies } = yield* process.plan(record)
        assert.deepStrictEqual(copies.map(({ ids, model, records }) => [model, records, ids.length]), [
          ["ats.application", count, count],
          ["ats.candidate", count, count]
        ])
        yield* forgetNow(process, record)
        yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), store.forgotten), {
          until: (all) => all.every(({ state }) => state === "forgotten"),
          times: 100
        })
        assert.strictEqual(world.inFiles(tag.name), 0)
        assert.isAtMost(Math.max(...sizes), 25)
        assert.deepStrictEqual(noted, [0, 25, 50, 60, 85, 110, 120].map((done) => `${done} of ${2 * count}`))
        const last = new Map((yield* entries).map((entry) => [entry.id, entry]))
        for (let index = 0; index < count; index++) {
          const { after, kind } = last.get(`c-p${index}`) ?? assert.fail(`no candidate ${index}`)
          assert.deepInclude(JSON.parse(after ?? "null"), { tags: [], first_name: `p${index}` }, kind)
        }
      })
  )
})
