import { assert, describe, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Kafka, logLevel } from "kafkajs"
import { execFile, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { freePort } from "../../support/services/FreePort.ts"
import { inDirectory, type Program } from "../cli/Program.ts"
import * as Broker from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import * as Topics from "../kafka/Topics.ts"
import { type Command, toolchains } from "./Toolchains.ts"

const exec = promisify(execFile)
const models = ["ats.application", "ats.candidate", "ats.tag"]

type Start = (...args: ConstructorParameters<typeof Program>) => Program

/** Calls `ask` until it returns something. */
const until = async <A>(what: string, ask: () => Promise<A | null | undefined | false>): Promise<A> => {
  const end = Date.now() + 180_000
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    if (Date.now() > end) throw new Error(`waited for three minutes: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Publishes the first message of each key again, as a producer without idempotence may do long afterwards. */
const repeatFirst = async (brokers: ReadonlyArray<string>, topic: string) => {
  const messages = await Effect.runPromise(Kcat.read(brokers, topic))
  const first = [...Map.groupBy(messages, ({ key }) => key).values()].map(([message]) => message!)
  const producer = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  try {
    await producer.send({
      topic,
      messages: first.map(({ headers = {}, key, partition, payload }) => ({ headers, key, partition, value: payload }))
    })
  } finally {
    await producer.disconnect()
  }
}

interface Held {
  readonly integration: string
  readonly model: string
  readonly id: string
  readonly generation: number
  readonly version: number
  readonly after: { readonly name?: string }
}

const sorted = (records: ReadonlyArray<Held>) =>
  records.map(({ after, generation, id, integration, model, version }) => (
    { integration, model, id, generation, version, after }
  )).toSorted((one, other) => `${one.model}/${one.id}` < `${other.model}/${other.id}` ? -1 : 1)

/** A sandbox, and Rollcall publishing it under a template of its own. */
const service = async (start: Start, directory: string, template: string, brokers: ReadonlyArray<string>) => {
  const sandbox = start(["sandbox", "--port", "0", "--records", "20", "--speed", "0", "--integrations", "1", "--json"])
  const { integrations: [id], key, url } = JSON.parse((await sandbox.says(/^\{.*\}$/m))[0])
  const port = String(await freePort())
  writeFileSync(
    join(directory, "rollcall.config.ts"),
    `import { defineConfig } from "rollcall"
const kafka = { brokers: ${JSON.stringify(brokers)}, topic: "${template}", state: true }
export default defineConfig({ ...(process.env.NO_KAFKA ? {} : { kafka }) })
`
  )
  const environment = (store: string) => ({
    ROLLCALL_API_URL: url,
    ROLLCALL_API_KEY: key,
    ROLLCALL_INTEGRATIONS: id,
    ROLLCALL_MODELS: models.join(),
    ROLLCALL_STORE: `sqlite:${join(directory, store)}`,
    ROLLCALL_HTTP_PORT: port,
    ROLLCALL_INTERVAL: "1 second"
  })
  const api = `http://127.0.0.1:${port}`
  const records = async (): Promise<ReadonlyArray<Held>> => {
    const pages = await Promise.all(models.map(async (model) => {
      const query = new URLSearchParams({ integration: id, model, limit: "1000" })
      const response = await fetch(`${api}/v1/records?${query}`)
      return response.ok ? (await response.json() as { readonly records: ReadonlyArray<Held> }).records : []
    }))
    return sorted(pages.flat())
  }
  const mutate = async (op: "update" | "delete", record: Held, more: object) => {
    const response = await fetch(url.replace(/\/v1$/, "/_sandbox/mutations"), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ op, integration: id, model: record.model, id: record.id, ...more })
    })
    assert.isTrue(response.ok, await response.text())
  }
  return { api, environment, mutate, records }
}

