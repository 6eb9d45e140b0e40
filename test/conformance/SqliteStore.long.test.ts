/** The SQLite stores of one thread: in memory, as most tests use it, encrypted, and a file, as a command such as `store adopt` opens it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import * as MemoryStore from "../support/store/MemoryStore.ts"
import { emptyFile, encrypted, file, placeSuites, suites } from "./StoreSuites.ts"

suites("SQLite in memory", MemoryStore.layer())
suites("SQLite in memory, encrypted", Layer.provide(MemoryStore.layer(), encrypted))
suites("SQLite file", Layer.unwrap(Effect.map(file, Sqlite.layer)))
placeSuites("SQLite file", Effect.map(emptyFile, Sqlite.client), Effect.map(file, Sqlite.layer))
