/**
 * Reads topics with kcat, which shares no code with the producer under test.
 *
 * Gotchas
 * - A commit is acknowledged before readers can see it: the broker notifies the partitions afterwards.
 * - kcat knows that it is at the end of a partition once the broker has answered without a message. The broker waits for a message for
 *   `fetch.wait.max.ms` before it does, by default half a second.
 * - kcat does not decode CloudEvents: `cloudEvent` decodes its messages with the official library.
 */
import { CloudEvent, Kafka } from "cloudevents"
import * as Effect from "effect/Effect"
import { execFile, execFileSync } from "node:child_process"
import { promisify } from "node:util"

export interface Message {
  readonly partition: number
  readonly offset: number
  readonly key: string
  readonly headers: Readonly<Record<string, string>>
  readonly payload: string | null
}

/** Why kcat cannot be used on this machine; null if it can. */
export const missing = ((): string | null => {
  try {
    execFileSync("kcat", ["-V"], { stdio: "ignore" })
    return null
  } catch {
    return "no kcat"
  }
})()
if (missing !== null && process.env.CI === "true") throw new Error(`these tests need kcat: ${missing}`)

interface Row {
  readonly partition: number
  readonly offset: number
  readonly key: string
  readonly headers?: ReadonlyArray<string>
  readonly payload: string | null
}

const headersOf = (flat: ReadonlyArray<string>): Record<string, string> =>
  Object.fromEntries(flat.flatMap((name, index) => index % 2 === 0 ? [[name, flat[index + 1] ?? ""]] : []))

interface Consumed {
  readonly messages: ReadonlyArray<Message>
  /** Per partition, the offset at which reading ended. */
  readonly ends: ReadonlyMap<string, number>
}

const consume = async (
  brokers: ReadonlyArray<string>,
  topic: string,
  from: "beginning" | "end",
  isolation: "read_committed" | "read_uncommitted"
): Promise<Consumed> => {
  const settings = [`isolation.level=${isolation}`, "fetch.wait.max.ms=10"].flatMap((setting) => ["-X", setting])
  const { stderr, stdout } = await promisify(execFile)(
    "kcat",
    ["-C", "-b", brokers.join(","), "-t", topic, "-o", from, "-e", "-J", ...settings],
    { maxBuffer: 512 * 1024 * 1024, timeout: 60_000 }
  )
  const messages = stdout.split("\n").filter((line) => line !== "").map((line) => {
    const row: Row = JSON.parse(line)
    return { ...row, headers: headersOf(row.headers ?? []) }
  })
  // kcat interleaves the partitions as their answers arrive
  messages.sort((one, other) => one.partition - other.partition || one.offset - other.offset)
  const ends = [...stderr.matchAll(/\[(\d+)\] at offset (\d+)/g)].map(([, partition = "", offset]) =>
    [partition, Number(offset)] as const
  )
  return { messages, ends: new Map(ends) }
}

const patienceMillis = 30_000

/** All committed messages of a topic, one partition after the other; waits until no transaction is open. */
export const read = (
  brokers: ReadonlyArray<string>,
  topic: string,
  isolation: "read_committed" | "read_uncommitted" = "read_committed"
): Effect.Effect<ReadonlyArray<Message>> =>
  Effect.promise(async () => {
    if (isolation === "read_uncommitted") return (await consume(brokers, topic, "beginning", isolation)).messages
    const newest = await consume(brokers, topic, "end", "read_uncommitted")
    const end = Date.now() + patienceMillis
    for (;;) {
      const { ends, messages } = await consume(brokers, topic, "beginning", isolation)
      if ([...newest.ends].every(([partition, offset]) => (ends.get(partition) ?? 0) >= offset)) return messages
      if (Date.now() > end) throw new Error(`a transaction on ${topic} stayed open`)
    }
  })

/** The names of the existing topics. */
export const topics = (brokers: ReadonlyArray<string>): Effect.Effect<ReadonlySet<string>> =>
  Effect.promise(async () => {
    const { stdout } = await promisify(execFile)("kcat", ["-L", "-J", "-b", brokers.join(",")], { timeout: 60_000 })
    const found: { readonly topics: ReadonlyArray<{ readonly topic: string }> } = JSON.parse(stdout)
    return new Set(found.topics.map(({ topic }) => topic))
  })

/** The message as decoded by the CloudEvents library. */
export const cloudEvent = (message: Message): CloudEvent<unknown> => {
  const received = {
    key: message.key,
    value: message.payload,
    headers: { ...message.headers },
    body: message.payload,
    timestamp: ""
  }
  const event = Kafka.toEvent(received)
  if (!(event instanceof CloudEvent)) throw new Error("the message is not one CloudEvent")
  return event
}
