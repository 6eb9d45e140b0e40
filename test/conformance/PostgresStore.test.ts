import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import * as Server from "../integration/postgres/Server.ts"
import { callSuite } from "./CallQueue.ts"
import { clockSuite } from "./DeliveryClocks.ts"
import { keySuite } from "./EncryptionKeys.ts"
import { processSuite } from "./Processes.ts"
import { requestLeaseSuite } from "./RequestLeases.ts"
import { damageSuite } from "./StoreDamage.ts"
import { sessionSuite } from "./StoredSessions.ts"
import { expectationSuite } from "./StoreExpectations.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"
import { databaseOf, emptyStoreOf, suites } from "./StoreSuites.ts"

const { missing } = Server
const server = Server.ofFile()
const store = emptyStoreOf(server)

describe.skipIf(missing !== null)(`PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  const inStore = Effect.map(store, Postgres.layer)
  suites("PostgreSQL", Layer.unwrap(inStore))
  clockSuite("PostgreSQL", Layer.unwrap(inStore))
  expectationSuite("PostgreSQL", Effect.map(store, Postgres.client))
  keySuite("PostgreSQL", Effect.map(store, Postgres.client))
  processSuite("PostgreSQL", Effect.map(store, Postgres.client))
  sessionSuite("PostgreSQL", Effect.map(store, Postgres.client))
  callSuite("PostgreSQL", Effect.map(store, Postgres.client))
  requestLeaseSuite("PostgreSQL", Effect.map(store, Postgres.client))
  damageSuite("PostgreSQL", Effect.map(store, Postgres.client))
  sharedStoreSuite("PostgreSQL", Effect.map(databaseOf(server), Postgres.layer))
})
