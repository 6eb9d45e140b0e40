/** Brokers with an IPv6 address. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { networkInterfaces } from "node:os"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { type RecordKey } from "../../../src/publish/Sink.ts"
import * as Broker from "../kafka/Broker.ts"
import { describeWithDrivers } from "../kafka/Drivers.ts"
import { entries } from "./Entries.ts"
import { opened, stream } from "./Publishing.ts"

const hasIpv6 = Object.values(networkInterfaces()).some((own) => own?.some(({ address }) => address === "::1"))
const missing = Broker.missing ?? (Broker.configured ? hasIpv6 ? null : "no ::1" : "the broker is not ours")

const services = Broker.separate({
  properties: ({ controller, plain, sasl, spare }) => `
listeners=PLAIN://127.0.0.1:${plain},SASL://127.0.0.1:${sasl},V6://[::1]:${spare},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=PLAIN://127.0.0.1:${plain},SASL://127.0.0.1:${sasl},V6://[::1]:${spare}
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,V6:PLAINTEXT,CONTROLLER:PLAINTEXT
`
})

describeWithDrivers("a broker with an IPv6 address", missing, services, (it) => {
  it.effect("gets the events, and is read", () =>
    Effect.gen(function*() {
      const { spare } = yield* Broker.Broker
      const brokers = (spare ?? []).map((address) => address.replace("127.0.0.1", "[::1]"))
      const { identity, options, sink } = yield* opened({ brokers, state: true })
      yield* sink.publish(identity, entries(1, 20))
      assert.strictEqual((yield* sink.open(identity))?.position, 20)
      const seen: Array<RecordKey> = []
      yield* sink.reconcile(identity, [stream], (records) => {
        seen.push(...records)
        return Effect.succeed([])
      })
      assert.isAbove(seen.length, 0)
      assert.strictEqual((yield* KafkaSink.inspect(options, identity)).blocker, null)
    }))
})
