import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import { onServer } from "../integration/postgres/Opened.ts"
import * as Server from "../integration/postgres/Server.ts"
import { emptyStoreOf, encrypted, suites } from "./StoreSuites.ts"

onServer("PostgreSQL", () => {
  const inStore = Effect.map(emptyStoreOf(Server.ofFile()), Postgres.layer)
  suites("PostgreSQL, encrypted", Layer.provide(Layer.unwrap(inStore), encrypted))
})
