/**
 * Loaded before the program (`node --import`): tells of each durable step of the process, and kills or freezes it right
 * before or right after one. The program itself knows nothing of this.
 *
 * Invariants
 * 1. A step is what outlives the process: a commit of the store, a statement of it that stands alone, a commit of the sink.
 *
 * Gotchas
 * - Steps are told on file descriptor 3, synchronously: what was told happened, even if the process dies in the next moment.
 * - What a transaction was about is told from its statements; renamed tables show as steps called `other`.
 */
import { writeSync } from "node:fs"
import { createRequire } from "node:module"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Doom, Told } from "./Doom.ts"

const doom: Doom | null = JSON.parse(process.env["DOOM"] ?? "null")
const told = (what: Told) => writeSync(3, `${JSON.stringify(what)}\n`)

let steps = 0
let matching = 0

const die = (signal: Doom["signal"]): void => {
  process.kill(process.pid, signal)
  // a frozen process goes on from here, a killed one never comes back
  if (signal === "SIGKILL") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

/** Around one step: `of` says what it is about. Returns what to call once it is done. */
const around = (of: string): () => void => {
  steps++
  const isMeant = doom !== null && (doom.of === undefined || doom.of === of) && ++matching === doom.n
  const end = () => {
    told({ doomed: of, at: Date.now() })
    die(doom!.signal)
  }
  if (isMeant && doom.side === "before") end()
  return () => {
    told({ step: steps, of, at: Date.now() })
    if (isMeant && doom.side === "after") end()
  }
}

// ---- the store ----------------------------------------------------------------------------------------------------

interface Reading {
  readonly id: number
}

/** As far as it tells which reading a page belongs to. */
interface StreamState {
  readonly integration: string
  readonly model: string
  readonly phase: string
  readonly sweep: Reading | null
  readonly lastPoll: Reading | null
  readonly lastSweep: Reading | null
}

const states = new Map<string, StreamState>()

/** Which page it was that left its stream like this. */
const pageOf = (stream: string, after: StreamState): string => {
  const before = states.get(stream)
  states.set(stream, after)
  if (after.phase !== "live") return "backfill"
  if (before?.phase === "backfilling") return "backfill's end"
  if (before !== undefined && before.lastSweep?.id !== after.lastSweep?.id) return "sweep's end"
  if (JSON.stringify(before?.sweep ?? null) !== JSON.stringify(after.sweep)) return "sweep"
  return before === undefined || before.lastPoll?.id !== after.lastPoll?.id ? "poll's end" : "poll"
}

type Statement = readonly [sql: string, values: ReadonlyArray<unknown>]

const kinds: ReadonlyArray<readonly [kind: string, sql: RegExp, value?: RegExp]> = [
  ["migration", /CREATE TABLE (?!IF NOT EXISTS)|ALTER TABLE/],
  ["adoption", /UPDATE meta SET generation|e\.generation < |AND generation < /],
  [
    "erasure",
    /DELETE FROM "?\w+"? WHERE stream = \? AND "?(id|hash)"? IN \(\s*SELECT|UPDATE events SET silent = 1|DELETE FROM streams WHERE/
  ],
  ["decision", /INSERT INTO audit/, /^holds\./],
  ["approval", /^\s*UPDATE holds/, /^(approving|approved)$/],
  ["confirm", /INSERT INTO pending/, /^absent$/],
  ["intent", /INSERT INTO journal/],
  ["withdrawal", /DELETE FROM journal WHERE handler/],
  ["claim", /INSERT INTO ownership/],
  ["relay", /INSERT INTO readers/],
  ["integration", /INSERT INTO integrations/]
]

const about = (statements: ReadonlyArray<Statement>): string => {
  let of = "other"
  for (const [sql, values] of statements) {
    if (!/UPDATE streams SET state/.test(sql)) continue
    of = pageOf(String(values[1]), JSON.parse(String(values[0])))
  }
  const kind = kinds.find(([, pattern, value]) =>
    statements.some(([sql, values]) =>
      pattern.test(sql) && (value === undefined || values.some((one) => typeof one === "string" && value.test(one)))
    )
  )
  return kind?.[0] ?? of
}

let open: Array<Statement> = []

const writing = /^(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)/i

const watch = (database: DatabaseSync, statement: StatementSync, sql: string): StatementSync => {
  const text = sql.trim()
  const writes = writing.test(text)
  for (const name of ["run", "all"] as const) {
    const original: (...values: ReadonlyArray<never>) => unknown = statement[name].bind(statement)
    const watched = (...values: ReadonlyArray<never>) => {
      if (/^BEGIN/i.test(text)) {
        const begun = original(...values)
        open = []
        told({ writing: true })
        return begun
      }
      if (text === "ROLLBACK") told({ writing: false })
      open.push([text, values])
      const isStep = text === "COMMIT" ? open.some(([sql]) => writing.test(sql)) : writes && !database.isTransaction
      if (!isStep) {
        if (text === "COMMIT") told({ writing: false })
        return original(...values)
      }
      const done = around(about(text === "COMMIT" ? open : [[text, values]]))
      const result = original(...values)
      done()
      return result
    }
    Object.defineProperty(statement, name, { value: watched })
  }
  return statement
}

const prepare = DatabaseSync.prototype.prepare
DatabaseSync.prototype.prepare = function(sql, ...rest) {
  return watch(this, prepare.call(this, sql, ...rest), sql)
}

// ---- the sink -----------------------------------------------------------------------------------------------------

interface Transaction {
  commit: () => Promise<void>
}
interface Producer {
  transaction: () => Promise<Transaction>
}
interface Client {
  producer: (...options: ReadonlyArray<unknown>) => Producer
}

if (process.env["KAFKA_BROKERS"] !== undefined) {
  const library: { readonly Kafka: { readonly prototype: Client } } = createRequire(import.meta.url)("kafkajs")
  const make = library.Kafka.prototype.producer
  library.Kafka.prototype.producer = function(...options) {
    const producer = make.call(this, ...options)
    const begin = producer.transaction.bind(producer)
    producer.transaction = async () => {
      const transaction = await begin()
      const commit = transaction.commit.bind(transaction)
      transaction.commit = async () => {
        const done = around("sink")
        await commit()
        done()
      }
      return transaction
    }
    return producer
  }
}
