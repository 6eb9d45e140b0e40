import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import { withTurns } from "../../../test/support/Turns.ts"
import { incrementalModels } from "../../api/Lists.ts"
import * as CaptureMetrics from "../../capture/Metrics.ts"
import type { ReadModel } from "../../domain/BuiltInModels.ts"
import type { Model } from "../../domain/Model.ts"
import { zeroRowCounts } from "../../store/Run.ts"
import type { IntegrationView } from "../contract/Api.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import type { StoreOverview } from "../status/StoreOverview.ts"
import { Exposition } from "./Exposition.ts"
import { writeStreamMetrics } from "./StreamMetrics.ts"

const names = (count: number) => Array.from({ length: count }, (_, index) => `greenhouse:${index}`)

const streamOf = (integration: string, model: ReadModel, change: Partial<StreamView> = {}): StreamView =>
  streamView(integration, model, { records_live: 2, pending: { held: 1 }, ...change })

const overviewOf = (streams: ReadonlyArray<StreamView>, interval = 60) => ({
  streams,
  integrations: [...new Set(streams.map(({ integration }) => integration))].map((id) =>
    ({ id, interval_seconds: interval, sweep_interval_seconds: 3_600 }) as IntegrationView
  ),
  holds: [] as StoreOverview["holds"],
  redacting: [] as StoreOverview["redacting"]
})

const textOf = Effect.fnUntraced(
  function*(overview: ReturnType<typeof overviewOf>, isOwn: (integration: string) => boolean = () => true) {
    const out = new Exposition()
    yield* writeStreamMetrics(out, overview, isOwn)
    return out.text
  }
)

/** The series without their values. */
const seriesIn = (text: string): ReadonlyArray<string> =>
  text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => line.replace(/ \S+$/, ""))
    .sort()

