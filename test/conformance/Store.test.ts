import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseKey } from "../../src/domain/EncryptionKey.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import * as Postgres from "../../src/store/postgres/Postgres.ts"
import { EncryptionKeys } from "../../src/store/sql/ContentCipher.ts"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import * as Server from "../integration/postgres/Server.ts"
import { deliverySuite } from "./Deliveries.ts"
import { deliveryActSuite } from "./DeliveryActs.ts"
import { answerSuite } from "./DeliveryAnswers.ts"
import { deliveryCrashSuite } from "./DeliveryCrashes.ts"
import { forgetSuite } from "./DeliveryForget.ts"
import { journalSuite } from "./DeliveryJournal.ts"
import { storeSuite } from "./Store.ts"
import { damageSuite } from "./StoreDamage.ts"
import { derivedSuite } from "./StoreDerived.ts"
import { expectationSuite } from "./StoreExpectations.ts"
import { generationSuite } from "./StoreGeneration.ts"
import { holdSuite } from "./StoreHolds.ts"
import { logSuite } from "./StoreLog.ts"
import { recordSuite } from "./StoreRecords.ts"
import { redactionSuite } from "./StoreRedaction.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"

const file = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-store-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
).pipe(Effect.map((directory) => ({ file: join(directory, "rollcall.db") })))

const suites = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) => {
  storeSuite(name, layer)
  recordSuite(name, layer)
  redactionSuite(name, layer)
  logSuite(name, layer)
  holdSuite(name, layer)
  derivedSuite(name, layer)
  generationSuite(name, layer)
  deliverySuite(name, layer)
  deliveryActSuite(name, layer)
  deliveryCrashSuite(name, layer)
  journalSuite(name, layer)
  answerSuite(name, layer)
  forgetSuite(name, layer)
}

const encrypted = Layer.succeed(EncryptionKeys)([parseKey(randomBytes(32).toString("base64"))!])

suites("SQLite in memory", Sqlite.layer({ file: ":memory:" }))
const inFile = Effect.map(file, Sqlite.layer)
suites("SQLite file", Layer.unwrap(inFile))
suites("SQLite in memory, encrypted", Layer.provide(Sqlite.layer({ file: ":memory:" }), encrypted))
const inThread = Effect.map(file, ({ file }) => Sqlite.layer({ file, ownThread: true }))
suites("SQLite file, in its own thread", Layer.unwrap(inThread))
sharedStoreSuite("SQLite file, in its own thread", inThread)
expectationSuite("SQLite file", Effect.map(file, Sqlite.client))
damageSuite("SQLite file", Effect.map(file, Sqlite.client))
sharedStoreSuite("SQLite file", inFile)

const { missing } = Server
const database = Effect.map(
  Server.ofFile().database,
  (url) => ({ url: Redacted.make(url), name: `postgres://${new URL(url).host}${new URL(url).pathname}` })
)

describe.skipIf(missing !== null)(`PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  const inDatabase = Effect.map(database, Postgres.layer)
  suites("PostgreSQL", Layer.unwrap(inDatabase))
  suites("PostgreSQL, encrypted", Layer.provide(Layer.unwrap(inDatabase), encrypted))
  expectationSuite("PostgreSQL", Effect.map(database, Postgres.client))
  damageSuite("PostgreSQL", Effect.map(database, Postgres.client))
  sharedStoreSuite("PostgreSQL", inDatabase)
})
