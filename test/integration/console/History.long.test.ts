/** The past in the console: the place of a change in Kafka, the runs of a stream, and plots that outlast the process. */
import { layer as suite } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Browser } from "playwright-core"
import { assert, describe } from "vitest"
import * as Broker from "../kafka/Broker.ts"
import * as Kcat from "../kafka/Kcat.ts"
import { launch, missing as noBrowser, open, show } from "./Chromium.ts"
import { install, type Installation, integration } from "./Installation.ts"
import { writeSamples } from "./PastSamples.ts"

const missing = noBrowser ?? Broker.missing ?? Kcat.missing
const template = `console-${process.pid}.{model}`

/** The position of a created tag that a poll found. */
const found = async (ask: Installation["ask"]): Promise<string> => {
  for (;;) {
    const { items } = await ask<{ items: ReadonlyArray<{ origin: string; position: string }> }>(
      "/v1/changes?kind=created&model=ats.tag"
    )
    const position = items.find(({ origin }) => origin === "poll")?.position
    if (position !== undefined) return position
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

describe.skipIf(missing !== null)(`the past in the console${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  suite(Broker.layer, { excludeTestServices: true, timeout: "10 minutes" })((it) => {
    const using = (
      body: (installation: Installation, browser: Browser, brokers: ReadonlyArray<string>) => Promise<void>
    ) =>
      Effect.scoped(Effect.gen(function*() {
        const { brokers } = yield* Broker.Broker
        const browser = yield* Effect.acquireRelease(Effect.promise(launch), (it) => Effect.promise(() => it.close()))
        const environment = { KAFKA_BROKERS: brokers.join(), KAFKA_SSL: "false", ROLLCALL_TOPIC: template }
        const installation = yield* Effect.acquireRelease(
          Effect.promise(() => install({ guarded: false, environment })),
          ({ stop }) => Effect.promise(stop)
        )
        yield* Effect.promise(() => body(installation, browser, brokers))
      }))

    it.effect(
      "is the topic, partition and offset of a change, the runs of its stream, and the history before a restart",
      () =>
        using(async ({ ask, file, restart, sandbox, url }, browser, brokers) => {
          await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: "late" } })
          const position = await found(ask)
          const { errors, page } = await open(browser, url)
          await show(page, `/events/${position}`)
          const stage = page.locator(".stages li", { has: page.getByRole("heading", { name: /^Kafka/ }) })
          await stage.getByText("published", { exact: true }).waitFor()
          const [, topic, partition, offset] = /Topic (\S+), partition (\d+), offset (\d+), published at \d{4}-/.exec(
            (await stage.innerText()).replaceAll(/\s+/g, " ")
          ) ?? []
          assert.strictEqual(topic, template.replace("{model}", "ats.tag"))
          const { event_id } = await ask<{ event_id: string }>(`/v1/changes/${position}`)
          const messages = await Effect.runPromise(Kcat.read(brokers, topic ?? ""))
          const message = messages.find((one) => one.partition === Number(partition) && one.offset === Number(offset))
          assert.strictEqual(message?.headers["ce_id"], event_id)

          await show(page, `/streams/${encodeURIComponent(integration)}/ats.tag`)
          const runs = page.getByRole("region", { name: "Runs, table" })
          await runs.getByRole("row", { name: /^backfill complete .* 12 = 12 new or changed$/ }).waitFor()
          await runs.getByRole("row", { name: /^poll complete .* 1 0 0 \d+ = .*1 new or changed/ }).waitFor()
          await runs.getByText(/polls? found nothing new/).first().waitFor()
          await sandbox.setFaults({
            faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "ats.tag" }]
          })
          await runs.getByRole("row", { name: /^poll blocked/ }).waitFor()
          await runs.getByRole("row", { name: /^blocked: .*PERMISSION_MISSING/ }).waitFor()

          await sandbox.setFaults({ faults: [] })
          await restart(() => {
            writeSamples(file, 40, (ago) => ({
              median: 3,
              p95: 4,
              worst: 90 - ago,
              events: ago * 7,
              unpublished: 11,
              deliveries: 2,
              deadLetters: 5,
              late: 1,
              blocked: 1,
              failing: 0,
              holds: 0
            }))
          })
          await show(page, "/")
          await page.getByText("Freshness of the streams: now 3 s median, 1 min worst").waitFor({ state: "attached" })
          await page.getByText("now 11 events for Kafka, 2 open deliveries, 5 dead letters").waitFor({
            state: "attached"
          })
          // drawn after the page is shown
          await page.locator(".plot canvas").nth(3).waitFor()
          assert.strictEqual(await page.locator(".plot canvas").count(), 4)
          await page.getByText(/^store: \d+ MiB · [\d,]+ GiB of [\d,]+ GiB free on its disk$/).waitFor()
          // the runs outlast the process too
          await show(page, `/streams/${encodeURIComponent(integration)}/ats.tag`)
          await runs.getByRole("row", { name: /^backfill complete/ }).waitFor()
          // the requests of the page fail while the process restarts
          assert.deepStrictEqual(errors.filter((error) => !/ERR_|Failed to load resource/.test(error)), [])
        })
    )
  })
})
