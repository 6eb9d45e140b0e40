/**
 * The broker of the benchmarks: the one of `KAFKA_BROKERS`, or one that is started. Every contender gets a topic of its own, which is
 * deleted afterwards.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import kafkajs from "kafkajs"
import { randomUUID } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import { Broker, layer } from "../test/integration/kafka/Broker.ts"

const partitions = 3

/** A broker does not know a new topic at once, and the client does not always retry that. */
const whenKnown = async <A>(request: () => Promise<A>): Promise<A> => {
  for (let tries = 1;; tries++) {
    try {
      return await request()
    } catch (error) {
      if (tries === 100 || !(error instanceof kafkajs.KafkaJSError && error.retriable)) throw error
      await setTimeout(100)
    }
  }
}

export class Kafka {
  /** `host:port`, separated by commas. */
  readonly brokers: string
  readonly #scope: Scope.Closeable
  readonly #admin: kafkajs.Admin
  readonly #prefix = `bench-${randomUUID().slice(0, 8)}`
  #topics = 0

  private constructor(brokers: string, scope: Scope.Closeable, admin: kafkajs.Admin) {
    this.brokers = brokers
    this.#scope = scope
    this.#admin = admin
  }

  static async start(): Promise<Kafka> {
    const scope = Scope.makeUnsafe()
    const context = await Effect.runPromise(Layer.buildWithScope(layer, scope))
    const { brokers } = Context.get(context, Broker)
    const admin = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING }).admin()
    await admin.connect()
    return new Kafka(brokers.join(), scope, admin)
  }

  /** The name of a new topic. */
  async topic(): Promise<string> {
    const topic = `${this.#prefix}-${++this.#topics}`
    await this.#admin.createTopics({ topics: [{ topic, numPartitions: partitions }], waitForLeaders: false })
    await whenKnown(() => this.size(topic))
    return topic
  }

  /** Messages in the topic; those that mark the end of a transaction count as well. */
  async size(topic: string): Promise<number> {
    const offsets = await this.#admin.fetchTopicOffsets(topic)
    return offsets.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0)
  }

  /** Waits until the topic has this many messages. */
  async untilSize(topic: string, size: number, limitSeconds = 600): Promise<void> {
    const limit = Date.now() + limitSeconds * 1000
    while (await this.size(topic) < size) {
      if (Date.now() > limit) throw new Error(`${topic} has not ${size} messages after ${limitSeconds} s`)
      await setTimeout(40)
    }
  }

  /** Deletes the topics, and those that the service added to them. */
  async deleteTopics(): Promise<void> {
    const topics = (await this.#admin.listTopics()).filter((topic) => topic.startsWith(this.#prefix))
    if (topics.length > 0) await this.#admin.deleteTopics({ topics })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.deleteTopics()
    await this.#admin.disconnect()
    await Effect.runPromise(Scope.close(this.#scope, Exit.void))
  }
}
