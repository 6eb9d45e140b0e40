/** Incidents that are found and resolved in a real browser, in at most three clicks from the overview: an outage in none, the rejection of a hold and a dead letter in two. */
import type { Browser } from "playwright-core"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { counting, launch, missing, open } from "./Chromium.ts"
import { install, type Installation, integration } from "./Installation.ts"

const mostClicks = 3

describe.skipIf(missing !== null)(`the console${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  let browser: Browser
  let installation: Installation

  beforeAll(async () => {
    browser = await launch()
    installation = await install({ guarded: false })
  })
  afterAll(async () => {
    await browser?.close()
    await installation?.stop()
  })

  /** The overview in a new page. */
  const overview = async () => {
    const opened = await open(browser, installation.url)
    await opened.page.goto("/")
    return { ...opened, ...counting(opened.page) }
  }

  it("says that nothing waits while all is well, and neither breaks its policy nor asks another server", async () => {
    const { errors, foreign, page } = await overview()
    await page.getByText("Nothing waits for you.").waitFor()
    await page.getByText("Live", { exact: true }).waitFor()
    assert.strictEqual(await page.locator(".step").count(), 4)
    assert.deepStrictEqual([errors, foreign], [[], []])
    await page.context().close()
  })

  it("shows a broken integration by itself, and three clicks try it again when the cause is gone", async () => {
    const { click, confirm, count, errors, page } = await overview()
    await page.getByText("Nothing waits for you.").waitFor()
    const { sandbox } = installation
    await sandbox.setFaults({ faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING" }] })
    const matter = page.locator(".matter", { hasText: "3 streams blocked" })
    await matter.waitFor()
    assert.include(await matter.locator(".scope").innerText(), `${integration} (3 streams)`)
    assert.match(await matter.locator(".scope").innerText(), /^for \d+ s/)
    const headline = await page.getByRole("alert").innerText()
    assert.match(headline, /^Nothing has been read since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(3 of 3 streams\)/)
    assert.strictEqual(count(), 0)
    await sandbox.setFaults({})
    await click("link", /^Open integration/)
    await page.getByRole("heading", { level: 1, name: integration }).waitFor()
    await click("button", "Try 3 streams again now")
    await confirm("Try 3 streams again now")
    await page.getByText("resume: accepted for 3 streams").waitFor()
    await page.locator("tbody .badge.good").nth(2).waitFor()
    assert.strictEqual(await page.locator("tbody .badge.bad").count(), 0)
    assert.isAtMost(count(), mostClicks)
    assert.deepStrictEqual(errors, [])
    await page.context().close()
  })

  it("shows a hold with its count, and three clicks publish exactly these changes", async () => {
    const { click, confirm, count, page } = await overview()
    const { ask, sandbox, tags } = installation
    const deleted = tags.slice(0, 6)
    for (const id of deleted) await sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
    const matter = page.locator(".matter", { hasText: "6 changes of ats.tag held back: deletes" })
    await matter.waitFor()
    await click("link", /^Review/)
    await page.getByRole("rowheader", { name: deleted[0] ?? "" }).waitFor()
    await click("button", "Approve")
    await confirm("Publish 6 changes")
    await page.getByText("is approved: 6 changes").waitFor()
    await page.getByText("approved", { exact: true }).waitFor()
    assert.isAtMost(count(), mostClicks)
    const { events } = await ask<{ events: ReadonlyArray<{ subject: string }> }>("/v1/events?kind=deleted")
    assert.sameMembers(events.map(({ subject }) => subject), deleted)
    await page.context().close()
  })

  it("rejects a hold in two clicks, because that can be undone; an approval asks again", async () => {
    const { click, count, page } = await overview()
    const { ask, sandbox } = installation
    const types = (await sandbox.truth("hris.absence_type")).map((type) => (type as { id: string }).id).slice(0, 5)
    for (const id of types) await sandbox.mutate({ op: "delete", integration, model: "hris.absence_type", id })
    await page.locator(".matter", { hasText: "5 changes of hris.absence_type held back: deletes" }).waitFor()
    await click("link", /^Review/)
    await click("button", "Reject 5 changes")
    await page.getByText("its changes stay unpublished").waitFor()
    assert.strictEqual(count(), 2)
    await page.getByRole("button", { name: "Approve" }).waitFor()
    const { items } = await ask<{ items: ReadonlyArray<{ state: string }> }>("/v1/holds?state=rejected")
    assert.lengthOf(items, 1)
    await page.context().close()
  })

  it("refuses an approval of a hold that has changed since it was counted, and publishes nothing", async () => {
    const { click, confirm, page } = await overview()
    const { ask, sandbox } = installation
    const skills = (await sandbox.truth("hris.skill")).map((skill) => (skill as { id: string }).id)
    const half = Math.ceil(skills.length / 2)
    for (const id of skills.slice(0, half)) await sandbox.mutate({ op: "delete", integration, model: "hris.skill", id })
    await page.locator(".matter", { hasText: `${half} changes of hris.skill` }).waitFor()
    await click("link", /^Review/)
    await click("button", "Approve")
    await page.getByRole("button", { name: `Publish ${half} changes` }).waitFor()
    await sandbox.mutate({ op: "delete", integration, model: "hris.skill", id: skills[half] ?? "" })
    await page.getByText(String(half + 1), { exact: true }).first().waitFor()
    await confirm(`Publish ${half} changes`)
    await page.getByRole("alert").getByText(`has ${half + 1} records now`).waitFor()
    await confirm("Cancel")
    await click("button", `Reject ${half + 1} changes`)
    await page.getByText("its changes stay unpublished").waitFor()
    const { events } = await ask<{ events: ReadonlyArray<unknown> }>("/v1/events?kind=deleted&model=hris.skill")
    assert.lengthOf(events, 0)
    await page.context().close()
  })

  it("shows a dead letter, and two clicks send it again", async () => {
    const { click, count, page } = await overview()
    const { ask, sandbox, setBroken } = installation
    setBroken(true)
    await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: "late" } })
    await page.locator(".matter", { hasText: "1 dead letter of audience" }).waitFor()
    setBroken(false)
    await click("link", /^Review.*dead letter/)
    await page.getByText("the list of the audience is closed").waitFor()
    await click("button", "Send again")
    await page.getByText("1 dead letter sent again").waitFor()
    await page.getByText("No dead letter matches this filter.").waitFor()
    assert.strictEqual(count(), 2)
    const { items } = await ask<{ items: ReadonlyArray<unknown> }>("/v1/deadletters")
    assert.lengthOf(items, 0)
    await page.context().close()
  })

  it("records every command in the audit log", async () => {
    const { page } = await overview()
    await page.goto("/audit")
    for (const command of ["streams.resume", "holds.approve", "holds.reject", "deadletters.redrive"]) {
      await page.getByRole("rowheader", { name: command }).first().waitFor()
    }
    const row = page.getByRole("row", { name: /holds\.reject/ }).first()
    assert.match(await row.innerText(), /no token\s+127\.0\.0\.1/)
    await page.context().close()
  })
})
