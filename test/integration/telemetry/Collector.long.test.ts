/** A process whose collector fails captures and delivers as before, logs the failure once, and ends in time. */
import { assert, describe, it } from "vitest"
import { traced } from "./Traced.ts"

const linesOf = (stderr: string, pattern: RegExp) => stderr.split("\n").filter((line) => pattern.test(line))

describe("a collector", () => {
  for (
    const [what, behavior] of [["answers with 500", 500], ["answers with 429", 429], [
      "never answers",
      "silent"
    ]] as const
  ) {
    it(
      `that ${what} delays no change, is logged once for each signal, and does not delay the end`,
      () =>
        traced(async ({ collector, createTag, service }) => {
          collector.behavior = behavior
          const running = service({ OTEL_EXPORTER_OTLP_TIMEOUT: "1000" })
          await running.says(/backfill complete/, "stderr")
          await createTag()
          await running.says(/written/)
          await running.says(/traces are not exported/, "stderr")
          await running.says(/metrics are not exported/, "stderr")
          await createTag()
          await running.says(/written\nwritten/)
          const began = performance.now()
          const { code, stderr } = await running.stop()
          assert.strictEqual(code, 0)
          assert.isBelow(performance.now() - began, 10_000)
          assert.strictEqual(linesOf(stderr, /are not exported/).length, 2)
          const line = JSON.parse(linesOf(stderr, /traces are not exported/)[0]!)
          assert.strictEqual(line.level, "warn")
          assert.strictEqual(line.endpoint, `${collector.url}/v1/traces`)
          assert.strictEqual(
            line.why,
            behavior === "silent"
              ? "the collector did not answer within 1s"
              : `the collector answered with status ${behavior}`
          )
        })
    )
  }

  it(
    "that never answers does not delay the end of the last export by more than its limit",
    () =>
      traced(async ({ collector, service }) => {
        collector.behavior = "silent"
        const running = service({ OTEL_BSP_SCHEDULE_DELAY: "3600000", OTEL_METRIC_EXPORT_INTERVAL: "3600000" })
        await running.says(/backfill complete/, "stderr")
        const began = performance.now()
        const { code } = await running.stop()
        assert.strictEqual(code, 0)
        assert.isBelow(performance.now() - began, 10_000)
        assert.strictEqual(collector.received, 2)
      })
  )

  it(
    "that is not there is named with the reason, and without the query and the headers, which may contain keys",
    () =>
      traced(async ({ service }) => {
        const running = service({
          OTEL_EXPORTER_OTLP_ENDPOINT: "",
          OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:1/collect?key=s3cr3t",
          OTEL_EXPORTER_OTLP_HEADERS: "x-key=s3cr3t",
          OTEL_EXPORTER_OTLP_TIMEOUT: "1000"
        })
        await running.says(/traces are not exported/, "stderr")
        const { stderr } = await running.stop()
        assert.match(stderr, /"endpoint":"http:\/\/127.0.0.1:1\/collect"/)
        assert.match(stderr, /ECONNREFUSED/)
        assert.notInclude(stderr, "s3cr3t")
      })
  )

  it("receives the configured headers at the address of each signal", () =>
    traced(async ({ collector, service }) => {
      service({
        OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=acme%20inc, authorization=Bearer%20abc",
        OTEL_EXPORTER_OTLP_METRICS_HEADERS: "x-tenant=other",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/own/traces`
      })
      const traces = await collector.until(({ requests }) => requests.find(({ signal }) => signal === "traces"))
      const metrics = await collector.until(({ requests }) => requests.find(({ signal }) => signal === "metrics"))
      assert.strictEqual(traces.path, "/own/traces")
      assert.deepInclude(traces.headers, { "x-tenant": "acme inc", authorization: "Bearer abc" })
      assert.strictEqual(metrics.path, "/v1/metrics")
      assert.strictEqual(metrics.headers["x-tenant"], "other")
      assert.notProperty(metrics.headers, "authorization")
    }))
})
