/**
 * What a relay remembers at the broker itself, in the compacted topic `rollcall.relay`: what it published last, and over
 * how many partitions of each topic it spreads keys.
 *
 * Invariants
 * 1. Of a lineage the keys of a topic are spread over as many partitions as it had at first: the events of a record stay
 *    in one partition, in order, when partitions are added   (I5, K2)
 *
 * Gotchas
 * - Who died inside its last send keeps readers of this topic waiting until the broker ends its transaction: its own
 *   next `open` does that at once, other stores on the same broker wait for it, at most 45 seconds.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import type { LogIdentity } from "../domain/ChangeEvent.ts"
import type { KafkaClient } from "./KafkaClient.ts"
import type { KafkaMessage } from "./KafkaMessage.ts"
import type { KafkaTopic } from "./KafkaTopics.ts"
import { type Published, Refused, SinkError } from "./Sink.ts"

export const controlTopic = "rollcall.relay"
/** Small segments: only what is not in the newest one is compacted, and all that is left is read to recall. */
export const control: KafkaTopic = {
  name: controlTopic,
  keeps: "latest",
  partitions: 1,
  settings: { "segment.bytes": "1048576", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.01" }
}

const LastPublished = Schema.fromJsonString(
  Schema.Struct({
    store: Schema.String,
    lineage: Schema.Int,
    position: Schema.Int,
    chain: Schema.String
  })
)
const Spread = Schema.fromJsonString(
  Schema.Struct({ lineage: Schema.Int, partitions: Schema.Record(Schema.String, Schema.Int) })
)
const encodePublished = Schema.encodeSync(LastPublished)
const encodeSpread = Schema.encodeSync(Spread)

const message = (key: string, value: string): KafkaMessage => ({
  topic: controlTopic,
  key,
  value: Buffer.from(value),
  headers: { "content-type": "application/json" },
  partition: 0
})
const spreadKey = (store: string) => `${store}/partitions`

/** Something to send, so that the broker fences whoever sent before. */
export const opened = ({ store }: LogIdentity): KafkaMessage => message(`${store}/opened`, randomUUID())
export const lastPublished = (published: Published): KafkaMessage =>
  message(published.store, encodePublished(published))
/** Topic → over how many of its partitions keys are spread. */
export const spreadOver = ({ lineage, store }: LogIdentity, partitions: ReadonlyMap<string, number>): KafkaMessage =>
  message(spreadKey(store), encodeSpread({ lineage, partitions: Object.fromEntries(partitions) }))

/** What the newest message of a key says; null if there is none. */
const understood = <A>(
  key: string,
  value: string | undefined,
  decode: (value: unknown) => Option.Option<A>
): Effect.Effect<A | null, SinkError> =>
  value === undefined ? Effect.succeed(null) : Option.match(decode(value), {
    onNone: () =>
      Effect.fail(
        new SinkError({
          reason: new Refused({
            message: `the newest record of ${key} on ${controlTopic} is none that Rollcall wrote`,
            hint: `find out who else writes to ${controlTopic}.`
          })
        })
      ),
    onSome: Effect.succeed
  })

export interface Recollection {
  readonly published: Published | null
  /** Of the newest lineage that published. */
  readonly spread: { readonly lineage: number; readonly partitions: ReadonlyMap<string, number> } | null
}

/** Reads the topic; it must be there. */
export const recall = Effect.fn("KafkaControl.recall")(function*(
  client: KafkaClient,
  store: string
): Effect.fn.Return<Recollection, SinkError> {
  const newest = new Map<string, string | undefined>()
  yield* client.scan(controlTopic, `rollcall-relay-${store}-${randomUUID()}`, (messages) =>
    Effect.sync(() => {
      for (const { key, value } of messages) {
        if (key === store || key === spreadKey(store)) newest.set(key, value)
      }
    }))
  const published = yield* understood(store, newest.get(store), Schema.decodeUnknownOption(LastPublished))
  const spread = yield* understood(
    spreadKey(store),
    newest.get(spreadKey(store)),
    Schema.decodeUnknownOption(Spread)
  )
  return {
    published,
    spread: spread && { lineage: spread.lineage, partitions: new Map(Object.entries(spread.partitions)) }
  }
})
