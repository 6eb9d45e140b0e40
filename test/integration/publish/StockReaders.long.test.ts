/** Flink SQL and Kafka Streams read the topics with exactly what `docs/connect.md` shows. */
import { assert, describe, layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { inDirectory } from "../cli/Program.ts"
import * as Broker from "../kafka/Broker.ts"
import { documented, flinkJars, machineArguments, streamsJars } from "../kafka/Connect.ts"
import { entry } from "./Entries.ts"
import { opened } from "./Publishing.ts"

const missing = Broker.separateMissing ?? Broker.missing

const named = (id: string, name: string) => JSON.stringify({ id, name, unheard_of: 1 })

/** A record that is renamed, one whose earlier content is not known, one that is deleted, and one that is forgotten. */
const changes = [
  entry({ position: 1, id: "a", after: named("a", "first") }),
  entry({ position: 2, id: "b", after: named("b", "first") }),
  entry({ position: 3, id: "c", after: named("c", "first") }),
  entry({ position: 4, id: "d", after: named("d", "first") }),
  entry({ position: 5, id: "a", version: 2, before: named("a", "first"), after: named("a", "second") }),
  entry({ position: 6, id: "b", version: 2, before: null, after: named("b", "second") }),
  entry({ position: 7, id: "c", version: 2, kind: "deleted", before: named("c", "first") }),
  entry({ position: 8, id: "d", version: 2, kind: "deleted", before: null })
]
const live = { a: "second", b: "second" }

/** Publishes the changes, and writes a documented program with the address and the topics of the test. */
const prepared = Effect.gen(function*() {
  const { events, identity, options, sink } = yield* opened({ format: "connect", state: true })
  yield* sink.publish(identity, changes)
  const inTest = (text: string) =>
    text.replaceAll("localhost:9092", options.brokers.join()).replaceAll("rollcall.ats.tag", events)
  return { inTest }
})

/** Runs a Java program until its output is accepted; it then ends. */
const run = async (args: ReadonlyArray<string>, accept: (lines: ReadonlyArray<string>) => boolean) => {
  const child = spawn("java", args, { stdio: ["ignore", "pipe", "pipe"] })
  const [output, errors]: [Array<string>, Array<string>] = [[], []]
  child.stderr.on("data", (chunk) => errors.push(String(chunk)))
  const ended = once(child, "close")
  /** The last line may be incomplete. */
  const lines = () => output.join("").split("\n").slice(0, -1)
  child.stdout.on("data", (chunk) => {
    output.push(String(chunk))
    if (accept(lines())) child.kill("SIGKILL")
  })
  const timer = setTimeout(() => child.kill("SIGKILL"), 250_000)
  await ended
  clearTimeout(timer)
  return { lines: lines(), errors: errors.join("").slice(-4000) }
}

describe.skipIf(missing !== null)(`stock readers${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  suite(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
    it.effect("Flink SQL has the live records, of the events and of the state topic", () =>
      Effect.gen(function*() {
        const { inTest } = yield* prepared
        const jars = yield* Effect.promise(flinkJars)
        for (const [at, table] of ["tags", "tag_states"].entries()) {
          const statement = inTest(documented("sql")[at]!).replace(
            "\n);",
            ",\n  'scan.bounded.mode' = 'latest-offset'\n);"
          )
          const { errors, lines } = yield* Effect.promise(() =>
            inDirectory((directory) => {
              const file = join(directory, "statements.sql")
              writeFileSync(file, `${statement}\nSELECT id, name FROM ${table};\n`)
              const program = join(import.meta.dirname, "../kafka/RunSql.java")
              return run(machineArguments(jars, program, file), () => false)
            })
          )
          const rows = new Map<string, string>()
          for (const [kind = "", id = "", name = ""] of lines.map((line) => line.split("\t"))) {
            if (kind.startsWith("+")) rows.set(id, name)
            else if (kind === "-D") rows.delete(id)
          }
          assert.deepStrictEqual(Object.fromEntries(rows), live, `${table}: ${lines.join("\n")} ${errors}`)
        }
      }))

    it.effect("a KTable of the state topic has the live records", () =>
      Effect.gen(function*() {
        const { inTest } = yield* prepared
        const jars = yield* Effect.promise(streamsJars)
        const tableOf = (lines: ReadonlyArray<string>) => {
          const rows = new Map<string, string>()
          for (const line of lines) {
            const [key = "", value = ""] = line.split("\t")
            const id = key.slice(key.lastIndexOf("/") + 1)
            if (value === "null") rows.delete(id)
            else rows.set(id, JSON.parse(value).name)
          }
          return Object.fromEntries(rows)
        }
        const { errors, lines } = yield* Effect.promise(() =>
          inDirectory((directory) => {
            const file = join(directory, "Tags.java")
            const [program = ""] = documented("java")
            writeFileSync(
              file,
              inTest(program).replace(
                'settings.put("application.id", "tags")',
                `$&;\n    settings.put("state.dir", "${directory}")`
              )
            )
            return run(machineArguments(jars, file), (lines) => {
              const { a, b, ...others } = tableOf(lines)
              return a === "second" && b === "second" && lines.length >= changes.length &&
                Object.keys(others).length === 0
            })
          })
        )
        assert.deepStrictEqual(tableOf(lines), live, `${lines.join("\n")}\n${errors}`)
      }))
  })
})
