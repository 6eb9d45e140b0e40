/** Expressions over the keys under which steps run once, and over the names of batches. */
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"

export const base = (sql: SqlClient) => {
  /** The text up to its first `mark`. */
  const cut = (mark: string, text: Fragment) =>
    sql.onDialectOrElse({
      pg: () => sql`split_part(${text}, ${mark}, 1)`,
      orElse: () => sql`substr(${text}, 1, instr(${text} || ${mark}, ${mark}) - 1)`
    })
  const key = cut("~", cut(".", sql.literal("dedup_key")))
  return {
    /** The column `dedup_key` without the parts that a replay or a half of a batch adds: `e<position>` or `b<first delivery>`. */
    key,
    /** The position of the event in the column `dedup_key`; null for the key of a batch, a tick or a record. */
    position: sql`CASE WHEN dedup_key LIKE 'e%' THEN CAST(substr(${key}, 2) AS bigint) END`,
    /** The name of the whole batch, in this column. */
    batch: (column: string) => cut(".", sql.literal(column))
  }
}
