import { assert } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import { copyFile, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { topicOf } from "../../../src/publish/kafka/TopicNames.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Broker from "../kafka/Broker.ts"
import { currentDriver, describeWithDrivers } from "../kafka/Drivers.ts"
import * as Kcat from "../kafka/Kcat.ts"
import * as Topics from "../kafka/Topics.ts"
import { append } from "./Log.ts"
import { newTemplate, optionsOf, startRelay, stream } from "./Publishing.ts"

const missing = Broker.missing ?? Kcat.missing

/** Event ids as a `read_committed` reader gets them, sorted by position. Asserts that the events of each key are in order. */
const readBack = Effect.fnUntraced(function*(topic: string) {
  const { brokers } = yield* Broker.Broker
  const messages = yield* Kcat.read(brokers, topicOf(topic, stream))
  for (const [key, own] of Map.groupBy(messages, (message) => message.key)) {
    const versions = own.map(({ payload }) => (JSON.parse(payload ?? "") as { readonly version: number }).version)
    assert.deepStrictEqual(versions, versions.map((_, index) => index + 1), key)
  }
  return messages.map((message) => Number(message.headers.ce_id?.split("-")[1])).sort((one, other) => one - other)
})

/** Waits until another process's relay has saved a position after `position`. */
const past = Effect.fnUntraced(function*(position: number) {
  const { readerPosition } = yield* Store
  return yield* Effect.repeat(readerPosition("relay"), {
    until: (saved) => saved > position,
    schedule: Schedule.spaced("20 millis")
  })
})

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "rollcall-relay-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
)

const services = Layer.merge(Broker.layer, Broker.separateOnRequest())

