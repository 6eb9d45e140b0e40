/** Removes what the migrations after the seventh add, so that a test can run them again. A new migration adds a statement here. */
export const undoLaterMigrations: ReadonlyArray<string> = [
  "DROP TABLE audit_reads",
  "DROP TABLE processes",
  "ALTER TABLE ownership DROP COLUMN process",
  "DROP TABLE signals"
]
