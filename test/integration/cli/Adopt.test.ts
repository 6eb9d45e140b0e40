import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { Broker, layer as broker, missing as noBroker } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { freePort, inDirectory, type Program, run } from "./Program.ts"

const missing = noBroker ?? Kcat.missing

type Start = (...args: ConstructorParameters<typeof Program>) => Program

/** What happens meanwhile. */
const kinds = ["applied", "renamed_tag", "stage_moved", "applied"]

const begin = async (directory: string, start: Start) => {
  const sandbox = start(["sandbox", "--port", "0", "--integrations", "1", "--records", "20", "--speed", "0", "--json"])
  const { integrations, key, url } = JSON.parse((await sandbox.says(/^\{.*\}$/m))[0])
  const live = async (times: number) => {
    for (let time = 0; time < times; time++) {
      const response = await fetch(`${url.replace(/\/v1$/, "")}/_sandbox/mutations`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ op: "live", integration: integrations[0], kind: kinds[time % kinds.length] })
      })
      assert.isTrue(response.ok, await response.text())
    }
  }
  const environment: Record<string, string> = {
    ROLLCALL_API_URL: url,
    ROLLCALL_API_KEY: key,
    ROLLCALL_INTEGRATIONS: integrations.join(","),
    ROLLCALL_MODELS: "ats.application,ats.tag",
    ROLLCALL_STORE: `sqlite:${join(directory, "rollcall.db")}`,
    ROLLCALL_HTTP_PORT: String(await freePort())
  }
  return { environment, live, integration: String(integrations[0]) }
}

describe("store adopt", () => {
  it(
    "without --yes and without a terminal shows what it would do, and does nothing",
    () =>
      inDirectory(async (directory, start) => {
        const { environment } = await begin(directory, start)
        assert.strictEqual((await run(["start", "--once"], environment)).code, 0)
        const asked = await run(["store", "adopt"], environment)
        assert.strictEqual(asked.code, 1)
        assert.match(asked.stdout, /^lineage {6}1 becomes \d+$/m)
        assert.match(asked.stdout, /^anew {9}\d+ live records of 2 streams/m)
        assert.include(asked.stderr, "--yes")
        const done = await run(["store", "adopt", "--yes", "--json"], environment)
        assert.strictEqual(done.code, 0, done.stderr)
        const plan: { readonly from: number; readonly to: number } = JSON.parse(done.stdout)
        assert.strictEqual(plan.from, 1)
        assert.isAbove(plan.to, 1)
      }),
    60_000
  )

  it("is refused while a process answers, and where there is no store", () =>
    inDirectory(async (directory, start) => {
      const { environment } = await begin(directory, start)
      const none = await run(["store", "adopt", "--yes"], environment)
      assert.strictEqual(none.code, 1)
      assert.include(none.stderr, "holds no store")
      const service = start(["start"], environment)
      await service.says(/"message":"started"/, "stderr")
      const refused = await run(["store", "adopt", "--yes"], environment)
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "a Rollcall answers")
      assert.strictEqual((await service.stop()).code, 0)
    }), 60_000)

  it(
    "positions of the old lineage get 410 with a hint, and the records of the new one are there",
    () =>
      inDirectory(async (directory, start) => {
        const { environment } = await begin(directory, start)
        const api = `http://127.0.0.1:${environment["ROLLCALL_HTTP_PORT"]}`
        const served = async <A>(use: () => Promise<A>) => {
          const service = start(["start"], environment)
          await service.says(/"message":"started"/, "stderr")
          const result = await use()
          await service.stop()
          return result
        }
        assert.strictEqual((await run(["start", "--once"], environment)).code, 0)
        const old = await served(async () => (await (await fetch(`${api}/v1/events?after=latest`)).json()).next)
        assert.strictEqual((await run(["store", "adopt", "--yes"], environment)).code, 0)
        await served(async () => {
          const gone = await fetch(`${api}/v1/events?after=${old}`)
          assert.strictEqual(gone.status, 410)
          assert.include((await gone.json()).hint, "GET /v1/records")
          const { events } = await (await fetch(`${api}/v1/events?limit=1000`)).json()
          for (const { data } of events) {
            assert.deepInclude(data, { kind: "created", version: 1, origin: "backfill", before: null })
          }
          const { items } = await (await fetch(`${api}/v1/streams`)).json()
          assert.strictEqual(
            events.length,
            items.reduce((sum: number, stream: { records_live: number }) => sum + stream.records_live, 0)
          )
          for (const stream of items) {
            assert.strictEqual(stream.lineage, events[0].data.lineage)
            assert.isBelow(Date.parse(stream.complete_to), Date.parse(stream.watermark))
            assert.match(stream.position, new RegExp(`-${stream.lineage}-\\d+-[\\w-]{22}$`))
          }
        })
      }),
    60_000
  )
})

