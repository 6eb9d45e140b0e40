/** Words that only an operator of PostgreSQL can use. A message of an installation with SQLite has none of them. */
export const postgresTools =
  /\bpg_(?:stat|hba|dump|restore|ctl|basebackup|upgrade)\w*|\bpsql\b|\bpgbouncer\b|\blibpq\b|max_connections|\bssl(?:mode|cert|key|rootcert)\b|default_transaction|connection pooler/i
