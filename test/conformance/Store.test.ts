/** The SQLite stores of one thread. `SqliteFileStore.long.test.ts` repeats the suites on a file. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import * as MemoryStore from "../support/store/MemoryStore.ts"
import { callSuite } from "./CallQueue.ts"
import { keySuite } from "./EncryptionKeys.ts"
import { processSuite } from "./Processes.ts"
import { requestLeaseSuite } from "./RequestLeases.ts"
import { damageSuite } from "./StoreDamage.ts"
import { sessionSuite } from "./StoredSessions.ts"
import { expectationSuite } from "./StoreExpectations.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"
import { emptyFile, encrypted, file, suites } from "./StoreSuites.ts"

suites("SQLite in memory", MemoryStore.layer())
suites("SQLite in memory, encrypted", Layer.provide(MemoryStore.layer(), encrypted))
expectationSuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
keySuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
processSuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
sessionSuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
callSuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
requestLeaseSuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
damageSuite("SQLite file", Effect.map(emptyFile, Sqlite.client))
sharedStoreSuite("SQLite file", Effect.map(file, Sqlite.layer))
