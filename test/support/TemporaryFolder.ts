import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A new folder, which is removed when the scope ends. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** The path of a store that does not exist yet, in a new folder. */
export const storeFile = Effect.map(temporaryFolder, (folder) => join(folder, "rollcall.db"))
