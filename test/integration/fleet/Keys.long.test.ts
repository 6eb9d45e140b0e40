/** Real processes that share one PostgreSQL database, while its encryption key changes. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomBytes } from "node:crypto"
import { parseKey } from "../../../src/domain/EncryptionKey.ts"
import type { FleetView } from "../../../src/http/contract/FleetApi.ts"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import { seed } from "../../fault/kill/Home.ts"
import { contentsOf, judge, quiet } from "../../fault/kill/Lives.ts"
import { until } from "../../fault/kill/Patience.ts"
import { ask, launch, type Service } from "../../fault/kill/Service.ts"
import * as Server from "../postgres/Server.ts"
import { settingsOf, shardsOf, shared } from "./Shards.ts"

const { database } = Server.ofFile()

const models = ["ats.tag"] as const
const [older, newer] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")]
const idOf = (key: string) => parseKey(key)!.id

const fleet = Effect.gen(function*() {
  const sandbox = yield* Sandbox.serve({ seed, integrations: 8, records: 20, speed: 400 })
  const settings = settingsOf(sandbox, yield* database, models)
  /** A process with these keys, the current one first. */
  const join = (...keys: ReadonlyArray<string>) =>
    launch({ ...settings, ...keys.length > 0 && { ROLLCALL_ENCRYPTION_KEY: keys.join("\n") } })
  /** The response of a process, with any status. */
  const status = (service: Service, path: string) =>
    Effect.flatMap(service.url, (url) =>
      Effect.promise(async () => {
        const response = await fetch(`${url}${path}`, { headers: { connection: "close" } })
        return { status: response.status, text: await response.text() }
      }))
  /** The world comes to rest, and a process shows what it has read. */
  const judged = Effect.fnUntraced(function*(last: Service) {
    yield* sandbox.freeze
    const url = yield* last.url
    yield* quiet(url)
    const { differences, oracle } = yield* judge(url, contentsOf(sandbox, models))
    assert.deepStrictEqual([differences, oracle.breaches], [[], []])
  })
  return { join, status, judged }
})

const removable = "all stored content is encrypted with the current key; the others can be removed"

describe.skipIf(Server.missing !== null)(
  `the encryption key of a fleet${Server.missing === null ? "" : `, skipped: ${Server.missing}`}`,
  () => {
    for (const before of [[older], []]) {
      const change = before.length === 0 ? "is switched on" : "changes"
      it.live(
        `${change} process by process: one without the new key hands its work over and says why, and nothing stops (seed ${seed})`,
        () =>
          Effect.scoped(Effect.gen(function*() {
            const { join, judged, status } = yield* fleet
            const first = yield* join(...before)
            const second = yield* join(...before)
            yield* shared(first, second)
            assert.strictEqual(yield* first.end("SIGTERM"), 0, first.log())
            const third = yield* join(newer, ...before)
            yield* until("the one with the new key to own all", Effect.sync(() => shardsOf(third)), (own) => own === 64)

            const ready = yield* until("the other to be unready", status(second, "/health/ready"), (one) =>
              one.status === 503)
            assert.include(ready.text, idOf(newer))
            const url = yield* third.url
            const listed = yield* until(
              "the other to report why",
              Effect.map(ask(url, "/v1/fleet"), (text): FleetView["items"] =>
                JSON.parse(text).items),
              ([other]) =>
                other?.problems.length === 1
            )
            assert.deepStrictEqual(listed.map(({ shards }) => shards), [0, 64])
            assert.include(listed[0]!.problems[0]!.reason, `the key ${idOf(newer)}, which this process does not have`)
            assert.strictEqual((yield* status(third, "/v1/events")).status, 200)
            assert.isTrue(second.alive(), second.log())
            for (const { log } of [second, third]) assert.notMatch(log(), /damaged|restore the store/)

            assert.strictEqual(yield* second.end("SIGTERM"), 0, second.log())
            const fourth = yield* join(newer, ...before)
            yield* shared(third, fourth)
            if (before.length > 0) {
              yield* until(
                "the older key to be retired",
                Effect.sync(() => third.log() + fourth.log()),
                (log) => log.includes(removable)
              )
              const fifth = yield* join(newer)
              yield* shared(third, fourth, fifth)
              const outdated = yield* join(older)
              assert.strictEqual(yield* outdated.ended, 1)
              assert.include(outdated.log(), `the key ${idOf(newer)}, which this process does not have`)
            }
            yield* judged(third)
          }))
      )
    }

    it.live(
      `changes in two phases without handing over for a missing key (seed ${seed})`,
      () =>
        Effect.scoped(Effect.gen(function*() {
          const { join, judged } = yield* fleet
          let running: ReadonlyArray<Service> = [yield* join(older), yield* join(older)]
          yield* shared(...running)
          /** Restarts the processes one after another with these keys. */
          const roll = Effect.fnUntraced(function*(...keys: ReadonlyArray<string>) {
            for (const service of running) {
              assert.strictEqual(yield* service.end("SIGTERM"), 0, service.log())
              assert.notInclude(service.log(), "hands its work over")
              running = [...running.filter((one) => one !== service), yield* join(...keys)]
              yield* shared(...running)
            }
          })
          yield* roll(older, newer)
          yield* roll(newer, older)
          yield* until(
            "the older key to be retired",
            Effect.sync(() => running.map(({ log }) => log()).join("\n")),
            (log) => log.includes(removable)
          )
          yield* roll(newer)
          yield* judged(running[0]!)
        }))
    )
  }
)