describe.skipIf(missing !== null)(`store adopt with Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  layer(broker, { excludeTestServices: true, timeout: "2 minutes" })((it) => {
    it.effect(
      "X14: a restored store stops the relay, doctor says why, and once adopted a consumer ends with the truth",
      () =>
        Effect.gen(function*() {
          const { brokers } = yield* Broker
          const topic = `adopt-${randomUUID()}`
          const truth = yield* Effect.promise(() =>
            inDirectory(async (directory, start) => {
              const { environment, live } = await begin(directory, start)
              const kafka = { ...environment, ROLLCALL_TOPIC: topic, KAFKA_BROKERS: brokers.join(",") }
              const [file, backup] = [join(directory, "rollcall.db"), join(directory, "backup.db")]
              assert.strictEqual((await run(["start", "--once"], kafka)).code, 0)
              copyFileSync(file, backup)
              await live(24)
              assert.strictEqual((await run(["start", "--once"], kafka)).code, 0)
              copyFileSync(backup, file)
              await live(4)

              const stopped = await run(["start", "--once"], kafka)
              assert.strictEqual(stopped.code, 1)
              assert.include(stopped.stderr, "rollcall store adopt")
              const sick = await run(["doctor"], kafka)
              assert.strictEqual(sick.code, 1)
              assert.match(sick.stdout, /problem {2}kafka: holds what this store did not publish/)

              const adopted = await run(["store", "adopt", "--yes"], kafka)
              assert.strictEqual(adopted.code, 0, adopted.stderr)
              const again = await run(["start", "--once"], kafka)
              assert.strictEqual(again.code, 0, again.stderr)
              const well = await run(["doctor"], kafka)
              assert.strictEqual(well.code, 0, well.stdout)

              const records = new Map<string, unknown>()
              const service = start(["start"], environment)
              await service.says(/"message":"started"/, "stderr")
              const api = `http://127.0.0.1:${environment["ROLLCALL_HTTP_PORT"]}`
              const { items } = await (await fetch(`${api}/v1/streams`)).json()
              for (const { integration, model } of items) {
                const page = await fetch(`${api}/v1/records?integration=${integration}&model=${model}&limit=1000`)
                for (const { after, id } of (await page.json()).records) {
                  records.set(`${integration}/${model}/${id}`, after)
                }
              }
              await service.stop()
              return records
            })
          )

          interface Known {
            readonly lineage: number
            readonly version: number
            readonly after: unknown
          }
          const known = new Map<string, Known>()
          for (const { key, payload } of yield* Kcat.read(brokers, topic)) {
            const { after, lineage, version }: Known = JSON.parse(payload ?? "")
            const before = known.get(key)
            if (before === undefined || lineage > before.lineage || version > before.version) {
              known.set(key, { lineage, version, after })
            }
          }
          const progress = new Map(
            (yield* Kcat.read(brokers, "rollcall.progress")).map(({ key, payload }) => [key, payload])
          )
          const lineageOf = (key: string) =>
            JSON.parse(progress.get(key.split("/").slice(0, -1).join("/")) ?? "").lineage
          const kept = [...known].filter(([key, { after, lineage }]) => after !== null && lineage >= lineageOf(key))
          assert.deepStrictEqual(new Map(kept.map(([key, { after }]) => [key, after])), truth)
        }),
      180_000
    )
  })
})
