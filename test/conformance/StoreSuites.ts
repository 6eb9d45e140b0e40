/** The conformance suites of a store, and the stores that they run against. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomBytes } from "node:crypto"
import { writeFileSync } from "node:fs"
import { parseKey } from "../../src/domain/EncryptionKey.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { EncryptionKeys } from "../../src/store/sql/ContentCipher.ts"
import { IsProcessTime } from "../../src/store/sql/DatabaseTime.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { optionsOf } from "../integration/postgres/Opened.ts"
import type * as Server from "../integration/postgres/Server.ts"
import { migrated } from "../support/store/MemoryStore.ts"
import { storeFile } from "../support/TemporaryFolder.ts"
import { callSuite } from "./CallQueue.ts"
import { deliverySuite } from "./Deliveries.ts"
import { deliveryActSuite } from "./DeliveryActs.ts"
import { circuitSuite } from "./DeliveryCircuits.ts"
import { deliveryCrashSuite } from "./DeliveryCrashes.ts"
import { forgetSuite } from "./DeliveryForget.ts"
import { journalSuite } from "./DeliveryJournal.ts"
import { reportSuite } from "./DeliveryReports.ts"
import { deliveryTickSuite } from "./DeliveryTicks.ts"
import { keySuite } from "./EncryptionKeys.ts"
import { processSuite } from "./Processes.ts"
import { requestLeaseSuite } from "./RequestLeases.ts"
import { storeSuite } from "./Store.ts"
import { damageSuite } from "./StoreDamage.ts"
import { derivedSuite } from "./StoreDerived.ts"
import { sessionSuite } from "./StoredSessions.ts"
import { expectationSuite } from "./StoreExpectations.ts"
import { generationSuite } from "./StoreGeneration.ts"
import { holdSuite } from "./StoreHolds.ts"
import { logSuite, searchSuite } from "./StoreLog.ts"
import { manyRowsSuite } from "./StoreManyRows.ts"
import { auditSuite, historySuite } from "./StoreOperators.ts"
import { placeSuite } from "./StorePlaces.ts"
import { recordSuite } from "./StoreRecords.ts"
import { redactionSuite } from "./StoreRedaction.ts"
import { retentionSuite } from "./StoreRetention.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"
import { quietSuite, runSuite } from "./StoreStreams.ts"

/** Every suite of the ports of one store. They run in virtual time, so the database's clock is that of the process. */
export const suites = (name: string, store: Layer.Layer<Store | Deliveries, StoreError>) => {
  const layer = Layer.merge(store, Layer.succeed(IsProcessTime)(true))
  for (
    const suite of [
      storeSuite,
      auditSuite,
      historySuite,
      placeSuite,
      runSuite,
      searchSuite,
      recordSuite,
      manyRowsSuite,
      quietSuite,
      redactionSuite,
      logSuite,
      retentionSuite,
      holdSuite,
      derivedSuite,
      generationSuite,
      deliverySuite,
      deliveryActSuite,
      deliveryTickSuite,
      deliveryCrashSuite,
      circuitSuite,
      journalSuite,
      reportSuite,
      forgetSuite
    ]
  ) suite(name, layer)
}

/** The suites of what several processes do on one store. Each build of `client` opens the same store, each build of `shared` too. */
export const placeSuites = (
  name: string,
  client: Parameters<typeof expectationSuite>[1],
  shared: Parameters<typeof sharedStoreSuite>[1]
) => {
  for (
    const suite of [
      expectationSuite,
      keySuite,
      processSuite,
      sessionSuite,
      callSuite,
      requestLeaseSuite,
      damageSuite
    ]
  ) suite(name, client)
  sharedStoreSuite(name, shared)
}

/** The options of a database file in a directory of its own, which is deleted afterwards. */
export const file = Effect.map(storeFile, (file) => ({ file }))

/** The options of a database file with an empty store. It is a copy, so all of them are the same store. */
export const emptyFile = Effect.tap(file, ({ file }) => Effect.sync(() => writeFileSync(file, migrated())))

/** The options of a new database of the server. */
export const databaseOf = (server: ReturnType<typeof Server.ofFile>) =>
  Effect.map(server.database, (url) => optionsOf(url))

/** The options of a new database of the server that has an empty store. */
export const emptyStoreOf = (server: ReturnType<typeof Server.ofFile>) =>
  Effect.map(server.emptyStore, (url) => optionsOf(url))

export const encrypted = Layer.succeed(EncryptionKeys)([parseKey(randomBytes(32).toString("base64"))!])