/** Runs an example beside the service: kills it, restarts it, and replaces the store. */
const exercise = async (
  directory: string,
  start: Start,
  template: string,
  brokers: ReadonlyArray<string>,
  example: Command
) => {
  const { api, environment, mutate, records } = await service(start, directory, template, brokers)
  let rollcall = start(["start"], environment("first.db"), directory)
  const own = {
    ...process.env,
    ...example.environment,
    KAFKA_BROKERS: brokers.join(),
    ROLLCALL_TOPIC: template,
    ROLLCALL_URL: api,
    MODELS: models.join(),
    MIRROR_FILE: join(directory, "mirror")
  }
  const run = (mode: string) => exec(example.command, [...example.args, mode], { env: own, timeout: 60_000 })
  const held = async (): Promise<ReadonlyArray<Held>> =>
    sorted((await run("--print")).stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line)))
  /** Kafka follows the log after a moment. */
  const converge = (what: string, accept: (all: ReadonlyArray<Held>) => boolean) =>
    until(what, async () => {
      const before = await records()
      if (!accept(before)) return null
      await run("--once")
      const copy = await held()
      const keysOf = (all: ReadonlyArray<Held>) =>
        JSON.stringify(
          all.map(({ generation, id, integration, model, version }) => [integration, model, id, generation, version])
        )
      return keysOf(copy) === keysOf(before) && { copy, before }
    })

  const isPublished = async () => {
    const metrics = await fetch(`${api}/metrics`).then((response) => response.text()).catch(() => "")
    return /^rollcall_relay_lag_events\S* 0$/m.test(metrics) && /^rollcall_relay_position\S* [1-9]/m.test(metrics)
  }
  const complete = await until("the backfill", async () => {
    const all = await records().catch(() => [])
    return models.every((model) => all.some((record) => record.model === model)) && await isPublished() && all
  })
  const tags = complete.filter(({ model }) => model === "ats.tag")
  assert.isAbove(tags.length, 4)

  // killed while it applies changes
  const following = spawn(example.command, [...example.args], { env: own, stdio: ["ignore", "pipe", "pipe"] })
  let output = ""
  for (const stream of [following.stdout, following.stderr]) stream.on("data", (chunk) => output += String(chunk))
  const ended = new Promise<void>((resolve) => following.once("close", () => resolve()))
  try {
    let round = 0
    await until("the example to apply a change", async () => {
      assert.isNull(following.exitCode, output)
      await mutate("update", tags[round++ % 3]!, { fields: { name: `tag ${round}` } })
      return /applied \w+ \S+ [2-9]/.test(output)
    })
  } finally {
    following.kill("SIGKILL")
    await ended
  }

  // changes while it is down
  await mutate("update", tags[3]!, { fields: { name: "while it was down" } })
  await mutate("delete", tags[4]!, {})
  const restarted = await converge(
    "the changes while the example was down",
    (all) => !all.some(({ id }) => id === tags[4]!.id) && all.some(({ after }) => after.name === "while it was down")
  )
  assert.deepStrictEqual(restarted.copy, restarted.before)

  // old events and states arrive again: they neither overwrite newer content nor bring deleted records back
  const tagTopic = template.replace("{model}", "ats.tag")
  for (const topic of [tagTopic, `${tagTopic}.state`]) await repeatFirst(brokers, topic)
  const repeated = await converge("the old events", (all) => all.length > 0)
  assert.deepStrictEqual(repeated.copy, repeated.before)

  // the example is down while an event is published that is too large for Kafka, and until its address is no longer valid
  const [large] = complete.filter(({ model }) => model === "ats.application")
  await mutate("update", large!, { fields: { rejection_reason_name: "no longer available" } })
  await until("the event of the application", async () => {
    const now = (await records()).find(({ id }) => id === large!.id)
    return now !== undefined && now.version > large!.version && await isPublished()
  })

  // another store takes over, in which one record never existed
  await rollcall.stop()
  await mutate("delete", tags[5]!, { flag: false })
  const second = environment("second.db")
  const filled = await start(["start", "--once"], { ...second, NO_KAFKA: "1" }, directory).ended
  assert.strictEqual(filled.code, 0, filled.stderr)
  const adopted = await start(["store", "adopt", "--yes"], second, directory).ended
  assert.strictEqual(adopted.code, 0, adopted.stderr)
  rollcall = start(["start"], second, directory)
  const replaced = await until(
    "the adopted store",
    () => records().then((all) => all.length > 0 && all).catch(() => null)
  )
  assert.isFalse(replaced.some(({ id }) => id === tags[5]!.id))
  const final = await converge("the records of the adopted store", (all) => all.length > 0)
  assert.deepStrictEqual(final.copy, final.before)
  assert.isAbove(final.copy[0]!.generation, restarted.copy[0]!.generation)
  await rollcall.stop()
}

for (const [language, { build, missing: noTools }] of Object.entries(toolchains)) {
  const missing = Broker.missing ?? noTools
  describe.skipIf(missing !== null)(
    `the example in ${language}${missing === null ? "" : ` (skipped: ${missing})`}`,
    () => {
      suite(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
        it.effect(
          "holds the records of /v1/records after it was killed, and after another store was adopted",
          () =>
            Effect.gen(function*() {
              const { brokers } = yield* Broker.Broker
              const template = `examples-${randomUUID()}.{model}`
              // too small for an application: its messages are stubs
              const small = { "max.message.bytes": "2000" }
              yield* Topics.create(template.replace("{model}", "ats.application"), 2, small)
              const compacted = { ...small, "cleanup.policy": "compact" }
              yield* Topics.create(template.replace("{model}", "ats.application.state"), 2, compacted)
              yield* Effect.promise(async () => {
                const example = await build()
                await inDirectory((directory, start) => exercise(directory, start, template, brokers, example))
              })
            })
        )
      })
    }
  )
}
