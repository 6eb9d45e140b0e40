import { assert, describe, layer as suite } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFile } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { Sink } from "../../../src/publish/Sink.ts"
import * as Broker from "../kafka/Broker.ts"

const { separateMissing: missing } = Broker

/** A broker whose second port speaks TLS. It cannot coordinate transactions, which would require two more brokers. */
const broker = Layer.unwrap(Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "rollcall-tls-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )
  const keys = join(folder, "keys.p12")
  const options =
    `-genkeypair -alias broker -keyalg RSA -storetype PKCS12 -keystore ${keys} -storepass secret-keys -dname CN=localhost`
  yield* Effect.promise(() => promisify(execFile)("keytool", options.split(" ")))
  return Broker.separate(`
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SSL,CONTROLLER:PLAINTEXT
ssl.keystore.location=${keys}
ssl.keystore.password=secret-keys
ssl.keystore.type=PKCS12
transaction.state.log.replication.factor=3
`)
}))

const opened = Effect.fnUntraced(function*(brokers: ReadonlyArray<string> | null, ssl: boolean, transactions = true) {
  const options = { brokers: brokers ?? [], ssl, transactions, topic: `refusals-${randomUUID()}.{model}` }
  const sink = Context.get(yield* Layer.build(KafkaSink.layer(options)), Sink)
  return yield* sink.open({ store: "k3f9a2c1", generation: 1 })
})

describe.skipIf(missing !== null)(
  `what keeps Kafka from being used${missing === null ? "" : ` (skipped: ${missing})`}`,
  () => {
    suite(broker, { excludeTestServices: true, timeout: "5 minutes" })((it) => {
      it.effect(
        "a cluster without transactions is reported with the setting that disables them, and then publishing works (X10)",
        () =>
          Effect.gen(function*() {
            const { brokers } = yield* Broker.Broker
            const { message } = yield* Effect.flip(opened(brokers, false))
            assert.include(message, "ROLLCALL_KAFKA_TRANSACTIONS=off")
            assert.isNull(yield* opened(brokers, false, false))
          }),
        180_000
      )

      it.effect("plaintext to a TLS port is reported (X10)", () =>
        Effect.gen(function*() {
          const { sasl } = yield* Broker.Broker
          const { message } = yield* Effect.flip(opened(sasl, false))
          assert.include(message, `${sasl?.[0]} speaks TLS and KAFKA_SSL is off`)
        }), 180_000)

      it.effect("TLS to a plaintext port is reported (X10)", () =>
        Effect.gen(function*() {
          const { brokers } = yield* Broker.Broker
          const { message } = yield* Effect.flip(opened(brokers, true))
          assert.include(message, `${brokers[0]} speaks plaintext and KAFKA_SSL is on`)
        }), 180_000)

      it.effect("an untrusted certificate is reported with the way to trust it (X10)", () =>
        Effect.gen(function*() {
          const { sasl } = yield* Broker.Broker
          const { message } = yield* Effect.flip(opened(sasl, true))
          assert.include(message, "KAFKA_SSL_CA_FILE")
        }), 180_000)

      it.effect("a missing broker is reported as unreachable", () =>
        Effect.gen(function*() {
          for (const ssl of [true, false]) {
            const { message } = yield* Effect.flip(opened(["127.0.0.1:1"], ssl))
            assert.include(message, "Check KAFKA_BROKERS")
          }
        }), 180_000)
    })
  }
)