describe("the metrics of streams", () => {
  it.effect("have as many series for 5,000 integrations with eleven models as for one (I9)", () =>
    Effect.gen(function*() {
      const of = (count: number) =>
        textOf(overviewOf(names(count).flatMap((id) => incrementalModels.map((model) => streamOf(id, model)))))
      const [one, many] = [yield* of(1), yield* of(5_000)]
      assert.lengthOf(incrementalModels, 11)
      assert.deepStrictEqual(seriesIn(many), seriesIn(one))
      assert.include(many, 'rollcall_streams{model="ats.tag",state="ok"} 5000\n')
      assert.include(many, 'rollcall_records_live{model="ats.tag"} 10000\n')
      assert.include(many, 'rollcall_pending_changes{model="ats.tag",reason="held"} 5000\n')
      assert.include(many, "rollcall_integrations 5000\n")
    }))

  it.effect("are added up in parts, and other fibers run after each part (I9)", () =>
    Effect.gen(function*() {
      const { result, turns } = yield* withTurns(textOf(overviewOf(names(1_000).map((id) => streamOf(id, "ats.tag")))))
      assert.strictEqual(turns, 4)
      assert.include(result, 'rollcall_streams{model="ats.tag",state="ok"} 1000\n')
    }))

  it.effect("that capture counts have as many series for 5,000 integrations as for one (I9)", () =>
    Effect.gen(function*() {
      const created = { kind: "created", restored: false, origin: "poll", changedAt: null, detectedAt: 0 } as const
      const of = Effect.fnUntraced(function*(count: number) {
        for (const integration of names(count)) {
          const key = { integration, model: "ats.tag" } as const
          yield* CaptureMetrics.pageCommitted(key, { ...zeroRowCounts, read: 1, unchanged: 1 }, 1)
          yield* CaptureMetrics.eventsDetected([{ ...created, model: "ats.tag" }])
          yield* CaptureMetrics.runEnded(key, "poll", "complete")
          yield* CaptureMetrics.clockSkewDetected(key)
          yield* CaptureMetrics.runMiscounted(key)
          yield* CaptureMetrics.recordsMissed(key, 1)
          yield* CaptureMetrics.refreshed(key, "changed", 1)
          yield* CaptureMetrics.lateChangeFound(key, 2, { before: 1, after: 3 })
          yield* CaptureMetrics.pollFilterChanged(key, "nothing")
          yield* CaptureMetrics.schemaDrifted(key, ["/name"])
        }
        return yield* PrometheusMetrics.format()
      }, (effect) => Effect.provideService(effect, Metric.MetricRegistry, new Map()))
      const [one, many] = [yield* of(1), yield* of(5_000)]
      assert.deepStrictEqual(seriesIn(many), seriesIn(one))
      assert.include(many, 'rollcall_runs_total{model="ats.tag",kind="poll",outcome="complete"} 5000\n')
      assert.notInclude(many, "greenhouse")
    }))

  it.effect("compare the freshness with the target of the integration's interval, without paused streams and backfills", () =>
    Effect.gen(function*() {
      const text = yield* textOf(overviewOf([
        streamOf("a:1", "ats.tag", { freshness_seconds: 900 }),
        streamOf("a:2", "ats.tag", { freshness_seconds: 1_000 }),
        streamOf("a:3", "ats.tag", { freshness_seconds: 9_000, paused: true }),
        streamOf("a:4", "ats.tag", { freshness_seconds: 9_000, phase: "backfilling" }),
        streamOf("a:5", "ats.tag", { freshness_seconds: null, phase: "starting" })
      ], 300))
      for (
        const [state, count] of Object.entries({ ok: 1, late: 1, paused: 1, backfilling: 2, failing: 0, blocked: 0 })
      ) {
        assert.include(text, `rollcall_streams{model="ats.tag",state="${state}"} ${count}\n`)
      }
      assert.include(text, 'rollcall_stream_freshness_max_seconds{model="ats.tag"} 1000\n')
      assert.include(text, `rollcall_stream_lateness_max_ratio{model="ats.tag"} ${1_000 / 900}\n`)
    }))

  it.effect("compare the age of the last complete sweep with twice the sweep interval (R5)", () =>
    Effect.gen(function*() {
      const text = yield* textOf(overviewOf([
        streamOf("a:1", "ats.tag", { sweep_age_seconds: 3_600 }),
        streamOf("a:2", "ats.tag", { sweep_age_seconds: 10_800 }),
        streamOf("a:3", "ats.tag", { sweep_age_seconds: 99_999, paused: true })
      ]))
      assert.include(text, 'rollcall_stream_sweep_lateness_max_ratio{model="ats.tag"} 1.5\n')
    }))

  it.effect("count an integration once for each reason for which its streams are blocked", () =>
    Effect.gen(function*() {
      const blocked = (reason: string) => ({ blocked: { reason, message: "no", since: "2026-01-01T00:00:00Z" } })
      const text = yield* textOf(overviewOf([
        streamOf("a:1", "ats.tag", blocked("key")),
        streamOf("a:1", "ats.offer", blocked("key")),
        streamOf("a:2", "ats.tag", blocked("key")),
        streamOf("a:2", "ats.offer", blocked("permission"))
      ]))
      assert.include(text, 'rollcall_integrations_blocked{reason="key"} 2\n')
      assert.include(text, 'rollcall_integrations_blocked{reason="permission"} 1\n')
      assert.include(text, 'rollcall_integrations_blocked{reason="inactive"} 0\n')
      assert.include(text, 'rollcall_streams{model="ats.tag",state="blocked"} 2\n')
    }))

  it.effect("leave out the integrations of other processes, also in holds and redactions, which count whole streams", () =>
    Effect.gen(function*() {
      const none = yield* textOf(overviewOf([streamOf("a:1", "ats.tag")]))
      assert.include(none, 'rollcall_redaction_remaining_streams{model="ats.tag"} 0\n')
      const text = yield* textOf({
        ...overviewOf([streamOf("a:1", "ats.tag"), streamOf("a:2", "ats.tag")]),
        holds: ["a:1", "a:2", "a:2"].map((integration) =>
          ({ integration, model: "ats.tag" as Model }) as StoreOverview["holds"][number]
        ),
        redacting: [
          { integration: "a:1", model: "ats.tag" },
          { integration: "a:1", model: "ats.offer" },
          { integration: "a:1", model: "ats.offer" },
          { integration: "a:2", model: "ats.tag" }
        ]
      }, (integration) => integration === "a:1")
      assert.include(text, "rollcall_integrations 1\n")
      assert.include(text, 'rollcall_streams{model="ats.tag",state="ok"} 1\n')
      assert.include(text, 'rollcall_holds_open{model="ats.tag"} 1\n')
      assert.include(text, 'rollcall_redaction_remaining_streams{model="ats.tag"} 1\n')
      assert.include(text, 'rollcall_redaction_remaining_streams{model="ats.offer"} 2\n')
    }))
})
