import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import kafkajs from "kafkajs"
import { randomUUID } from "node:crypto"
import { copyFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { controlTopicOf, progressTopicOf } from "../../../src/publish/kafka/TopicNames.ts"
import { Broker, layer as broker, missing as noBroker } from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { inDirectory, runCommand, sandboxed, type Serve, type Start } from "./Program.ts"

const missing = noBroker ?? Kcat.missing

/** Runs a command, whose exit code is this. */
const ending = async (code: number, args: ReadonlyArray<string>, environment: Readonly<Record<string, string>>) => {
  const ended = await runCommand(args, environment)
  assert.strictEqual(ended.code, code, ended.stderr + ended.stdout)
  return ended
}

/** Changes that happen between the backup and its restore. */
const kinds = ["applied", "renamed_employee", "stage_moved", "applied"] as const

const begin = async (directory: string, serve: Serve) => {
  const { environment, sandbox: { integrations: [integration = ""], mutate } } = await sandboxed(serve, directory)
  const live = async (times: number) => {
    for (let time = 0; time < times; time++) {
      await mutate({ op: "simulate", integration, kind: kinds[time % kinds.length]! })
    }
  }
  const own: Readonly<Record<string, string>> = {
    ...environment,
    ROLLCALL_LISTS: "hris.employee=/hris/employees",
    ROLLCALL_MODELS: "ats.application,hris.employee"
  }
  return { environment: own, live }
}

/** Every record that the store publishes, read over HTTP while Kafka is left out. */
const recordsOf = async (environment: Readonly<Record<string, string>>, start: Start) => {
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
}

/** The records of a consumer that reads a topic from its beginning and drops the generations that progress declares void. */
const folded = Effect.fnUntraced(function*(brokers: ReadonlyArray<string>, topic: string) {
  interface Known {
    readonly generation: number
    readonly version: number
    readonly after: unknown
  }
  const known = new Map<string, Known>()
  for (const { key, payload } of yield* Kcat.read(brokers, topic)) {
    const { after, generation, version }: Known = JSON.parse(payload ?? "")
    const before = known.get(key)
    if (before === undefined || generation > before.generation || version > before.version) {
      known.set(key, { generation, version, after })
    }
  }
  const progress = new Map(
    (yield* Kcat.read(brokers, progressTopicOf(topic))).map(({ key, payload }) => [key, payload])
  )
  const generationOf = (key: string) => JSON.parse(progress.get(key.split("/").slice(0, -1).join("/")) ?? "").generation
  const kept = [...known].filter(([key, { after, generation }]) => after !== null && generation >= generationOf(key))
  return new Map(kept.map(([key, { after }]) => [key, after]))
})

describe("store adopt", () => {
  it("shows its plan and is refused until it is confirmed and no process answers; then old positions get 410 with a hint, and the new generation has all records", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await begin(directory, serve)
      const api = `http://127.0.0.1:${environment["ROLLCALL_HTTP_PORT"]}`
      const adopt = (...args: ReadonlyArray<string>) => runCommand(["store", "adopt", ...args], environment)
      const served = async <A>(use: () => Promise<A>) => {
        const service = start(["start"], environment)
        await service.says(/"message":"started"/, "stderr")
        const result = await use()
        assert.strictEqual((await service.stop()).code, 0)
        return result
      }
      const none = await adopt("--yes")
      assert.strictEqual(none.code, 1)
      assert.include(none.stderr, "there is no store at")
      await ending(0, ["start", "--once"], environment)
      const old = await served(async () => {
        const refused = await adopt("--yes")
        assert.strictEqual(refused.code, 1)
        assert.include(refused.stderr, "a Rollcall process is running")
        return (await (await fetch(`${api}/v1/events?after=latest`)).json()).next
      })
      const unconfirmed = await adopt()
      assert.strictEqual(unconfirmed.code, 1)
      assert.match(unconfirmed.stdout, /^generation {4}1 becomes \d+$/m)
      assert.match(unconfirmed.stdout, /^republished {3}\d+ live records of 2 streams/m)
      assert.include(unconfirmed.stderr, "--yes")
      const done = await adopt("--yes", "--json")
      assert.strictEqual(done.code, 0, done.stderr)
      const plan: { readonly from: number; readonly to: number } = JSON.parse(done.stdout)
      assert.strictEqual(plan.from, 1)
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
          assert.deepStrictEqual([stream.generation, events[0].data.generation], [plan.to, plan.to])
          assert.isBelow(Date.parse(stream.complete_to), Date.parse(stream.watermark))
          assert.match(stream.position, new RegExp(`-${plan.to}-\\d+-[\\w-]{22}$`))
        }
      })
    }))
})

