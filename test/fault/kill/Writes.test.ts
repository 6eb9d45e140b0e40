/** Real processes that are frozen, taken over, killed and stopped while a plugin's write waits for its slot. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdir, realpath, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Home from "./Home.ts"
import { until } from "./Patience.ts"
import { ask, launch, type Service } from "./Service.ts"

/** How long the API makes an account wait, in seconds: longer than a process needs to be frozen, or to stop. */
const pauseSeconds = 20

const root = join(import.meta.dirname, "../../..")

/** Adds one link to each new application, or also to each existing one. */
const configOf = (url: string, integration: string, existing: boolean) => `
import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import * as Effect from "effect/Effect"

const linking = Plugin.make("linking", { needs: { writes: ["addResultLink"] } }).on("ats.application.created", {
  origins: ["poll", "sweep", "refresh"${existing ? ', "backfill"' : ""}]
}, ({ recordId }) =>
  Effect.flatMap(Plugin.Api, (api) => api.addResultLink(recordId, { label: "Result", url: "https://x.example" })))

export default defineConfig({
  accounts: { default: { url: ${JSON.stringify(url)}, key: secret("ROLLCALL_API_KEY") } },
  integrations: [{ id: ${JSON.stringify(integration)}, models: ["ats.application"] }],
  plugins: [linking${existing ? '.with({ from: "oldest" })' : ""}]
})
`

/** The service with that plugin, and helpers that watch its writes. */
const make = Effect.fnUntraced(function*({ existing }: { readonly existing: boolean }) {
  // With one existing record, the process does nothing besides its delivery that would detect the takeover.
  const home = yield* Home.make(existing ? { records: 1 } : {})
  const { sandbox } = home
  const integration = sandbox.integrations[0] ?? ""
  const folder = dirname(home.file)
  yield* Effect.promise(async () => {
    await mkdir(join(folder, "node_modules"))
    await symlink(await realpath(join(root, "node_modules/effect")), join(folder, "node_modules/effect"))
    await symlink(root, join(folder, "node_modules/rollcall"))
    await writeFile(join(folder, "rollcall.config.ts"), configOf(sandbox.url, integration, existing))
  })
  const { ROLLCALL_API_URL: _, ROLLCALL_INTEGRATIONS: __, ROLLCALL_MODELS: ___, ...settings } = home.settings
  // a test of existing records needs no further runs
  const calm = { ROLLCALL_INTERVAL: "1 hour", ROLLCALL_SWEEP_INTERVAL: "1 hour" }
  const start = (details: Parameters<typeof launch>[1] = {}, ...flags: ReadonlyArray<string>) =>
    launch({ ...settings, ...(existing && calm) }, {
      command: ["start", "--config", join(folder, "rollcall.config.ts"), ...flags],
      ...details
    })

  /** Statuses of the writes that the API received. */
  const writes = Effect.map(
    sandbox.requests,
    (requests) => requests.filter(({ path }) => path.endsWith("/result-links")).map(({ status }) => status)
  )
  const awaitWrites = (...statuses: ReadonlyArray<number>) =>
    until(`writes ${statuses.join()}`, writes, (seen) => seen.join() === statuses.join())
  const limit = sandbox.setFaults({
    faults: [{ kind: "rate_limit", endpoint: "addResultLink", retryAfter: pauseSeconds, count: 1 }]
  })
  const apply = sandbox.mutate({ op: "simulate", integration, kind: "applied" })
  const deadLetters = (url: string): Effect.Effect<ReadonlyArray<unknown>> =>
    Effect.map(ask(url, "/v1/deadletters"), (text) => JSON.parse(text).items)
  const isLive = (url: string) =>
    until(
      "the backfill",
      ask(url, "/v1/streams"),
      (text) => JSON.parse(text).items.every(({ phase }: { readonly phase: string }) => phase === "live")
    )

  return { awaitWrites, apply, file: home.file, isLive, deadLetters, limit, start, writes }
})

