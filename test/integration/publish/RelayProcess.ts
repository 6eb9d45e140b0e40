/**
 * A relay in a separate process that tests can kill: publishes a store's log to a broker until it is stopped.
 * Arguments: store file, broker, topic template, driver.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Layer from "effect/Layer"
import { flushCompileCache } from "node:module"
import * as KafkaSink from "../../../src/publish/kafka/KafkaSink.ts"
import { Relay } from "../../../src/publish/Relay.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"

// a process that is killed would not keep its compiled code for the next one
flushCompileCache()

const [file = "", broker = "", topic = "", driver] = process.argv.slice(2)

Relay.layer.pipe(
  Layer.provide(
    KafkaSink.layer({
      brokers: [broker],
      ssl: false,
      topic,
      transactions: true,
      driver: driver === "platformatic" ? driver : "kafkajs"
    })
  ),
  Layer.provide(Sqlite.layer({ file })),
  Layer.launch,
  NodeRuntime.runMain
)
