/** The store of a command, such as `store adopt`: a file in the thread of its caller. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sqlite from "../../src/store/sqlite/Sqlite.ts"
import { file, suites } from "./StoreSuites.ts"

suites("SQLite file", Layer.unwrap(Effect.map(file, Sqlite.layer)))
