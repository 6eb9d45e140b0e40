/** Traces of the real process: a sandbox, a store in a file, a plugin that writes, and a collector that decodes OTLP. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "vitest"
import { named, namesOf, pathOf, secretName, traced } from "./Traced.ts"

const eventsOf = async (api: string): Promise<ReadonlyArray<Record<string, unknown>>> =>
  (await (await fetch(`${api}/v1/events?limit=100`)).json() as { events: Array<Record<string, unknown>> }).events

const storedTraces = (directory: string): ReadonlyArray<string | null> => {
  const database = new DatabaseSync(join(directory, "rollcall.db"), { readOnly: true })
  const rows = database.prepare("SELECT traceparent FROM events ORDER BY position").all()
  database.close()
  return rows.map(({ traceparent }) => traceparent as string | null)
}

describe("traces over OTLP", () => {
  for (const protocol of ["http/protobuf", "http/json"]) {
    it(
      `a change is one trace from the poll that found it to the write that it caused, over ${protocol}`,
      () =>
        traced(async ({ api, collector, createTag, service, sandbox }) => {
          const running = service({ OTEL_EXPORTER_OTLP_PROTOCOL: protocol })
          await collector.until(({ spans }) => named(spans, "poll").length > 0)
          const tag = await createTag()
          const write = await collector.until(({ spans }) => named(spans, "write")[0])
          // the poll ends after its commit, so it may be exported later
          const path = await collector.until(({ spans }) => {
            const path = pathOf(spans, write)
            return path.at(-1)?.name === "poll" && path
          })
          assert.deepStrictEqual(namesOf(path), ["write", "delivery", "commit", "page", "poll"])
          const [, delivery, commit, page] = path
          assert.deepInclude(write.attributes, { "rollcall.write": "addTag" })
          assert.deepInclude(delivery?.attributes, {
            "rollcall.plugin": "tagging",
            "rollcall.handler": "ats.tag.created",
            "rollcall.attempt": 1,
            "rollcall.events": 1
          })
          assert.deepInclude(commit?.attributes, { "rollcall.model": "ats.tag", "rollcall.events": 1 })
          assert.deepInclude(page?.attributes, { "rollcall.page.records": 1 })
          assert.deepStrictEqual(path.map(({ kind }) => kind), [3, 5, 1, 3, 1])
          assert.isTrue(path.every(({ status }) => status?.code === 1))
          // the feed names the span that stored the event
          const event = (await eventsOf(api)).find(({ subject }) => subject === tag)
          assert.strictEqual(event?.["traceparent"], `00-${commit?.traceId}-${commit?.spanId}-01`)
          await running.stop()
          const exported = JSON.stringify(collector.spans)
          for (const private_ of [secretName, tag, sandbox.ids.candidate, sandbox.key]) {
            assert.notInclude(exported, `"${private_}"`)
          }
        })
    )
  }

  it("each page of a sweep is a trace that links to the sweep", () =>
    traced(async ({ collector, service }) => {
      service()
      const sweep = await collector.until(({ spans }) => named(spans, "sweep")[0])
      const [page] = named(collector.spans, "page")
      assert.isNull(page?.parentSpanId)
      assert.deepStrictEqual(page?.links, [`${sweep.traceId}-${sweep.spanId}`])
      const commit = collector.spans.find(({ parentSpanId }) => parentSpanId === page?.spanId)
      assert.strictEqual(commit?.name, "commit")
    }))

  it(
    "a page that the API refuses is a span with the type of the error, and without its text",
    () =>
      traced(async ({ collector, sandbox, service }) => {
        service()
        await collector.until(({ spans }) => named(spans, "poll").length > 0)
        await sandbox.setAccount({ unavailable: { sandbox: ["ats.tag"] } })
        const poll = await collector.until(({ spans }) => named(spans, "poll").find(({ status }) => status?.code === 2))
        assert.strictEqual(poll.status?.message, "Unsupported")
        const texts = poll.events?.flatMap(({ attributes = [] }) => attributes.map(({ value }) => value.stringValue)) ??
          []
        assert.lengthOf(texts, 3)
        for (const text of texts) assert.match(String(text), /^Unsupported(: Unsupported)?$/)
      })
  )

  it(
    "without an endpoint nothing is exported and stored, and the log of events is as before",
    () =>
      traced(async ({ api, collector, createTag, directory, service }) => {
        const running = service({ OTEL_EXPORTER_OTLP_ENDPOINT: "" })
        await running.says(/backfill complete/, "stderr")
        await createTag()
        await running.says(/written/)
        assert.isTrue((await eventsOf(api)).every((event) => !("traceparent" in event)))
        await running.stop()
        assert.isTrue(storedTraces(directory).every((traceparent) => traceparent === null))
        assert.isAbove(storedTraces(directory).length, 1)
        assert.strictEqual(collector.received, 0)
      })
  )

  it(
    "a process that starts later continues the trace, and a failed attempt has the type of its error without the text",
    () =>
      traced(async ({ collector, createTag, service }) => {
        const first = service({ OTEL_SERVICE_NAME: "first", BUSY: "yes" })
        await collector.until(({ spans }) => named(spans, "poll").length > 0)
        await createTag()
        await collector.until(({ spans }) => named(spans, "delivery").length > 0)
        await first.stop()
        const [failed] = named(collector.spans, "delivery")
        assert.deepInclude(failed?.status, { code: 2, message: "Transient" })
        assert.notInclude(JSON.stringify(collector.spans), "is busy")
        assert.include(namesOf(pathOf(collector.spans, failed!)), "commit")
        service({
          OTEL_SERVICE_NAME: "second",
          OTEL_RESOURCE_ATTRIBUTES: "service.name=other,deployment.environment.name=caf%C3%A9"
        })
        const write = await collector.until(({ spans }) => named(spans, "write")[0])
        const delivery = await collector.until(({ spans }) => spans.find(({ spanId }) => spanId === write.parentSpanId))
        assert.strictEqual(delivery.traceId, failed?.traceId)
        assert.strictEqual(delivery.parentSpanId, failed?.parentSpanId)
        assert.isAbove(Number(delivery.attributes["rollcall.attempt"]), 1)
        const { resource } = collector.requests.at(-1)!
        assert.deepInclude(resource, { "service.name": "second", "deployment.environment.name": "café" })
        assert.isString(resource["service.instance.id"])
      })
  )
})
