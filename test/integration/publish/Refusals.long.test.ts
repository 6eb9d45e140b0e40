import { assert, describe, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFile } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import * as Broker from "../kafka/Broker.ts"
import { newStore, opened, sinkOf } from "./Publishing.ts"

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

describe.skipIf(missing !== null)(
  `what keeps Kafka from being used${missing === null ? "" : ` (skipped: ${missing})`}`,
  () => {
    suite(broker, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
      it.effect(
        "a cluster without transactions is reported with the setting that disables them, and then publishing works (X10)",
        () =>
          Effect.gen(function*() {
            const { message } = yield* Effect.flip(opened())
            assert.include(message, "ROLLCALL_KAFKA_TRANSACTIONS=off")
            assert.isNull(yield* Effect.flatMap(sinkOf({ transactions: false }), (sink) => sink.open(newStore())))
          })
      )

      it.effect("plaintext to a TLS port is reported (X10)", () =>
        Effect.gen(function*() {
          const { sasl } = yield* Broker.Broker
          const { message } = yield* Effect.flip(opened({ brokers: sasl ?? [] }))
          assert.include(message, `${sasl?.[0]} speaks TLS and KAFKA_SSL is off`)
        }))

      it.effect("TLS to a plaintext port is reported (X10)", () =>
        Effect.gen(function*() {
          const { brokers } = yield* Broker.Broker
          const { message } = yield* Effect.flip(opened({ ssl: true }))
          assert.include(message, `${brokers[0]} speaks plaintext and KAFKA_SSL is on`)
        }))

      it.effect("an untrusted certificate is reported with the way to trust it (X10)", () =>
        Effect.gen(function*() {
          const { sasl } = yield* Broker.Broker
          const { message } = yield* Effect.flip(opened({ brokers: sasl ?? [], ssl: true }))
          assert.include(message, "KAFKA_SSL_CA_FILE")
        }))
    })
  }
)
