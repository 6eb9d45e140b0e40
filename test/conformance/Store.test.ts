import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Sqlite from "../../src/store/Sqlite.ts"
import { deliverySuite } from "./Deliveries.ts"
import { storeSuite } from "./Store.ts"
import { derivedSuite } from "./StoreDerived.ts"
import { holdSuite } from "./StoreHolds.ts"
import { lineageSuite } from "./StoreLineage.ts"
import { logSuite } from "./StoreLog.ts"
import { sharedStoreSuite } from "./StoreSharing.ts"

const file = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-store-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
).pipe(Effect.map((directory) => Sqlite.layer({ file: join(directory, "rollcall.db") })))

const fresh = { "SQLite in memory": Sqlite.layer({ file: ":memory:" }), "SQLite file": Layer.unwrap(file) }

for (const [name, layer] of Object.entries(fresh)) {
  storeSuite(name, layer)
  logSuite(name, layer)
  holdSuite(name, layer)
  derivedSuite(name, layer)
  lineageSuite(name, layer)
  deliverySuite(name, layer)
}
sharedStoreSuite("SQLite file", file)
