/** The running service with a store that cannot grow: a limit on the size of its files is set and lifted from outside. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { statSync } from "node:fs"
import * as Home from "./Home.ts"
import { contentsOf, judge, quiet } from "./Lives.ts"
import { launch, type Service, streams } from "./Service.ts"

const missing = ((): string | null => {
  try {
    execFileSync("prlimit", ["--version"], { stdio: "ignore" })
    return null
  } catch {
    return "no prlimit"
  }
})()
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need prlimit: ${missing}`)

/** Sets only the soft limit, so that it can be lifted again. */
const limitFiles = ({ pid }: Service, bytes: number | "unlimited") =>
  Effect.sync(() => execFileSync("prlimit", ["--pid", String(pid), `--fsize=${bytes}:`]))

const watermarks = (url: string) =>
  Effect.map(streams(url), (views) => views.map(({ stream, watermark }) => `${stream} ${watermark}`))

const occurrences = (log: string, text: string) => log.split(text).length - 1

describe.skipIf(missing !== null)("a full disk", () => {
  it.live(
    "moves no watermark and is logged once; when there is space again, every change is published once (X10)",
    () =>
      Effect.gen(function*() {
        const { file, sandbox, settings } = yield* Home.make({ speed: 400 })
        const service = yield* launch(settings)
        const url = yield* service.url
        yield* quiet(url)
        yield* limitFiles(service, statSync(`${file}-wal`).size)
        yield* service.says("store unavailable")
        const before = yield* watermarks(url)
        yield* Effect.sleep("6 seconds")
        assert.deepStrictEqual(yield* watermarks(url), before)
        assert.strictEqual(occurrences(service.log(), "store unavailable"), 1, service.log())
        assert.include(service.log(), "check that it has free space")
        const ready = yield* Effect.promise(() => fetch(`${url}/health/ready`))
        assert.strictEqual(ready.status, 503)
        assert.include(yield* Effect.promise(() => ready.text()), "check that it has free space")
        assert.isTrue(service.alive())
        yield* limitFiles(service, "unlimited")
        yield* service.says("store available again")
        yield* sandbox.freeze
        yield* quiet(url)
        const { differences, oracle } = yield* judge(url, contentsOf(sandbox, Home.models))
        assert.deepStrictEqual(oracle.breaches, [])
        assert.deepStrictEqual(differences, [])
        assert.strictEqual(yield* service.end("SIGTERM"), 0)
      })
  )
})
