import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import * as Server from "../integration/postgres/Server.ts"
import { databaseOf, encrypted, suites } from "./StoreSuites.ts"

const { missing } = Server

describe.skipIf(missing !== null)(`PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  const inDatabase = Effect.map(databaseOf(Server.ofFile()), Postgres.layer)
  suites("PostgreSQL, encrypted", Layer.provide(Layer.unwrap(inDatabase), encrypted))
})
