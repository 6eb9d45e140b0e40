/** Removes what the migrations after the seventh add, so that a test can run them again. A new migration adds a statement here. */
export const undoLaterMigrations: ReadonlyArray<string> = [
  "DROP TABLE audit_reads",
  "DROP TABLE processes",
  "ALTER TABLE ownership DROP COLUMN process",
  "DROP TABLE signals",
  "DROP TABLE sessions",
  "DROP TABLE request_accounts",
  "DROP TABLE request_leases",
  "DROP INDEX deliveries_unassigned",
  "DROP INDEX deliveries_running",
  "DROP INDEX deliveries_due",
  "CREATE INDEX deliveries_due ON deliveries (handler, due_at, id) WHERE state = 'due'",
  "ALTER TABLE deliveries DROP COLUMN shard",
  "DROP TABLE calls"
]
