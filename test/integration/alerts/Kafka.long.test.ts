/** Alerts on publishing: a real broker is stopped. */
import { assert, describe } from "@effect/vitest"
import { startBroker } from "../kafka/Broker.ts"
import * as Broker from "../kafka/Broker.ts"
import { createTags, make, test, watched } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const missing = Prometheus.missing ?? Broker.separateMissing

describe.skipIf(missing !== null)(`alerts on publishing${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  test(
    "RollcallKafkaUnavailable and RollcallPublishingLate fire while the broker is gone, and end when it is back",
    7,
    function*() {
      const { brokers, start, stop } = yield* startBroker("")
      const service = yield* make({
        environment: { KAFKA_BROKERS: brokers.join(), ROLLCALL_ALLOW_PLAINTEXT: "kafka" }
      })
      const prometheus = yield* watched(service)
      yield* stop("SIGKILL")
      yield* createTags(service, 1, "late")
      const [alert] = yield* prometheus.fires("RollcallKafkaUnavailable", "RollcallPublishingLate")
      assert.strictEqual(alert?.labels["severity"], "critical")
      yield* start
      yield* prometheus.clears("RollcallKafkaUnavailable", "RollcallPublishingLate")
      yield* prometheus.quiet
    }
  )
})
