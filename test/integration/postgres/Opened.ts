/** Tests on a PostgreSQL server, and stores as processes open them there. */
import { describe } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { Store } from "../../../src/store/Store.ts"
import * as Server from "./Server.ts"

/** The tests are skipped, with the reason in their name, if what they need is missing. */
export const onServer = (subject: string, tests: () => void, missing: string | null = Server.missing) =>
  describe.skipIf(missing !== null)(`${subject}${missing === null ? "" : `, skipped: ${missing}`}`, tests)

export const optionsOf = (url: string, options: Partial<Postgres.Options> = {}): Postgres.Options => ({
  url: Redacted.make(url),
  name: `postgres://${new URL(url).host}${new URL(url).pathname}`,
  ...options
})

/** The store as one more process opens it. */
export const open = (url: string, options: Partial<Postgres.Options> = {}) =>
  Effect.map(
    Layer.build(Layer.fresh(Layer.provideMerge(Ports.layer, Postgres.client(optionsOf(url, options))))),
    (context) => ({
      store: Context.get(context, Store),
      deliveries: Context.get(context, Deliveries),
      sql: Context.get(context, SqlClient)
    })
  )
