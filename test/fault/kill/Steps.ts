/**
 * Loaded before the program (`node --import`): reports each durable step of the process, and kills or freezes the process right
 * before or right after one of them. The program itself is not modified.
 *
 * Invariants
 * 1. A step is a change that outlives the process: a commit of the store, a statement outside a transaction, or a commit of the sink. A
 *    transaction or statement that changes no row is not a step, nor is a change of the list of processes: a process may lose its row at
 *    any time, and removes it after another one took over.
 *
 * Gotchas
 * - Steps are reported on file descriptor 3, synchronously: a reported step happened, even if the process dies in the next moment.
 * - The state after an empty poll is replaced by a statement whose conditions include the owner of the stream: if another process
 *   owns it by then, the transaction is committed without a change.
 * - The kind of a transaction is derived from its statements; after a table is renamed its steps are called `other`.
 */
import { writeSync } from "node:fs"
import { createRequire } from "node:module"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Doom, StepReport } from "./Doom.ts"

const doom: Doom | null = JSON.parse(process.env["DOOM"] ?? "null")
const report = (what: StepReport) => writeSync(3, `${JSON.stringify(what)}\n`)

let steps = 0
let matching = 0

/** ms; a stop takes effect long before, and the time passes while the process is stopped. */
const untilStopped = 250

const die = (signal: Doom["signal"]): void => {
  process.kill(process.pid, signal)
  // The signal goes to the process: the thread of the database may run on, into its commit, before the signal stops it. A frozen
  // process continues from here, a killed one never does.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, signal === "SIGKILL" ? Infinity : untilStopped)
}

/** Sends the signal if this is the step and the side at which it is to be sent. */
const dieIfTarget = (of: string, side: Doom["side"]): void => {
  if (doom === null || doom.side !== side || (doom.of !== undefined && doom.of !== of) || ++matching !== doom.n) return
  report({ doomed: of, at: Date.now() })
  die(doom.signal)
}

/** Wraps one step of kind `of`. Returns the function to call when it is done. */
const around = (of: string): () => void => {
  dieIfTarget(of, "before")
  return () => {
    report({ step: ++steps, of, at: Date.now() })
    dieIfTarget(of, "after")
  }
}

// ---- the store ----------------------------------------------------------------------------------------------------

interface Run {
  readonly id: number
}

/** The properties that show to which run a page belongs. */
interface StreamState {
  readonly integration: string
  readonly model: string
  readonly phase: string
  readonly sweep: Run | null
  readonly lastPoll: Run | null
  readonly lastSweep: Run | null
}

const states = new Map<string, StreamState>()

/** The kind of the page that left its stream in this state. */
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
    /DELETE FROM "?\w+"? WHERE stream = \? AND "?(id|hash)"? IN \(\s*SELECT (?!value FROM json_each)|UPDATE events SET silent = 1|DELETE FROM streams WHERE/
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

const kindOf = (statements: ReadonlyArray<Statement>): string => {
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

/** Whether the open transaction changed a row. */
let changed = false

const writing = /^(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)(?! (INTO |FROM )?processes\b)/i

/** Whether this statement changed something, from its result: the number of changed rows, or the rows that it returns. */
const changes = (sql: string, result: unknown): boolean =>
  /^(CREATE|ALTER|DROP)/i.test(sql) ||
  (Array.isArray(result) ? result.length > 0 : (result as { readonly changes: number | bigint }).changes > 0)

const watch = (database: DatabaseSync, statement: StatementSync, sql: string): StatementSync => {
  const text = sql.trim()
  const writes = writing.test(text)
  for (const name of ["run", "all"] as const) {
    const original: (...values: ReadonlyArray<never>) => unknown = statement[name].bind(statement)
    const watched = (...values: ReadonlyArray<never>) => {
      if (/^BEGIN/i.test(text)) {
        const started = original(...values)
        open = []
        changed = false
        report({ writing: true })
        return started
      }
      if (text === "COMMIT" && changed) {
        const done = around(kindOf(open))
        const committed = original(...values)
        done()
        return committed
      }
      if (text === "COMMIT" || text === "ROLLBACK") report({ writing: false })
      open.push([text, values])
      const done = writes && !database.isTransaction ? around(kindOf([[text, values]])) : () => undefined
      const result = original(...values)
      if (writes && changes(text, result)) {
        changed = true
        done()
      }
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

/**
 * Waits until no transaction of the store is open. A process that is frozen in one keeps the store locked, so that no other
 * process can start (X21): a step of the sink is to be frozen without that.
 */
const storeIdle = async (): Promise<void> => {
  const store = process.env["ROLLCALL_STORE"] ?? ""
  if (doom?.of !== "sink" || doom.signal !== "SIGSTOP" || !store.startsWith("sqlite:")) return
  const probe = new DatabaseSync(store.slice("sqlite:".length), { timeout: 0 })
  for (let isIdle = false; !isIdle;) {
    try {
      probe.exec("BEGIN IMMEDIATE; ROLLBACK")
      isIdle = true
    } catch {
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  probe.close()
}

interface Committing {
  commit: () => Promise<void>
}
const withSteps = <Transaction extends Committing>(transaction: Transaction): Transaction => {
  const commit = transaction.commit.bind(transaction)
  transaction.commit = async () => {
    await storeIdle()
    const done = around("sink")
    await commit()
    done()
  }
  return transaction
}

if (process.env["ROLLCALL_KAFKA_DRIVER"] === "platformatic") {
  const { Producer } = await import("@platformatic/kafka")
  const beginning = Producer.prototype as unknown as { beginTransaction: () => Promise<Committing> }
  const begin = beginning.beginTransaction
  beginning.beginTransaction = async function() {
    return withSteps(await begin.call(this))
  }
} else if (process.env["KAFKA_BROKERS"] !== undefined) {
  const library: { readonly Kafka: { readonly prototype: Client } } = createRequire(import.meta.url)("kafkajs")
  const make = library.Kafka.prototype.producer
  library.Kafka.prototype.producer = function(...options) {
    const producer = make.call(this, ...options)
    const begin = producer.transaction.bind(producer)
    producer.transaction = async () => withSteps(await begin())
    return producer
  }
}
