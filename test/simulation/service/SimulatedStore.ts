/**
 * A store that can be copied and replaced by its copy: by an operator while no process runs, or under running processes, as in a
 * failover.
 *
 * Gotchas
 * - In a failover the existing clients reach the copy with their next statement, and know their own commits. A process
 *   that starts later opens the copy and knows nothing.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { EncryptionKey } from "../../../src/domain/EncryptionKey.ts"
import type { ForgettableRecord } from "../../../src/domain/Forgotten.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import * as CommitTracker from "../../../src/store/postgres/CommitTracker.ts"
import { Processes } from "../../../src/store/Processes.ts"
import { RequestLeases } from "../../../src/store/RequestLeases.ts"
import { EncryptionKeys, prefix } from "../../../src/store/sql/ContentCipher.ts"
import * as Health from "../../../src/store/sql/Health.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"

type Services = Context.Context<Store | Deliveries | Processes | SqlClient.SqlClient | Health.Health>
type Session = Effect.Success<ReturnType<typeof Sqlite.session>>

/** Processes track their commits, as in PostgreSQL. */
const dialect: CommitTracker.Dialect = {
  ready: "SELECT 1",
  wrote: "TRUE",
  transaction: "''",
  transactionOf: () => "",
  server: "''",
  forget: "SELECT 1",
  renew: () => "SELECT 1"
}

export class SimulatedStore {
  readonly #time: VirtualTime
  readonly #scope = Effect.runSync(Scope.make())
  #directory: string | null = null
  #copies = 0
  /** The connection of the current clients. */
  #line: { session: Session }
  #services: Services
  /** The state before a failover that is still undecided. */
  #before: { readonly line: { session: Session }; readonly session: Session; readonly services: Services } | null = null

  /** All keys of the world, so that the operator and the oracle read everything. */
  readonly #keys: ReadonlyArray<EncryptionKey>

  constructor(time: VirtualTime, keys: ReadonlyArray<EncryptionKey> = []) {
    this.#time = time
    this.#keys = keys
    this.#line = { session: this.#session(":memory:") }
    this.#services = this.#serve()
  }

