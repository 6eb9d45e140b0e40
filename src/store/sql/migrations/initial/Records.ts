/**
 * Integrations, streams and their records, and the event log. `heads` has a row for each published record: its version, its hashes, and the
 * position of its event. The published content is in `events`; content that is observed and not published yet is in `pending`.
 *
 * Gotchas
 * - Wide tables keep their row id: without it, inserts of 2 KB rows took three times as long on SQLite.
 * - `heads.last_run_id` is in no index: every sweep rewrites it for every record.
 * - `record_references` has no index but its primary key, in the order of its only query. It is written only when a record's
 *   references change.
 * - Readers of the log use an index of `events` that has `silent` before the position, or only rows that are not silent. So they never read
 *   silent rows with their content.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { genesis } from "../../../../domain/ChangeEvent.ts"
import { activeAccount } from "../../Rows.ts"
import { columnTypes } from "./Installation.ts"

export const records = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { bigSerial, serial, text, withoutRowid } = columnTypes(sql)
  yield* sql`CREATE TABLE integrations (id ${text} PRIMARY KEY, state text NOT NULL)`
  // each step of the delivery engine reads the few integrations in which no delivery can run
  yield* sql`CREATE INDEX integrations_account ON integrations (${activeAccount(sql)})`
  yield* sql`CREATE TABLE streams (
    key ${serial} PRIMARY KEY,
    integration ${text} NOT NULL,
    model ${text} NOT NULL,
    state text NOT NULL,
    live_records bigint NOT NULL DEFAULT 0,
    UNIQUE (integration, model)
  )`
  // the history of each stream's runs; id: the number of the run modulo the number of runs that are kept
  yield* sql`CREATE TABLE runs (
    stream integer NOT NULL,
    id integer NOT NULL,
    run text NOT NULL,
    PRIMARY KEY (stream, id)
  )`
  yield* sql`CREATE TABLE heads (
    stream integer NOT NULL,
    id ${text} NOT NULL,
    version integer NOT NULL,
    live smallint NOT NULL,
    position bigint,
    text_hash text NOT NULL,
    canonical_hash text NOT NULL,
    fingerprint text NOT NULL,
    changed_at bigint,
    last_run_id bigint NOT NULL,
    PRIMARY KEY (stream, id)
  )`
  // counts live records without reading the heads; unaffected when only `last_run_id` changes
  yield* sql`CREATE INDEX heads_live ON heads (stream) WHERE live = 1`
  yield* sql`CREATE TABLE pending (
    stream integer NOT NULL,
    id ${text} NOT NULL,
    status text NOT NULL,
    run_id bigint NOT NULL,
    origin text NOT NULL,
    deleted smallint NOT NULL,
    reason text,
    text_hash text NOT NULL,
    canonical_hash text NOT NULL,
    remote_id text,
    changed_at text,
    detected_at bigint NOT NULL,
    confirms integer NOT NULL,
    confirmed_at bigint,
    content text,
    redaction text,
    hold integer,
    PRIMARY KEY (stream, id)
  )`
  yield* sql`CREATE INDEX pending_status ON pending (stream, status, id)`
  yield* sql`CREATE INDEX pending_hold ON pending (hold, id) WHERE hold IS NOT NULL`
  yield* sql`CREATE TABLE quarantine (
    stream integer NOT NULL,
    hash text NOT NULL,
    reason text NOT NULL,
    occurrences bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    content text NOT NULL,
    redaction text,
    PRIMARY KEY (stream, hash)
  )`
  // retention deletes the rows of all streams that were last read before a time
  yield* sql`CREATE INDEX quarantine_last_at ON quarantine (last_at)`
  yield* sql`CREATE TABLE holds (
    id ${serial} PRIMARY KEY,
    stream integer NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    paths text NOT NULL,
    opened_at bigint NOT NULL,
    decided_at bigint,
    released integer NOT NULL,
    release text,
    published text
  )`
  // queried at the end of every run; approved and canceled holds are in no index
  yield* sql`CREATE INDEX holds_undecided ON holds (stream, id) WHERE state IN ('open', 'rejected', 'approving')`
  yield* sql`CREATE TABLE record_references (
    referenced_record bigint NOT NULL,
    content_hash bigint NOT NULL,
    stream integer NOT NULL,
    id ${text} NOT NULL,
    PRIMARY KEY (referenced_record, content_hash, stream, id)
  ) ${withoutRowid}`
  // id '' stands for the whole stream. `requested` is 1 while the record is read again, and 0 once it is marked as stale again
  yield* sql`CREATE TABLE stale_records (
    stream integer NOT NULL,
    id ${text} NOT NULL,
    requested smallint NOT NULL,
    PRIMARY KEY (stream, id)
  ) ${withoutRowid}`
  // by record: the derived record that it contains. An application contains its candidate
  yield* sql`CREATE TABLE derivations (
    stream integer NOT NULL,
    id ${text} NOT NULL,
    derived_id ${text} NOT NULL,
    PRIMARY KEY (stream, id)
  ) ${withoutRowid}`
  yield* sql`CREATE INDEX derivations_derived ON derivations (stream, derived_id, id)`
  // plugin writes that a record is still expected to show
  yield* sql`CREATE TABLE expectations (
    id ${bigSerial} PRIMARY KEY,
    stream integer NOT NULL,
    key ${text} NOT NULL,
    target ${text} NOT NULL,
    write ${text} NOT NULL,
    name text NOT NULL,
    plugin text NOT NULL,
    delivery text NOT NULL,
    depth integer NOT NULL,
    matcher text NOT NULL,
    all_records smallint NOT NULL,
    required smallint NOT NULL,
    matched_records text NOT NULL,
    since_run bigint NOT NULL,
    missed_sweeps integer NOT NULL,
    reported_at bigint
  )`
  // queried by every transaction that appends events of a stream that can show writes; usually empty
  yield* sql`CREATE INDEX expectations_open ON expectations (stream, key) WHERE reported_at IS NULL`
  yield* sql`CREATE INDEX expectations_target ON expectations (stream, target) WHERE reported_at IS NULL`
  yield* sql`CREATE INDEX expectations_write ON expectations (write)`
  yield* sql`CREATE INDEX expectations_reported ON expectations (reported_at) WHERE reported_at IS NOT NULL`

  // records that an operator has forgotten, which no run stores again; the ids stay readable, because a run must recognize them, and an
  // operator must be able to allow one again; state 'erasing': not complete, continued after a restart; 'forgotten': nothing is left
  yield* sql`CREATE TABLE forgotten (
    integration ${text} NOT NULL,
    model ${text} NOT NULL,
    id ${text} NOT NULL,
    state text NOT NULL,
    progress text,
    requested_at bigint NOT NULL,
    done_at bigint,
    PRIMARY KEY (integration, model, id)
  )`
})

export const eventLog = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { position } = columnTypes(sql)
  // redaction: the id of the rules that were applied to the content; traceparent: the span that appended the event

  yield* sql`CREATE TABLE events (
    position ${position} PRIMARY KEY,
    previous bigint,
    stream integer NOT NULL,
    appended_at bigint NOT NULL,
    id text NOT NULL,
    event_id text NOT NULL,
    remote_id text,
    generation integer NOT NULL,
    version integer NOT NULL,
    kind text NOT NULL,
    origin text NOT NULL,
    reason text,
    restored smallint NOT NULL,
    changed_at text,
    detected_at bigint NOT NULL,
    cause text,
    transitions text NOT NULL,
    changes text NOT NULL,
    content text,
    redaction text,
    traceparent text,
    silent smallint NOT NULL DEFAULT 0,
    content_sum bigint,
    row_sum bigint,
    chain text NOT NULL DEFAULT ''
  )`
  yield* sql`CREATE INDEX events_stream ON events (stream, silent, position)`
  yield* sql`CREATE INDEX events_shown ON events (position) WHERE silent = 0`
  // one row: the newest position and the newest position past retention, each with its chain (the pruned row may be gone);
  // removals: how often content was removed from rows, so that a reader that holds content notices it
  yield* sql`CREATE TABLE log_counter (
    position bigint NOT NULL,
    pruned bigint NOT NULL,
    chain text NOT NULL DEFAULT '',
    pruned_chain text NOT NULL DEFAULT '',
    removals bigint NOT NULL DEFAULT 0
  )`
  yield* sql`
    INSERT INTO log_counter (position, pruned, chain, pruned_chain) VALUES (0, 0, ${genesis}, ${genesis})`
  // deletes of records that their source erased, until the log's content of these records is gone too; the delete's position
  yield* sql`CREATE TABLE erasures (position bigint PRIMARY KEY, noticed_at bigint NOT NULL)`
  // events kept past retention, because a delivery needs them or their successor
  yield* sql`CREATE TABLE retained_events (position bigint PRIMARY KEY, successor bigint NOT NULL)`

  // where published events are in the sink: one row for each batch, with the position of the log up to which it goes
  yield* sql`CREATE TABLE publications (position bigint PRIMARY KEY, at bigint NOT NULL, places text NOT NULL)`
})
