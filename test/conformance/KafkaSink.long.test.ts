/** The pairs of a driver and a format that `Sink.test.ts` does not have. */
import { kafkaSuite } from "./KafkaSink.ts"

kafkaSuite("kafkajs", "debezium")
kafkaSuite("platformatic", "cloudevents")
