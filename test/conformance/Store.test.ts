/** The store of a service on SQLite: a file that a thread of its own has open. `SqliteStore.long.test.ts` repeats the suites on others. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { emptyFile, file, placeSuites, suites } from "./StoreSuites.ts"

const inThread = (place: typeof file) => Effect.map(place, ({ file }) => ({ file, ownThread: true }))

suites("SQLite", Layer.unwrap(Effect.map(inThread(emptyFile), Sqlite.layer)))
placeSuites("SQLite", Effect.map(inThread(emptyFile), Sqlite.client), Effect.map(inThread(file), Sqlite.layer))
