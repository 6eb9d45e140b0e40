/** The conformance suites of a store, and the stores that they run against. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseKey } from "../../src/domain/EncryptionKey.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { EncryptionKeys } from "../../src/store/sql/ContentCipher.ts"
import { IsProcessTime } from "../../src/store/sql/DatabaseTime.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import type * as Server from "../integration/postgres/Server.ts"
import { migrated } from "../support/store/MemoryStore.ts"
import { deliverySuite } from "./Deliveries.ts"
import { deliveryActSuite } from "./DeliveryActs.ts"
import { circuitSuite } from "./DeliveryCircuits.ts"
import { deliveryCrashSuite } from "./DeliveryCrashes.ts"
import { forgetSuite } from "./DeliveryForget.ts"
import { journalSuite } from "./DeliveryJournal.ts"
import { reportSuite } from "./DeliveryReports.ts"
import { storeSuite } from "./Store.ts"
import { auditSuite } from "./StoreAudit.ts"
import { derivedSuite } from "./StoreDerived.ts"
import { generationSuite } from "./StoreGeneration.ts"
import { historySuite } from "./StoreHistory.ts"
import { holdSuite } from "./StoreHolds.ts"
import { logSuite } from "./StoreLog.ts"
import { manyRowsSuite } from "./StoreManyRows.ts"
import { placeSuite } from "./StorePlaces.ts"
import { quietSuite } from "./StoreQuiet.ts"
import { recordSuite } from "./StoreRecords.ts"
import { redactionSuite } from "./StoreRedaction.ts"
import { runSuite } from "./StoreRuns.ts"
import { searchSuite } from "./StoreSearch.ts"

/** Every suite of the ports of one store. They run in virtual time, so the database's clock is that of the process. */
export const suites = (name: string, store: Layer.Layer<Store | Deliveries, StoreError>) => {
  const layer = Layer.merge(store, Layer.succeed(IsProcessTime)(true))
  storeSuite(name, layer)
  auditSuite(name, layer)
  historySuite(name, layer)
  placeSuite(name, layer)
  runSuite(name, layer)
  searchSuite(name, layer)
  recordSuite(name, layer)
  manyRowsSuite(name, layer)
  quietSuite(name, layer)
  redactionSuite(name, layer)
  logSuite(name, layer)
  holdSuite(name, layer)
  derivedSuite(name, layer)
  generationSuite(name, layer)
  deliverySuite(name, layer)
  deliveryActSuite(name, layer)
  deliveryCrashSuite(name, layer)
  circuitSuite(name, layer)
  journalSuite(name, layer)
  reportSuite(name, layer)
  forgetSuite(name, layer)
}

/** The options of a database file in a directory of its own, which is deleted afterwards. */
export const file = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-store-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
).pipe(Effect.map((directory) => ({ file: join(directory, "rollcall.db") })))

/** The options of a database file with an empty store. It is a copy, so all of them are the same store. */
export const emptyFile = Effect.tap(file, ({ file }) => Effect.sync(() => writeFileSync(file, migrated())))

/** The options of a database at a URL. */
const optionsOf = (url: string) => ({
  url: Redacted.make(url),
  name: `postgres://${new URL(url).host}${new URL(url).pathname}`
})

/** The options of a new database of the server. */
export const databaseOf = (server: ReturnType<typeof Server.ofFile>) => Effect.map(server.database, optionsOf)

/** The options of a new database of the server that has an empty store. */
export const emptyStoreOf = (server: ReturnType<typeof Server.ofFile>) => Effect.map(server.emptyStore, optionsOf)

export const encrypted = Layer.succeed(EncryptionKeys)([parseKey(randomBytes(32).toString("base64"))!])