describe.skipIf(missing !== null)(`store adopt with Kafka${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  layer(broker, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
    it.effect("a restored store stops the relay, doctor reports why, and after adoption a consumer has the current records (X14)", () =>
      Effect.gen(function*() {
        const { brokers } = yield* Broker
        const topic = `adopt-${randomUUID()}`
        const truth = yield* Effect.promise(() =>
          inDirectory(async (directory, start, serve) => {
            const { environment, live } = await begin(directory, serve)
            const kafka = { ...environment, ROLLCALL_TOPIC: topic, KAFKA_BROKERS: brokers.join(",") }
            const [file, backup] = [join(directory, "rollcall.db"), join(directory, "backup.db")]
            await ending(0, ["start", "--once"], kafka)
            copyFileSync(file, backup)
            await live(24)
            await ending(0, ["start", "--once"], kafka)
            copyFileSync(backup, file)
            await live(4)

            const stopped = await ending(1, ["start", "--once"], kafka)
            assert.include(stopped.stderr, "rollcall store adopt")
            const sick = await ending(1, ["doctor"], kafka)
            assert.match(sick.stdout, /problem {2}kafka: has events that this store did not publish/)

            await ending(0, ["store", "adopt", "--yes"], kafka)
            await ending(0, ["start", "--once"], kafka)
            await ending(0, ["doctor"], kafka)

            return await recordsOf(environment, start)
          })
        )
        assert.deepStrictEqual(yield* folded(brokers, topic), truth)
      }))

    it.effect("a new store stops on topics of another store, doctor warns before it is created, and after adoption a consumer has the current records (X14)", () =>
      Effect.gen(function*() {
        const { brokers } = yield* Broker
        const topic = `adopt-${randomUUID()}`
        const truth = yield* Effect.promise(() =>
          inDirectory(async (directory, start, serve) => {
            const { environment, live } = await begin(directory, serve)
            const first = { ...environment, ROLLCALL_TOPIC: topic, KAFKA_BROKERS: brokers.join(",") }
            await ending(0, ["start", "--once"], first)
            await live(24)
            const before = await runCommand(["start", "--once"], first)
            assert.match(before.stderr, /"message":"store opened".*"new":false/)
            await live(4)

            const file = join(directory, "lost.db")
            const lost = { ...first, ROLLCALL_STORE: `sqlite:${file}` }
            const sick = await ending(1, ["doctor"], lost)
            assert.match(
              sick.stdout,
              /problem {2}kafka: the topics were written by another store.*does not exist yet/
            )
            // a store that cannot be read gives nothing to compare
            const unreadable = join(directory, "unreadable.db")
            writeFileSync(unreadable, "no database ".repeat(1_000))
            const unknown = await runCommand(["doctor"], { ...first, ROLLCALL_STORE: `sqlite:${unreadable}` })
            assert.match(unknown.stdout, /problem {2}store: /)
            assert.match(unknown.stdout, /ok {7}kafka: /)
            assert.notInclude(unknown.stdout, "problem  kafka")
            const stopped = await ending(1, ["start", "--once"], lost)
            assert.include(stopped.stderr, `"message":"store created","store":"${file}"`)
            for (const remedy of ["rollcall store adopt", "ROLLCALL_TOPIC"]) assert.include(stopped.stderr, remedy)
            const service = start(["start"], lost)
            await service.says(/publishing stopped/, "stderr")
            await service.says(/"message":"started"/, "stderr")
            const ready = await fetch(`http://127.0.0.1:${environment["ROLLCALL_HTTP_PORT"]}/health/ready`)
            assert.strictEqual(ready.status, 503)
            assert.include(await ready.text(), "written by another store")
            await service.stop()

            await ending(0, ["store", "adopt", "--yes"], lost)
            await ending(0, ["start", "--once"], lost)
            await ending(0, ["doctor"], lost)
            const old = await ending(1, ["start", "--once"], first)
            assert.include(old.stderr, "written by another store")
            return await recordsOf({ ...environment, ROLLCALL_STORE: `sqlite:${file}` }, start)
          })
        )
        assert.deepStrictEqual(yield* folded(brokers, topic), truth)
      }))

    it.effect("topics with records that no checkpoint covers are refused (X14)", () =>
      Effect.gen(function*() {
        const { brokers } = yield* Broker
        const topic = `adopt-${randomUUID()}`
        yield* Effect.promise(() =>
          inDirectory(async (directory, _, serve) => {
            const { environment } = await begin(directory, serve)
            const kafka = { ...environment, ROLLCALL_TOPIC: topic, KAFKA_BROKERS: brokers.join(",") }
            await ending(0, ["start", "--once"], kafka)
            const admin = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING }).admin()
            await admin.connect()
            await admin.deleteTopics({ topics: [controlTopicOf(topic)] })
            await admin.disconnect()
            const lost = { ...kafka, ROLLCALL_STORE: `sqlite:${join(directory, "lost.db")}` }
            const sick = await runCommand(["doctor"], lost)
            assert.match(sick.stdout, new RegExp(`problem {2}kafka: ${topic}: holds records`))
            for (const environment of [kafka, lost]) {
              const stopped = await ending(1, ["start", "--once"], environment)
              assert.match(stopped.stderr, /publishing stopped: .*holds records.*store adopt.*ROLLCALL_TOPIC/)
            }
          })
        )
      }))
  })
})
