/** The actions of events and of holds. */
import { assert } from "vitest"
import { integration } from "../Installation.ts"
import type { Scenes } from "./Operator.ts"

export const changes: Scenes = {
  "find events with every filter, and reveal and hide their values": async (
    { click, installation, main, page, show }
  ) => {
    await show("/events?limit=5")
    await click("Show older events")
    await page.getByText(/^The newest 1\d events$/).waitFor()
    await page.getByLabel("Integration").fill(integration)
    await page.getByLabel("Integration").press("Enter")
    for (const [label, value] of [["Model", "ats.tag"], ["Kind", "created"], ["Transition", "hired"]] as const) {
      await page.getByLabel(label).selectOption(value)
      await page.waitForURL(new RegExp(`${label.toLowerCase()}=${value}`))
    }
    await page.getByText(/^No event matches/).waitFor()
    await page.getByLabel("Transition").selectOption("")
    await page.getByLabel("Id of a record").fill(installation.tags[9] ?? "")
    await page.getByLabel("Id of a record").press("Enter")
    await page.getByText(/^1 event, back to the oldest/).waitFor()
    const found = main.locator("tbody tr").first()
    const vendor = /at the vendor: (\S+)/.exec(
      await found.locator("[title^='at the vendor']").getAttribute("title") ?? ""
    )
    await page.getByLabel("Id of a record").fill("")
    await page.getByLabel("Its id at the vendor").fill(vendor?.[1] ?? "")
    await page.getByLabel("Its id at the vendor").press("Enter")
    await page.waitForURL(/remote_id=/)
    await page.getByText(/^1 event, back to the oldest/).waitFor()
    await main.getByRole("link", { name: /^\d{4}-/ }).click()
    await click("Reveal values")
    await page.getByText("The whole record").click()
    await page.locator(".sides pre").first().waitFor()
    await click("Hide values")
    await page.locator(".sides").waitFor({ state: "detached" })
    await click("All events", "link")
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor()
  },

  "approve the counted changes of a hold as old records, and reject another hold": async (
    { click, confirm, installation, main, page, show, turnPages }
  ) => {
    const [first, second] = await installation.items<{ readonly id: number }>("/v1/holds", 2)
    await show("/holds?limit=1")
    await turnPages()
    await page.getByRole("combobox", { name: "State" }).selectOption("approved")
    await page.getByText("No hold").waitFor()
    await show(`/holds/${first?.id}?limit=3`)
    await turnPages()
    await page.getByText(/^\d of \d would be deleted: the API/).waitFor()
    await main.getByText("••••••").first().waitFor()
    await click("Reveal names and values")
    await main.getByText("••••••").first().waitFor({ state: "detached" })
    await click("Hide names and values")
    await main.getByText("••••••").first().waitFor()
    await click(/^Approve/)
    await page.getByRole("radio", { name: "as old records" }).check()
    await page.getByRole("radio", { name: "as events" }).check()
    await page.getByRole("button", { name: "Cancel" }).click()
    await click(/^Approve/)
    await page.getByRole("radio", { name: "as old records" }).check()
    await confirm(/^Publish \d changes/, "is approved")
    await page.locator(".sentence", { hasText: /^approv/ }).waitFor()
    // the button is gone: the keyboard continues at the heading
    await page.locator("h1:focus").waitFor()
    const decided = page.locator(".notice", { hasText: /^Approved .* by session from 127\.0\.0\.1\./ })
    await decided.getByRole("link", { name: /^The events of \d published changes$/ }).click()
    const { hold } = await installation.ask<{ hold: { released: number } }>(`/v1/holds/${first?.id}`)
    await page.getByText(new RegExp(`^${hold.released} events, back to the oldest`)).waitFor()
    assert.strictEqual(await main.locator("tbody .badge.bad").count(), hold.released)
    await click(`hold ${first?.id}`, "link")
    await page.getByRole("heading", { level: 1, name: `Hold ${first?.id}` }).waitFor()
    await show(`/holds/${second?.id}`)
    await click(/^Reject \d changes/)
    await page.locator(".outcome", { hasText: "its changes stay unpublished" }).waitFor()
    await page.locator("h1:focus").waitFor()
    await page.getByText(/^Rejected .* by session from/).waitFor()
    await click("All holds", "link")
    await page.locator(".badge", { hasText: "rejected" }).waitFor()
    const deleted = await installation.items<{ origin: string }>("/v1/changes?kind=deleted&limit=200")
    assert.isTrue(deleted.every(({ origin }) => origin === "backfill"))
  },

  "accept a property that many records have lost, without publishing it": async (
    { click, confirm, installation, page, run, show }
  ) => {
    const { items, sandbox } = installation
    const stream = `/streams/${encodeURIComponent(integration)}/hris.absence_type`
    const model = "hris.absence_type"
    const path = `/v1/changes?kind=created&model=${model}&limit=200`
    const known = (await items(path)).length
    for (let count = 0; count < 10; count++) {
      await sandbox.mutate({ op: "create", integration, model, fields: { name: `type ${count}`, unit: "DAYS" } })
    }
    const created = (await items<{ readonly record: string }>(path, known + 10)).slice(0, 10)
    // one run reads all of them
    await show(stream)
    await run("Pause", "Pause", "paused")
    for (const { record } of created) {
      await sandbox.mutate({ op: "update", integration, model, id: record, fields: { unit: null } })
    }
    await run("Resume", "Resume", "resumed")
    const [hold] = await items<{ readonly id: number }>("/v1/holds?state=open", 1)
    await show(`/holds/${hold?.id}`)
    await click(/^Approve \d+ changes/)
    await page.getByRole("radio", { name: "Publish nothing" }).check()
    await confirm(/^Accept \d+ changes$/, "is approved")
    await page.locator(".notice", { hasText: /^Approved .* by session/ }).waitFor()
    const [entry] = await items<{ command: string; detail: string }>("/v1/audit?limit=1")
    assert.deepInclude(entry, { command: "holds.approve", detail: `{"origin":null,"silent":true}` })
  }
}
