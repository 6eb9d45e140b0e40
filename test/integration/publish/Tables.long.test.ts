/** Tables that Debezium's JDBC sink makes of the events, with the configuration of `docs/connect.md` and no transforms. */
import { assert, describe, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { builtInModels, modelNames, type ReadModel } from "../../../src/domain/BuiltInModels.ts"
import { recordEntryOf } from "../../../src/domain/Model.ts"
import { recordColumnsOf } from "../../../src/publish/RecordColumns.ts"
import { inDirectory, sandboxed } from "../cli/Program.ts"
import * as Broker from "../kafka/Broker.ts"
import { connectJars, documented, machineArguments, withValues } from "../kafka/Connect.ts"
import * as Server from "../postgres/Server.ts"

const missing = Broker.separateMissing ?? Broker.missing ?? Server.missing

type Fields = Readonly<Record<string, unknown>>

const until = async <A>(what: string, check: () => Promise<A | null>): Promise<A> => {
  const end = Date.now() + 300_000
  for (;;) {
    const found = await check()
    if (found !== null) return found
    if (Date.now() > end) throw new Error(`waited five minutes: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** Without what a row and a record may differ in: the order of names, and `remote_data`, which Rollcall does not publish. */
const normal = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(normal)
  if (typeof value !== "object" || value === null) return value
  const members = Object.entries(value).filter(([name]) => name !== "remote_data")
  return Object.fromEntries(
    members.sort(([one], [other]) => one < other ? -1 : 1).map(([name, inner]) => [name, normal(inner)])
  )
}

/** A text that is equal for a record and its row, in which null is the same as absent and times have another form. */
const comparable = (record: Fields, times: ReadonlySet<string>): string =>
  JSON.stringify(normal(Object.fromEntries(
    Object.entries(record).filter(([, value]) => value !== null)
      .map(([name, value]) => [name, times.has(name) ? Date.parse(String(value)) : value])
  )))

/** Tags with this name have a field that no version of Rollcall knows, with a character that PostgreSQL does not store. */
const nameWithField = "with a new field"
const extending = (text: string) => (_name: string, value: unknown): unknown =>
  Object(value).name === nameWithField ? { ...Object(value), unheard_of: { is: text } } : value

/** Passes requests on to the sandbox, and adds that field to the responses. */
const extendingProxy = async (target: string) => {
  const proxy = createServer(async ({ headers, url = "" }, response) => {
    const passed = Object.entries(headers).filter(([name]) => name !== "connection" && name !== "host")
    const answer = await fetch(new URL(url, target), { headers: passed.map(([name, value]) => [name, String(value)]) })
    const text = JSON.stringify(await answer.json(), extending("new \0"))
    const date = answer.headers.get("date") ?? ""
    response.writeHead(answer.status, { "content-type": "application/json", date }).end(text)
  })
  await once(proxy.listen(0, "127.0.0.1"), "listening")
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/v1`,
    close: () => proxy.close().closeAllConnections()
  }
}

/** A worker with the documented configuration, which can be killed and started again. */
const worker = async (
  directory: string,
  values: { readonly prefix: string; readonly brokers: ReadonlyArray<string>; readonly database: string }
) => {
  const jars = await connectJars()
  const { host, password, pathname, username } = new URL(values.database)
  const [own = "", sink = ""] = documented("properties")
  const configuration = {
    "worker.properties": withValues(own, {
      "bootstrap.servers": values.brokers.join(),
      "offset.storage.file.filename": join(directory, "offsets"),
      "plugin.path": directory
    }) + "listeners=http://127.0.0.1:0\nconsumer.metadata.max.age.ms=1000\n",
    "sink.properties": withValues(sink, {
      "topics.regex": `${values.prefix}[.][^.]+[.][^.]+`,
      "connection.url": `jdbc:postgresql://${host}${pathname}`,
      "connection.username": username,
      "connection.password": password
    })
  }
  const files = Object.entries(configuration).map(([name, text]) => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  })
  const output: Array<string> = []
  let running: ReturnType<typeof spawn> | null = null
  return {
    start: () => {
      const child = spawn("java", machineArguments(jars, "org.apache.kafka.connect.cli.ConnectStandalone", ...files), {
        stdio: ["ignore", "pipe", "pipe"]
      })
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(String(chunk)))
      running = child
    },
    kill: async () => {
      const child = running
      running = null
      if (child === null || child.exitCode !== null) return
      const ended = once(child, "exit")
      child.kill("SIGKILL")
      await ended
    },
    hasEnded: () => running?.exitCode != null,
    says: () => output.join("").slice(-4000)
  }
}

const models = modelNames.filter((model): model is ReadModel => model !== "ats.candidate")

const timesOf = (model: ReadModel): ReadonlySet<string> =>
  new Set(
    recordColumnsOf(recordEntryOf(builtInModels, model)).columns.flatMap(({ name, type }) =>
      type === "time" ? [name] : []
    )
  )

