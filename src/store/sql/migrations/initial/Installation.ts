/**
 * The store itself, its owners and processes, and the operating API. Times of processes, calls and leases are those of the database's clock.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as SqlClient from "effect/sql/SqlClient"
import { columnTypes } from "./ColumnTypes.ts"

const alphabet = [..."0123456789abcdefghijklmnopqrstuvwxyz"] as const

export const installation = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { bigSerial, isPostgres, serial } = columnTypes(sql)
  const store = (yield* Effect.replicateEffect(Random.choice(alphabet), 8)).join("")
  // required_schema: the schema that a program must know to use the store, 0 = any; see `stopEarlierVersions`
  yield* sql`CREATE TABLE meta (
    store text NOT NULL,
    generation integer NOT NULL,
    required_schema bigint NOT NULL DEFAULT 0
  )`
  yield* sql`INSERT INTO meta (store, generation) VALUES (${store}, 1)`
  yield* sql`CREATE TABLE ownership (scope text PRIMARY KEY, epoch bigint NOT NULL, process text)`
  // the processes that have the store open; encryption_key: the id of the key with which each encrypts; problems: those that it reports
  // about itself, so that every process can show them
  yield* sql`CREATE TABLE processes (
    id text PRIMARY KEY,
    version text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    address text,
    clock_offset bigint,
    problems text NOT NULL,
    encryption_key text,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL
  )`
  // counts commits that other processes wait for, such as operators' decisions on holds
  yield* sql`CREATE TABLE signals (name text PRIMARY KEY, counter bigint NOT NULL)`
  // the keys with which content may be encrypted
  yield* sql`CREATE TABLE encryption_keys (id text PRIMARY KEY)`
  // needed_at: when a process last noted that the log must be kept for the reader
  yield* sql`CREATE TABLE readers (name text PRIMARY KEY, position bigint NOT NULL, needed_at bigint)`
  yield* sql`CREATE TABLE audit (
    key ${serial} PRIMARY KEY,
    at bigint NOT NULL,
    command text NOT NULL,
    target text NOT NULL,
    detail text NOT NULL,
    actor text NOT NULL,
    address text
  )`
  // callers that read records, and those that used a token, once per hour
  yield* sql`CREATE TABLE audit_reads (
    key ${bigSerial} PRIMARY KEY,
    period bigint NOT NULL,
    route text NOT NULL,
    target text NOT NULL,
    actor text NOT NULL,
    address text NOT NULL,
    first_at bigint NOT NULL,
    UNIQUE (period, route, target, actor, address)
  )`
  // sessions of the operating API, which hold in every process; key: a hash of the session's secret
  yield* sql`CREATE TABLE sessions (
    key text PRIMARY KEY,
    id text NOT NULL,
    scope text NOT NULL,
    seal text NOT NULL,
    address text NOT NULL,
    started_at bigint NOT NULL,
    last_request_at bigint NOT NULL,
    expires_at bigint NOT NULL
  )`
  // commands that one process of a fleet receives and another one executes; state: 'waiting', 'running' or 'answered';
  // changed_at: of the state, or of the last sign that the call is being executed
  yield* sql`CREATE TABLE calls (
    id text PRIMARY KEY,
    scope text NOT NULL,
    method text NOT NULL,
    payload text NOT NULL,
    actor text NOT NULL,
    address text,
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    state text NOT NULL,
    epoch bigint,
    beats bigint NOT NULL,
    reply text
  )`
  yield* sql`CREATE INDEX calls_waiting ON calls (scope) WHERE state = 'waiting'`
  // the pauses of accounts, and the request slots that each process has leased
  yield* sql`CREATE TABLE request_accounts (account text PRIMARY KEY, paused_until bigint NOT NULL)`
  yield* sql`CREATE TABLE request_leases (
    account text NOT NULL,
    process text NOT NULL,
    concurrency integer NOT NULL,
    slots integer NOT NULL,
    wanted integer NOT NULL,
    turn_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (account, process)
  )`
  // for plots: one row for each minute of a day
  yield* sql`CREATE TABLE history (slot integer PRIMARY KEY, at bigint NOT NULL, sample text NOT NULL)`
  // PostgreSQL: number of the last commit of each slot of a process, see `CommitTracker`
  if (isPostgres) {
    yield* sql`CREATE TABLE commit_counters (
        process text NOT NULL,
        slot integer NOT NULL,
        counter bigint NOT NULL,
        updated_on date NOT NULL,
        PRIMARY KEY (process, slot)
      )`
  }
})
