/** Metrics of the real process over OTLP, compared with what `/metrics` shows. */
import { assert, describe, it } from "vitest"
import { traced } from "./Traced.ts"

const namesIn = (exposition: string): ReadonlySet<string> =>
  new Set([...exposition.matchAll(/^# TYPE (\S+)/gm)].map(([, name = ""]) => name))

describe("metrics over OTLP", () => {
  for (const protocol of ["http/protobuf", "http/json"]) {
    it(
      `are those of /metrics, with the same names, types and labels, over ${protocol}`,
      () =>
        traced(async ({ api, collector, createTag, service }) => {
          const running = service({ OTEL_EXPORTER_OTLP_PROTOCOL: protocol, OTEL_TRACES_EXPORTER: "none" })
          await running.says(/backfill complete/, "stderr")
          await createTag()
          await running.says(/written/)
          const page = async () => (await fetch(`${api}/metrics`)).text()
          // The gauges that are read count the stored deliveries, so they are those of an export after the write. A counter appears with
          // its first value, so the export is one between two pages with the same names.
          let [exposition, later] = ["", await page()]
          let metrics = collector.metrics
          while (namesIn(exposition).size !== namesIn(later).size) {
            exposition = later
            const before = collector.requests.length
            metrics = await collector.until((now) => now.requests.length > before + 1 && now.metrics)
            later = await page()
          }
          assert.sameMembers([...metrics.keys()], [...namesIn(exposition)])
          for (const [, name = "", type] of exposition.matchAll(/^# TYPE (\S+) (\S+)/gm)) {
            assert.strictEqual(metrics.get(name)?.type, type, name)
          }
          const valueOf = (name: string, labels: object = {}) =>
            metrics.get(name)?.points.find((point) => JSON.stringify(point.labels) === JSON.stringify(labels))?.value
          assert.strictEqual(valueOf("rollcall_streams", { model: "ats.tag", state: "ok" }), 1)
          assert.strictEqual(valueOf("rollcall_shards_owned"), 64)
          assert.isAbove(valueOf("process_cpu_seconds_total") ?? 0, 0)
          assert.isAbove(valueOf("rollcall_records_live", { model: "ats.tag" }) ?? 0, 12)
          assert.isTrue(collector.requests.every(({ signal }) => signal === "metrics"))
        })
    )
  }

  it(
    "of the last seconds are exported on SIGTERM, with the gauges of that time",
    () =>
      traced(async ({ collector, createTag, service }) => {
        const running = service({ OTEL_METRIC_EXPORT_INTERVAL: "3600000", OTEL_BSP_SCHEDULE_DELAY: "3600000" })
        await running.says(/backfill complete/, "stderr")
        await createTag()
        await running.says(/written/)
        assert.strictEqual(collector.received, 0)
        const { code } = await running.stop()
        assert.strictEqual(code, 0)
        assert.isAbove(collector.metrics.get("rollcall_events_detected_total")?.points.length ?? 0, 0)
        assert.isAbove(collector.metrics.get("rollcall_records_live")?.points[0]?.value ?? 0, 12)
        assert.isTrue(collector.spans.some(({ name }) => name === "write"))
      })
  )
})