const exercise = async (
  brokers: ReadonlyArray<string>,
  database: string,
  ...[directory, start, serve]: Parameters<Parameters<typeof inDirectory>[0]>
) => {
  const query = (sql: string): Promise<ReadonlyArray<Fields>> =>
    Effect.runPromise(Effect.map(Server.say(database, sql), ({ rows }) => rows))
  const { environment, sandbox, url } = await sandboxed(serve, directory, { records: 40 })
  const [integration = ""] = sandbox.integrations
  const api = await extendingProxy(url)
  const prefix = `t${randomUUID().slice(0, 8)}`
  const kafka = JSON.stringify({ brokers, topic: `${prefix}.{model}`, format: "debezium", schemas: "connect" })
  writeFileSync(
    join(directory, "rollcall.config.ts"),
    `import { defineConfig, defineList } from "rollcall"
import * as Schema from "effect/Schema"
const schema = Schema.Struct({ group: Schema.String, firstName: Schema.String })
export default defineConfig({ lists: [defineList("hris.employee", { path: "/hris/employees", schema })], kafka: ${kafka} })\n`
  )
  start(["start"], { ...environment, ROLLCALL_API_URL: api.url }, directory)
  const sink = await worker(directory, { prefix, brokers, database })

  const tableOf = (model: ReadModel) => `${prefix}_${model.replaceAll(".", "_")}`
  const exists = async (model: ReadModel) => {
    const [row] = await query(`SELECT to_regclass('${tableOf(model)}')::text AS name`)
    return row?.["name"] != null
  }
  const rowsOf = async (model: ReadModel): Promise<ReadonlyArray<string>> => {
    if (!await exists(model)) return []
    const rows = await query(`SELECT to_jsonb(t)::text AS row FROM ${tableOf(model)} t`)
    return rows.map(({ row }) => {
      const { integration: from, unknown_fields, ...columns } = JSON.parse(String(row))
      assert.strictEqual(from, integration)
      return comparable({ ...columns, ...unknown_fields }, timesOf(model))
    }).sort()
  }
  const liveOf = async (model: ReadModel): Promise<ReadonlyArray<string>> => {
    const live = JSON.stringify(await sandbox.truth(model, integration), extending("new \ufffd"))
    return JSON.parse(live).map((record: Fields) => comparable(record, timesOf(model))).sort()
  }
  const converged = async () => {
    for (const model of models) {
      await until(`the table of ${model}`, async () => {
        if (sink.hasEnded()) throw new Error(`the sink has ended: ${sink.says()}`)
        return JSON.stringify(await rowsOf(model)) === JSON.stringify(await liveOf(model)) ? true : null
      })
    }
  }

  const add = async (name: string) =>
    (await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name } })).id
  const remove = (id: string) => sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
  try {
    // only sweeps find that a tag is gone from applications, so these tags are removed later
    const unused = [await add("one"), await add("other")]
    sink.start()
    // killed while it makes the tables
    await until("the first table", async () => await exists("ats.application") || null)
    await sink.kill()
    sink.start()
    await converged()
    // a word of SQL, and a name with capitals
    await until(
      "a row of a defined list",
      () => query(`SELECT "group", "firstName" FROM ${prefix}_hris_employee`).then(([row]) => row ?? null, () => null)
    )

    const ids = (await sandbox.truth("ats.tag", integration)).map((tag) => String(Object(tag).id))
    const rename = (at: number, name: string) =>
      sandbox.mutate({ op: "update", integration, model: "ats.tag", id: ids[at]!, fields: { name } })
    await rename(0, "renamed")
    await remove(unused[0]!)
    await add("added")
    await converged()
    await sink.kill()
    await rename(1, "while the sink was down")
    await remove(unused[1]!)
    sink.start()
    await rename(2, nameWithField)
    await converged()
    const [found] = await query(
      `SELECT unknown_fields::text AS text FROM ${tableOf("ats.tag")} WHERE name = '${nameWithField}'`
    )
    assert.deepStrictEqual(JSON.parse(String(found?.["text"])), { unheard_of: { is: "new \ufffd" } })
  } finally {
    await sink.kill()
    api.close()
  }
}

describe.skipIf(missing !== null)(`tables in PostgreSQL${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  suite(Layer.merge(Broker.layer, Server.layer), { timeout: "10 minutes" })((it) => {
    it.effect(
      "are the live lists of the API, after deletes, restarts of the sink, and a new field",
      () =>
        Effect.gen(function*() {
          const { brokers } = yield* Broker.Broker
          const database = yield* (yield* Server.Server).database
          yield* Effect.promise(() => inDirectory((...own) => exercise(brokers, database, ...own)))
        }),
      900_000
    )
  })
})