  get store(): Store["Service"] {
    return Context.get(this.#services, Store)
  }

  get deliveries(): Deliveries["Service"] {
    return Context.get(this.#services, Deliveries)
  }

  /** The leases of request slots for a process that starts now. */
  leases(process: string): RequestLeases["Service"] {
    const self = Processes.of({ ...Context.get(this.#services, Processes), self: process })
    const client = Context.pick(SqlClient.SqlClient)(this.#services)
    const layer = Layer.provide(
      Layer.fresh(RequestLeases.layer),
      Layer.succeedContext(Context.add(client, Processes, self))
    )
    return Context.get(this.#build(layer), RequestLeases)
  }

  /** Copies the store in its current state. */
  copy(): string {
    this.#directory ??= mkdtempSync(join(tmpdir(), "rollcall-simulation-"))
    const file = join(this.#directory, `copy-${++this.#copies}.db`)
    const sql = Context.get(this.#services, SqlClient.SqlClient)
    this.#time.run(sql`VACUUM INTO ${file}`, Infinity)
    return file
  }

  /** Replaces the store by the one in `file`. */
  restore(file: string): void {
    this.#before = null
    this.#line = { session: this.#session(file) }
    this.#services = this.#serve()
  }

  /** Lets the copy in `file` answer all clients; returns whether it lacks commits. */
  failOver(file: string): boolean {
    const copy = this.#session(file)
    const { session } = this.#line
    if (this.#commitCounters(copy) === this.#commitCounters(session)) {
      this.#line.session = copy
      return false
    }
    this.#before = { line: this.#line, session, services: this.#services }
    this.#line.session = copy
    this.#line = { session: copy }
    this.#services = this.#serve()
    return true
  }

  /** Ends the failover: the previous store answers again. */
  failBack(): void {
    if (this.#before === null) return
    const { line, services, session } = this.#before
    line.session = session
    this.#line = line
    this.#services = services
    this.#before = null
  }

  /** Deliveries that the store shows as running, each with its claim. */
  get runningAttempts(): ReadonlySet<string> {
    const rows = this.#query<{ id: number; claims: number }>(
      "SELECT id, claims FROM deliveries WHERE state = 'running'"
    )
    return new Set(rows.map(({ claims, id }) => `delivery ${id}, claim ${claims}`))
  }

  /** Deliveries that the store shows as waiting because the API refused a request. */
  get blockedDeliveries(): ReadonlyArray<number> {
    return this.#query<{ id: number }>("SELECT id FROM deliveries WHERE state <> 'dead' AND failure IS NOT NULL")
      .map(({ id }) => id)
  }

  /** Whether the attempt left the intent of a write. */
  hasIntent(delivery: number, claim: number): boolean {
    const intents = "SELECT 1 FROM journal WHERE delivery = ? AND claim = ? AND done = 0"
    return this.#query(intents, [delivery, claim]).length > 0
  }

  /** The streams whose stored number of live records is wrong, in words. Empty while a transaction is open. */
  get miscounted(): ReadonlyArray<string> {
    if (this.#line.session.isTransaction()) return []
    const rows = this.#query<{ name: string; stored: number; counted: number }>(
      `SELECT * FROM (
        SELECT integration || '/' || model AS name, live_records AS stored,
          (SELECT count(*) FROM heads h WHERE h.stream = s.key AND h.live = 1) AS counted FROM streams s
      ) WHERE stored <> counted`
    )
    return rows.map(({ counted, name, stored }) => `${name} has ${counted} live records, and ${stored} are stored`)
  }

  /** The places that contain something of a forgotten record, in words. `marks`: texts that only its content contains. */
  remainsOf({ id, integration, model }: ForgettableRecord, marks: ReadonlyArray<string>): ReadonlyArray<string> {
    const key =
      this.#query("SELECT key FROM streams WHERE integration = ? AND model = ?", [integration, model])[0]?.["key"] ?? -1
    const counted = (what: string, sql: string): ReadonlyArray<string> =>
      this.#query(sql, [key, id]).length === 0 ? [] : [what]
    const tables = this.#query("SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => String(name))
    return [
      ...counted("it is pending", "SELECT 1 FROM pending WHERE stream = ? AND id = ?"),
      ...counted(
        "the log has its content",
        `SELECT 1 FROM events WHERE stream = ? AND id = ? AND (content IS NOT NULL OR changes <> '[]') AND kind <> 'deleted'`
      ),
      ...counted(
        "a delivery refers to an empty row",
        `SELECT 1 FROM events e JOIN deliveries d ON d.position = e.position
          WHERE e.stream = ? AND e.id = ? AND e.kind <> 'deleted' AND d.state <> 'running'`
      ),
      ...tables.flatMap((table) => {
        const found = this.#query(`SELECT * FROM ${table}`).some((row) =>
          // without its id a row cannot be found
          (table !== "quarantine" || String(row["content"]).includes(`"${id}"`)) &&
          Object.values(row).some((value) => typeof value === "string" && marks.some((mark) => value.includes(mark)))
        )
        return found ? [`the table ${table} contains it`] : []
      })
    ]
  }

  /** Reads the store without the help of a process. */
  #query<A = Record<string, unknown>>(sql: string, params: ReadonlyArray<unknown> = []): ReadonlyArray<A> {
    return Effect.runSync(this.#line.session.connection.execute(sql, params, undefined)) as ReadonlyArray<A>
  }

  #commitCounters({ connection }: Session): string {
    const slots = connection.execute(
      "SELECT process, slot, counter FROM commit_counters ORDER BY process, slot",
      [],
      undefined
    )
    return JSON.stringify(this.#time.run(slots, Infinity))
  }

  /** Replaces the store by a new, empty one. */
  replace(): void {
    this.restore(":memory:")
  }

  /** The store as one more process opens it, with these keys. */
  open(keys: ReadonlyArray<EncryptionKey>): Context.Context<Store | Deliveries | Processes> {
    return this.#build(Ports.layer.pipe(
      Layer.provide(Layer.succeedContext(this.#services)),
      Layer.provide(Layer.succeed(EncryptionKeys)(keys))
    ))
  }

  /** The ids of the keys that are registered, and of those with which content is encrypted. */
  get keyIds(): { readonly registered: ReadonlySet<string>; readonly used: ReadonlySet<string> } {
    const ids = (sql: string): ReadonlySet<string> => new Set(this.#query<{ id: string }>(sql).map(({ id }) => id))
    const places = ["events.content", "events.changes", "pending.content", "quarantine.content", "journal.result"]
    return {
      registered: ids("SELECT id FROM encryption_keys"),
      used: ids(
        places.map((place) => {
          const [table, column] = place.split(".")
          return `SELECT substr(${column}, ${
            prefix.length + 1
          }, 8) AS id FROM ${table} WHERE ${column} LIKE '${prefix}%'`
        }).join(" UNION ")
      )
    }
  }

  /** Reopens the store for the next process: an open store keeps the identity that it read first. */
  reopen(): void {
    this.#services = Context.merge(this.#services, this.open(this.#keys))
  }

  close(): void {
    this.#time.run(Scope.close(this.#scope, Exit.void), Infinity)
    if (this.#directory !== null) rmSync(this.#directory, { recursive: true })
  }

  #session(file: string): Session {
    const opened = Effect.tap(Sqlite.session({ file }), ({ connection }) =>
      Effect.forEach([
        `CREATE TABLE IF NOT EXISTS commit_counters (
          process text NOT NULL, slot integer NOT NULL, counter integer NOT NULL, updated_on text NOT NULL,
          PRIMARY KEY (process, slot))`,
        // Processes die in this simulation, machines do not: waiting for a disk would take a fifth of the run time.
        "PRAGMA synchronous = OFF"
      ], (sql) => connection.execute(sql, [], undefined)))
    return this.#run(Scope.provide(opened, this.#scope))
  }

  #build<A, E>(layer: Layer.Layer<A, E>): Context.Context<A> {
    return this.#run(Layer.buildWithScope(layer, this.#scope))
  }

  #run<A, E>(opening: Effect.Effect<A, E>): A {
    const opened = this.#time.run(opening, Infinity)
    if (opened === undefined) throw new Error("the store did not open")
    return opened
  }

  /** The services of a process that starts now. */
  #serve(): Services {
    const line = this.#line
    const client = Layer.effect(
      SqlClient.SqlClient,
      Effect.gen(function*() {
        const tracker = CommitTracker.make(dialect)
        const verified = (session: Session, connection: Session["connection"]) =>
          Effect.as(tracker.verify(session.connection, connection), connection)
        const acquirers = SqlClient.makeSqliteAcquirers({
          connection: Effect.suspend(() => verified(line.session, line.session.connection)),
          semaphore: yield* Semaphore.make(1),
          isTransaction: () => line.session.isTransaction()
        })
        return yield* SqlClient.make({
          ...acquirers,
          transactionAcquirer: Effect.andThen(
            acquirers.transactionAcquirer,
            Effect.suspend(() => verified(line.session, line.session.transaction()))
          ),
          compiler: Statement.makeCompilerSqlite(),
          driver: "node-sqlite",
          beginTransaction: "BEGIN IMMEDIATE",
          commit: (connection) =>
            tracker.committing(connection, () => Effect.asVoid(connection.execute("COMMIT", [], undefined))),
          prepareTransactionControls: true,
          spanAttributes: []
        })
      })
    ).pipe(Layer.provide(Reactivity.layer))
    return this.#build(Ports.layer.pipe(
      Layer.provideMerge(client),
      Layer.provideMerge(Layer.succeed(Health.Health, Health.make("the simulated store"))),
      Layer.provide(Layer.succeed(EncryptionKeys)(this.#keys))
    ))
  }
}
