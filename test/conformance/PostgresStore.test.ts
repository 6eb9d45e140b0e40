import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import * as Server from "../integration/postgres/Server.ts"
import { callSuite } from "./CallQueue.ts"
import { clockSuite } from "./DeliveryClocks.ts"
import { processSuite } from "./Processes.ts"
import { requestLeaseSuite } from "./RequestLeases.ts"
import { damageSuite } from "./StoreDamage.ts"
import { sessionSuite } from "./StoredSessions.ts"
import { expectationSuite } from "./StoreExpectations.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"
import { databaseOf, suites } from "./StoreSuites.ts"

const { missing } = Server
const database = databaseOf(Server.ofFile())

describe.skipIf(missing !== null)(`PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  const inDatabase = Effect.map(database, Postgres.layer)
  suites("PostgreSQL", Layer.unwrap(inDatabase))
  clockSuite("PostgreSQL", Layer.unwrap(inDatabase))
  expectationSuite("PostgreSQL", Effect.map(database, Postgres.client))
  processSuite("PostgreSQL", Effect.map(database, Postgres.client))
  sessionSuite("PostgreSQL", Effect.map(database, Postgres.client))
  callSuite("PostgreSQL", Effect.map(database, Postgres.client))
  requestLeaseSuite("PostgreSQL", Effect.map(database, Postgres.client))
  damageSuite("PostgreSQL", Effect.map(database, Postgres.client))
  sharedStoreSuite("PostgreSQL", inDatabase)
})
