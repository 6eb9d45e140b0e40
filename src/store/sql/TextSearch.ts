/** The search for a text in columns with content, which may be encrypted. */
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { type ContentCipher, prefix } from "./ContentCipher.ts"

/** Whether a column may contain the text: encrypted values are searched by the caller once they are decrypted. */
export const make = (sql: SqlClient, cipher: ContentCipher) => (column: string, text: string): Fragment => {
  const name = sql.literal(column)
  const contains = sql.onDialectOrElse({
    pg: () => sql`strpos(${name}, ${text}) > 0`,
    orElse: () => sql`instr(${name}, ${text}) > 0`
  })
  return cipher.isUsed ? sql`(${contains} OR substr(${name}, 1, ${prefix.length}) = ${prefix})` : contains
}