const isLocked = (file: string): boolean => {
  const database = new DatabaseSync(file, { timeout: 0 })
  try {
    database.exec("BEGIN IMMEDIATE; ROLLBACK")
    return false
  } catch {
    return true
  } finally {
    database.close()
  }
}

/** Freezes the process at a moment at which it holds no lock: otherwise every other process would wait for it. */
const freeze = Effect.fnUntraced(function*({ signal }: Service, file: string) {
  for (;;) {
    yield* signal("SIGSTOP")
    // a thread that waits for the disk stops a little later
    yield* Effect.sleep("100 millis")
    if (!isLocked(file)) return
    yield* signal("SIGCONT")
    yield* Effect.sleep("50 millis")
  }
})

/** A service whose write was rejected by the rate limit and waits; the journal records that it had no effect. */
const waiting = Effect.gen(function*() {
  const home = yield* make({ existing: false })
  const service = yield* home.start()
  const url = yield* service.url
  yield* home.isLive(url)
  yield* home.limit
  yield* home.apply
  yield* home.awaitWrites(429)
  yield* until(
    "the rejection to be recorded",
    Effect.sync(() => service.steps),
    (steps) => steps.includes("withdrawal")
  )
  return { ...home, service, url }
})

const passed = Effect.sleep(`${pauseSeconds + 2} seconds`)

describe("a write that waits for its slot", () => {
  it.live(
    "is not sent after its process was frozen and another took over; the successor sends it once (X16)",
    () =>
      Effect.gen(function*() {
        const { awaitWrites, deadLetters, file, service, start, writes } = yield* waiting
        yield* freeze(service, file)
        const successor = yield* start({}, "--take-over")
        const url = yield* successor.url
        yield* awaitWrites(429, 200)
        yield* passed
        yield* service.signal("SIGCONT")
        assert.strictEqual(yield* service.ended, 1)
        assert.deepStrictEqual(yield* writes, [429, 200])
        assert.deepStrictEqual(yield* deadLetters(url), [])
      })
  )

  it.live(
    "is sent by the next process, without an unknown outcome, when its own is killed (L4)",
    () =>
      Effect.gen(function*() {
        const { awaitWrites, deadLetters, service, start } = yield* waiting
        yield* service.end("SIGKILL")
        const successor = yield* start()
        const url = yield* successor.url
        yield* awaitWrites(429, 200)
        assert.deepStrictEqual(yield* deadLetters(url), [])
      })
  )

  it.live(
    "does not delay a SIGTERM, and is sent by the next process (L4)",
    () =>
      Effect.gen(function*() {
        const { awaitWrites, deadLetters, service, start, writes } = yield* waiting
        const stoppedAt = Date.now()
        assert.strictEqual(yield* service.end("SIGTERM"), 0)
        assert.isBelow(Date.now() - stoppedAt, pauseSeconds * 1000 / 2)
        assert.deepStrictEqual(yield* writes, [429])
        const successor = yield* start()
        const url = yield* successor.url
        yield* awaitWrites(429, 200)
        assert.deepStrictEqual(yield* deadLetters(url), [])
      })
  )
})

describe("a write that is about to be sent", () => {
  it.live(
    "is not sent when its process was frozen right after the intent and another took over (X16)",
    () =>
      Effect.gen(function*() {
        const { deadLetters, start, writes } = yield* make({ existing: true })
        const service = yield* start({ doom: { of: "intent", n: 1, side: "after", signal: "SIGSTOP" } })
        assert.strictEqual(yield* service.doomed, "intent")
        const successor = yield* start({}, "--take-over")
        const url = yield* successor.url
        // the successor cannot know whether the write was sent
        yield* until("a dead letter", deadLetters(url), (items) => items.length === 1)
        yield* Effect.sleep("11 seconds")
        yield* service.signal("SIGCONT")
        yield* service.says("delivery stopped")
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(yield* writes, [])
      })
  )
})