describeWithDrivers("Relay on Kafka", missing, services, (it) => {
  it.effect.skipIf(Broker.separateMissing !== null)(
    "no event is lost or repeated when the broker restarts in the middle (K2)",
    () =>
      Effect.gen(function*() {
        const broker = yield* Broker.Broker
        const topic = newTemplate()
        const relay = yield* startRelay({ topic })
        yield* append(200)
        yield* relay.awaitPosition(200)
        const writing = yield* append(20).pipe(
          Effect.repeat({ schedule: Schedule.spaced("20 millis"), times: 199 }),
          Effect.forkChild
        )
        yield* broker.stop()
        yield* Effect.sleep("1 second")
        yield* broker.start
        yield* Fiber.join(writing)
        yield* relay.awaitPosition(4200)
        assert.deepStrictEqual(yield* readBack(topic), upTo(4200))
      }).pipe(
        Effect.provide(MemoryStore.layer()),
        Effect.provideServiceEffect(Broker.Broker, Effect.flatten(Broker.Separate))
      )
  )

  it.effect(
    "each record's events stay in one partition when partitions are added, and a warning is logged (K2)",
    () => {
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => lines.push(String(message)))
      return Effect.gen(function*() {
        const topic = newTemplate()
        const { brokers } = yield* Broker.Broker
        const relay = yield* startRelay({ topic })
        yield* append(200)
        yield* relay.awaitPosition(200)
        yield* Topics.grow(topicOf(topic, stream), 12)
        yield* relay.end
        const next = yield* startRelay({ topic })
        yield* append(400)
        yield* next.awaitPosition(600)
        assert.deepStrictEqual(yield* readBack(topic), upTo(600))
        const messages = yield* Kcat.read(brokers, topicOf(topic, stream))
        for (const own of Map.groupBy(messages, (message) => message.key).values()) {
          assert.strictEqual(new Set(own.map((message) => message.partition)).size, 1)
        }
        assert.strictEqual(lines.filter((line) => line.includes("has 12 partitions")).length, 1)
        const { identity } = yield* Store
        const { unusedPartitions } = yield* KafkaSink.inspect(yield* optionsOf({ topic, streams: [stream] }), identity)
        assert.deepStrictEqual(unusedPartitions, [{ topic: topicOf(topic, stream), partitions: 12, used: 6 }])
      }).pipe(
        Effect.provide(MemoryStore.layer()),
        Effect.provide(Logger.layer([logger]))
      )
    }
  )

  it.effect(
    "no event is published twice when the relay dies between Kafka's commit and saving the position (X4)",
    () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const store = yield* Store
        yield* append(1200)
        const dead = yield* Deferred.make<void>()
        const dying = Store.of({
          ...store,
          // the position is also saved before the first batch, to check the ownership
          saveReaderPosition: (owner, reader, position) =>
            position === 0
              ? store.saveReaderPosition(owner, reader, position)
              : Effect.andThen(Deferred.succeed(dead, undefined), Effect.die("killed here"))
        })
        yield* Effect.provideService(startRelay({ topic }), Store, dying)
        yield* Deferred.await(dead)
        assert.strictEqual(yield* store.readerPosition("relay"), 0)
        assert.isAbove((yield* readBack(topic)).length, 0)
        const relay = yield* startRelay({ topic })
        yield* relay.awaitPosition(1200)
        assert.deepStrictEqual(yield* readBack(topic), upTo(1200))
      }).pipe(Effect.provide(MemoryStore.layer()))
  )

  /** Starts a relay in a separate process. */
  const spawned = Effect.fnUntraced(function*(file: string, topic: string) {
    const { brokers } = yield* Broker.Broker
    const program = join(import.meta.dirname, "RelayProcess.ts")
    const child = spawn(process.execPath, [program, file, brokers.join(","), topic, currentDriver()], {
      stdio: "ignore"
    })
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
    yield* Effect.addFinalizer(() =>
      Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
    )
    return {
      signal: (name: NodeJS.Signals) => Effect.sync(() => child.kill(name)),
      ended: Effect.promise(() => ended)
    }
  })

  it.effect(
    "readers see each event once when the relay is killed repeatedly at any moment (X4)",
    () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const file = join(yield* folder, "rollcall.db")
        const total = 10_000
        yield* Effect.gen(function*() {
          let position = 0
          for (let round = 0; round < 4; round++) {
            // each process has events to publish, however many the one before it has published
            yield* append(total / 4)
            const child = yield* spawned(file, topic)
            position = yield* past(position)
            yield* Effect.sleep(Math.random() * 150)
            yield* child.signal("SIGKILL")
            yield* child.ended
          }
          const relay = yield* startRelay({ topic })
          yield* relay.awaitPosition(total)
        }).pipe(Effect.provide(Sqlite.layer({ file })))
        assert.deepStrictEqual(yield* readBack(topic), upTo(total))
      })
  )

  it.effect("on SIGTERM the batch in progress is completed and its position is saved", () =>
    Effect.gen(function*() {
      const topic = newTemplate()
      const file = join(yield* folder, "rollcall.db")
      yield* Effect.gen(function*() {
        const store = yield* Store
        yield* append(8_000)
        const child = yield* spawned(file, topic)
        yield* past(0)
        yield* child.signal("SIGTERM")
        yield* child.ended
        assert.deepStrictEqual(yield* readBack(topic), upTo(yield* store.readerPosition("relay")))
      }).pipe(Effect.provide(Sqlite.layer({ file })))
    }))

  it.effect(
    "a relay that was frozen in a transaction is fenced when it resumes, and detects that another store took over (X15)",
    () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const directory = yield* folder
        const [file, copy] = [join(directory, "rollcall.db"), join(directory, "copy.db")] as const
        yield* Effect.provide(append(8_000), Sqlite.layer({ file }))
        yield* Effect.promise(() => copyFile(file, copy))
        const frozen = yield* spawned(copy, topic)
        yield* Effect.provide(past(0), Sqlite.layer({ file: copy }))
        yield* frozen.signal("SIGSTOP")
        yield* Effect.gen(function*() {
          const relay = yield* startRelay({ topic })
          yield* relay.awaitPosition(4_000)
          yield* frozen.signal("SIGCONT")
          yield* append(500)
          yield* relay.awaitPosition(8_500)
          assert.strictEqual((yield* relay.status).state, "running")
        }).pipe(Effect.provide(Sqlite.layer({ file })))
        assert.deepStrictEqual(yield* readBack(topic), upTo(8_500))
      })
  )

  it.effect(
    "an older relay that was frozen while another took over cannot publish when it resumes (X15)",
    () =>
      Effect.gen(function*() {
        const topic = newTemplate()
        const store = yield* Store
        const old = yield* startRelay({ topic })
        yield* append(100)
        yield* old.awaitPosition(100)
        const next = yield* startRelay({ topic })
        yield* next.awaitPosition(100)
        yield* append(500)
        yield* next.awaitPosition(600)
        yield* old.awaitPosition(10_000)
        assert.strictEqual((yield* old.status).state, "stopped")
        assert.strictEqual((yield* next.status).state, "running")
        assert.strictEqual(yield* store.readerPosition("relay"), 600)
        assert.deepStrictEqual(yield* readBack(topic), upTo(600))
      }).pipe(Effect.provide(MemoryStore.layer()))
  )
})
