/**
 * Deliveries to plugins and their journal.
 *
 * Gotchas
 * - A settled delivery is deleted: the indexes of `deliveries` hold waiting, due, running and dead ones, and no history.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { columnTypes } from "./Installation.ts"

export const deliveries = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { autoincrement, bigSerial, text, withoutRowid } = columnTypes(sql)
  // active: configured in the process that delivers now; scheduled: runs by the clock, not by the log;
  // skips_dead: later events of a record are delivered although an earlier one is a dead letter
  yield* sql`CREATE TABLE handlers (
    key ${bigSerial} PRIMARY KEY,
    plugin ${text} NOT NULL,
    handler ${text} NOT NULL,
    skips_dead smallint NOT NULL,
    scheduled smallint NOT NULL,
    active smallint NOT NULL,
    position bigint NOT NULL,
    UNIQUE (plugin, handler)
  )`
  // cause: of a dead letter, equal for all failures with the same cause; crashes: claims that ended with their process; stopped: the last attempt ended because the writes of all plugins were stopped
  yield* sql`CREATE TABLE deliveries (
    id ${bigSerial} PRIMARY KEY ${autoincrement},
    handler integer NOT NULL,
    integration ${text} NOT NULL,
    shard smallint NOT NULL,
    ordering_key ${text} NOT NULL,
    position bigint,
    scheduled_at bigint,
    from_position bigint,
    to_position bigint,
    state text NOT NULL,
    due_at bigint NOT NULL,
    created_at bigint NOT NULL,
    attempts integer NOT NULL,
    claims integer NOT NULL,
    batch text,
    fresh text,
    failure text,
    died_at bigint,
    cause ${text},
    stopped smallint NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0
  )`
  yield* sql`CREATE INDEX deliveries_ordering_key ON deliveries (handler, ordering_key, id)`
  yield* sql`CREATE INDEX deliveries_due ON deliveries (handler, shard, due_at, id) WHERE state = 'due'`
  yield* sql`CREATE INDEX deliveries_running ON deliveries (handler, shard) WHERE state = 'running'`
  // the start of the log that ticks need
  yield* sql`CREATE INDEX deliveries_spans ON deliveries (handler, from_position)
    WHERE from_position IS NOT NULL AND state <> 'dead' AND failure IS NULL`
  yield* sql`CREATE INDEX deliveries_dead ON deliveries (id) WHERE state = 'dead'`
  // counts dead letters by cause without reading them
  yield* sql`CREATE INDEX deliveries_causes ON deliveries (handler, cause, integration, died_at, id) WHERE state = 'dead'`
  yield* sql`CREATE INDEX deliveries_position ON deliveries (position)`
  yield* sql`CREATE INDEX deliveries_stopped ON deliveries (id) WHERE stopped = 1`
  yield* sql`CREATE INDEX deliveries_crashes ON deliveries (handler, crashes) WHERE crashes > 0`
  // the circuits of handlers that have failed since their last success; failed: JSON
  yield* sql`CREATE TABLE handler_circuits (
    handler integer PRIMARY KEY,
    failed text NOT NULL,
    openings integer NOT NULL,
    open_until bigint
  )`
  yield* sql`CREATE TABLE attempts (
    delivery bigint NOT NULL,
    number integer NOT NULL,
    details text NOT NULL,
    PRIMARY KEY (delivery, number)
  )`
  // at: start of the step; failure: JSON of its last failure
  yield* sql`CREATE TABLE attempt_counts (
    handler integer NOT NULL,
    slot smallint NOT NULL,
    at bigint NOT NULL,
    attempts integer NOT NULL,
    failed integer NOT NULL,
    settled integer NOT NULL,
    failure text,
    PRIMARY KEY (handler, slot)
  ) ${withoutRowid}`
  // the batch in which an event was last delivered to a handler
  yield* sql`CREATE TABLE batch_members (
    handler integer NOT NULL,
    position bigint NOT NULL,
    batch ${text} NOT NULL,
    PRIMARY KEY (handler, position)
  ) ${withoutRowid}`
  // keep_forever: never pruned; params: the ids in the write's path;
  // shown_by: the first record that showed the write while its outcome was unknown (model, id, at);
  // answer_state: 1 = the result is an operator's and no handler has received it yet, 2 = one has
  yield* sql`CREATE TABLE journal (
    handler integer NOT NULL,
    dedup_key ${text} NOT NULL,
    step ${text} NOT NULL,
    keep_forever smallint NOT NULL,
    write_name text,
    delivery bigint NOT NULL,
    claim integer NOT NULL,
    begun_at bigint NOT NULL,
    done smallint NOT NULL,
    result text,
    integration text,
    params text,
    on_unknown text,
    shown_by text,
    answer_state smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (handler, dedup_key, step)
  )`
  yield* sql`CREATE INDEX journal_delivery ON journal (delivery)`
  yield* sql`CREATE INDEX journal_begun ON journal (begun_at) WHERE keep_forever = 0`
  // state 'on'; 'absent': the integration is not active, its span continues when it is back; 'off': by configuration
  yield* sql`CREATE TABLE ticks (
    handler integer NOT NULL,
    integration ${text} NOT NULL,
    scheduled_at bigint NOT NULL,
    position bigint NOT NULL,
    state text NOT NULL DEFAULT 'on',
    PRIMARY KEY (handler, integration)
  ) ${withoutRowid}`
  yield* sql`CREATE INDEX ticks_on ON ticks (handler, position) WHERE state = 'on'`
  yield* sql`CREATE TABLE write_budgets (
    plugin ${text} NOT NULL,
    integration ${text} NOT NULL,
    hour bigint NOT NULL,
    writes integer NOT NULL,
    PRIMARY KEY (plugin, integration)
  ) ${withoutRowid}`
  // plugin '' = the writes of all plugins, integration '' = all integrations
  yield* sql`CREATE TABLE switched_off (
    plugin ${text} NOT NULL,
    integration ${text} NOT NULL,
    PRIMARY KEY (plugin, integration)
  ) ${withoutRowid}`
})
