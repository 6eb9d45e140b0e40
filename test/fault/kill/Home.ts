/** A folder for a store, a sandbox without activity, and the settings of a service that reads two of its lists often. */
import * as Effect from "effect/Effect"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"

/** The seed of this run: it determines the moments of death and the world. */
export const seed = Number(process.env["ROLLCALL_TEST_SEED"] ?? Date.now() % 1_000_000)

export const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "rollcall-kill-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

export const models = ["ats.application", "ats.tag"] as const

/** The world has no activity of its own unless it has a `speed`. */
export const make = Effect.fnUntraced(function*(options: Sandbox.SandboxOptions = {}) {
  const file = join(yield* folder, "rollcall.db")
  const sandbox = yield* Sandbox.serve({ seed, integrations: 1, records: 60, speed: 0, ...options })
  const settings: Readonly<Record<string, string>> = {
    ROLLCALL_API_URL: sandbox.url,
    ROLLCALL_API_KEY: sandbox.key,
    ROLLCALL_STORE: `sqlite:${file}`,
    ROLLCALL_INTEGRATIONS: sandbox.integrations[0] ?? "",
    ROLLCALL_MODELS: models.join(),
    ROLLCALL_INTERVAL: "200 millis",
    ROLLCALL_SWEEP_INTERVAL: "500 millis",
    ROLLCALL_CONFIRM_INTERVAL: "300 millis",
    ROLLCALL_OVERLAP_MIN: "3 seconds",
    ROLLCALL_RETRY_BASE: "20 millis"
  }
  return { file, sandbox, settings }
})

export type Home = Effect.Success<ReturnType<typeof make>>
