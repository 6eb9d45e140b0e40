/** `GET /metrics` of a server over a store in memory. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { TestClock } from "effect/testing"
import { execFileSync } from "node:child_process"
import { tmpdir } from "node:os"
import { Store } from "../../../src/store/Store.ts"
import * as Running from "./Running.ts"

const { ask, stream, served, using, write } = Running

const promtool = (() => {
  try {
    execFileSync("promtool", ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})()

describe("GET /metrics", () => {
  const counted = Metric.counter("rollcall_tests_total", { description: "Counted by this process", incremental: true })

  const now = Date.parse("2026-03-01T12:00:00Z")

  it.effect.each([[3 * 86_400_000, "ahead of"], [-120_000, "behind"]] as const)(
    "the freshness of a stream uses the API's clock, which is %i ms (%s) ours (W4)",
    ([offset]) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(now)
        yield* stream({
          phase: "live",
          watermark: now + offset - 90_000,
          clockOffsets: Array.from({ length: 5 }, () => offset)
        })
        const { text } = yield* ask("/metrics")
        assert.match(text, /rollcall_stream_freshness_max_seconds\{\S+ 90\n/)
      }).pipe(using())
  )

  served.virtual(
    "adds up the state of the streams in the store by model, and shows the counters of the process",
    function*() {
      yield* TestClock.setTime(now)
      yield* Metric.update(counted, 2)
      yield* stream({ phase: "live", watermark: now - 90_000 })
      const skills = { integration: "workday:acme", model: "hris.skill" } as const
      yield* stream({ blocked: { reason: "unsupported", code: null, message: "no", since: 0 } }, skills)
      yield* stream({ phase: "live", watermark: now - 300_000 }, { integration: "lever:acme", model: "ats.tag" })
      yield* write("a", "{}")
      const { text } = yield* ask("/metrics")
      const value = (line: RegExp) => Number(text.match(line)?.[1])
      const tag = String.raw`\{model="ats.tag"\} (\S+)`
      assert.strictEqual(value(new RegExp(`rollcall_stream_freshness_max_seconds${tag}`)), 300)
      // the target is three intervals, here 180 s
      assert.strictEqual(value(new RegExp(`rollcall_stream_lateness_max_ratio${tag}`)), 300 / 180)
      assert.strictEqual(value(new RegExp(`rollcall_records_live${tag}`)), 1)
      for (const [state, count] of [["ok", 1], ["late", 1], ["failing", 0]]) {
        assert.include(text, `rollcall_streams{model="ats.tag",state="${state}"} ${count}\n`)
      }
      assert.include(text, 'rollcall_streams{model="hris.skill",state="blocked"} 1\n')
      assert.include(text, 'rollcall_integrations_blocked{reason="unsupported"} 1\n')
      assert.include(text, "rollcall_integrations 3\n")
      assert.notInclude(text, "acme")
      assert.strictEqual(value(/rollcall_tests_total (\d+)/), 2)
      yield* stream({ blocked: null }, skills)
      const later = (yield* ask("/metrics")).text
      assert.include(later, 'rollcall_streams{model="hris.skill",state="blocked"} 0\n')
      assert.include(later, 'rollcall_integrations_blocked{reason="unsupported"} 0\n')
    }
  )

  it.live("shows the resources of the process, its dependencies, and the space on the disk of the store", () =>
    Effect.gen(function*() {
      const { text } = yield* ask("/metrics")
      const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1])
      assert.isAbove(value("process_cpu_seconds_total"), 0)
      assert.closeTo(value("process_start_time_seconds"), Date.now() / 1000 - process.uptime(), 60)
      for (
        const name of [
          "process_resident_memory_bytes",
          "process_open_fds",
          "process_max_fds",
          "nodejs_heap_size_used_bytes"
        ]
      ) assert.isAbove(value(name), 0, name)
      assert.isAbove(value("rollcall_store_disk_size_bytes"), value("rollcall_store_disk_free_bytes"))
      assert.include(text, 'rollcall_dependency_up{dependency="good"} 1\n')
      assert.include(text, 'rollcall_dependency_up{dependency="bad"} 0\n')
      assert.notInclude(text, "remarked")
    }).pipe(using({
      storeFolder: tmpdir(),
      dependencies: [
        { name: "good", problem: Effect.succeed(null) },
        { name: "bad", problem: Effect.succeed("it does not work") },
        { name: "remarked", remark: () => Effect.succeed("a remark") }
      ]
    })))

  served.virtual("shows the age of the oldest event that is not published", function*() {
    yield* TestClock.setTime(now)
    yield* stream()
    const seconds = Effect.map(
      ask("/metrics"),
      ({ text }) => Number(/^rollcall_relay_oldest_event_seconds (\S+)$/m.exec(text)?.[1])
    )
    assert.strictEqual(yield* seconds, 0)
    yield* write("a", "{}", { detectedAt: now - 500_000 })
    yield* write("b", "{}", { detectedAt: now - 100_000 })
    assert.strictEqual(yield* seconds, 500)
    const store = yield* Store
    const relay = yield* store.takeOwnership("relay")
    yield* store.saveReaderPosition(relay, "relay", 1)
    assert.strictEqual(yield* seconds, 100)
    yield* store.saveReaderPosition(relay, "relay", 2)
    assert.strictEqual(yield* seconds, 0)
  }, { publishes: true })

  it.live.skipIf(!promtool)("promtool reports no error", () =>
    Effect.gen(function*() {
      yield* Metric.update(counted, 1)
      yield* stream({ blocked: { reason: "key", code: null, message: "no", since: 0 } })
      yield* write("a", "{}")
      const { text } = yield* ask("/metrics")
      assert.strictEqual(execFileSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" }), "")
    }).pipe(using()))
})
