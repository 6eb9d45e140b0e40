/** The store of a service: a file that a thread of its own has open. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"
import { emptyFile, file, suites } from "./StoreSuites.ts"

const inThread = (place: typeof file) => Effect.map(place, ({ file }) => Sqlite.layer({ file, ownThread: true }))
suites("SQLite file, in its own thread", Layer.unwrap(inThread(emptyFile)))
sharedStoreSuite("SQLite file, in its own thread", inThread(file))
