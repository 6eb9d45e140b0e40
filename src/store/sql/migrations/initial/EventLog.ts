/**
 * The event log.
 *
 * Gotchas
 * - Both indexes of `events` lead with or filter by `silent`, so that log readers never visit silent rows with their content.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { genesis } from "../../../../domain/ChangeEvent.ts"
import { columnTypes } from "./ColumnTypes.ts"

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
