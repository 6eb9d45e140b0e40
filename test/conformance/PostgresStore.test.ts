import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import { onServer } from "../integration/postgres/Opened.ts"
import * as Server from "../integration/postgres/Server.ts"
import { clockSuite } from "./DeliveryClocks.ts"
import { databaseOf, emptyStoreOf, placeSuites, suites } from "./StoreSuites.ts"

const server = Server.ofFile()
const store = emptyStoreOf(server)

onServer("PostgreSQL", () => {
  const inStore = Layer.unwrap(Effect.map(store, Postgres.layer))
  suites("PostgreSQL", inStore)
  clockSuite("PostgreSQL", inStore)
  placeSuites("PostgreSQL", Effect.map(store, Postgres.client), Effect.map(databaseOf(server), Postgres.layer))
})
