/** The actions of all pages, of the list of streams, of a stream and of its integration. */
import { assert } from "vitest"
import { integration } from "../Installation.ts"
import type { Scenes } from "./Operator.ts"

export const streams: Scenes = {
  "open every page, skip to its content, and select the time of the plots": async ({ main, page }) => {
    for (const hours of ["1 h", "24 h", "6 h"]) {
      await page.getByRole("radio", { name: hours }).check()
      assert.strictEqual(new URL(page.url()).search, hours === "6 h" ? "" : `?hours=${Number.parseInt(hours)}`)
    }
    await page.locator(".matter", { hasText: "1 stream blocked" }).waitFor()
    for (const [link, heading] of [["Review", "Hold"], ["Open stream", `${integration}/hris.skill`]] as const) {
      await main.getByRole("link", { name: new RegExp(`^${link}`) }).first().click()
      await page.getByRole("heading", { level: 1, name: heading }).waitFor()
      await page.goBack()
      await page.locator(".matter").first().waitFor()
    }
    const pages = ["Integrations", "Streams", "Events", "Holds", "Plugins", "Dead letters", "Processes", "Audit log"]
    for (const name of [...pages, "Overview"]) {
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).click()
      await page.getByRole("heading", { level: 1, name }).waitFor()
    }
    await page.goto("/holds")
    await page.locator(".brand").click()
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor()
    for (
      const [name, path] of [["Glossary", "/glossary"], ["API", "/docs"], [
        "Licenses",
        "/console/licenses.txt"
      ]] as const
    ) {
      await page.getByRole("link", { name, exact: true }).click()
      // the page of the API needs a long time on a slow machine until it is complete
      await page.waitForURL(`**${path}`, { waitUntil: "commit" })
      await page.goBack()
    }
    await page.locator(".skip").focus()
    await page.keyboard.press("Enter")
    assert.strictEqual(await page.evaluate("document.activeElement.id"), "main")
    for (const [button, state] of [["Pause updates", "Paused"], ["Resume updates", "Live"]] as const) {
      await page.getByRole("button", { name: button }).click()
      await page.locator(".connection").getByText(state, { exact: true }).waitFor()
    }
  },

  "search, filter, sort and page through streams, which the address keeps": async (
    { click, page, show, turnPages }
  ) => {
    await show("/streams")
    await page.getByLabel("Search in name and cause").fill("tag")
    await page.getByText("1 to 1 of 1 stream").waitFor()
    await page.getByRole("link", { name: "Streams" }).click()
    await page.getByText("1 to 3 of 3 streams").waitFor()
    assert.strictEqual(await page.getByLabel("Search in name and cause").inputValue(), "")
    await page.getByRole("combobox", { name: "State" }).selectOption("blocked")
    await page.getByText("1 to 1 of 1 stream").waitFor()
    await page.getByRole("combobox", { name: "State" }).selectOption("")
    for (const column of ["Stream", "Freshness", "Records", "Pending", "Quarantine", "State"]) {
      await click(column)
      const header = page.getByRole("columnheader", { name: column })
      await page.locator("th[aria-sort]", { hasText: column }).waitFor()
      assert.strictEqual(await header.getAttribute("aria-sort"), column === "Stream" ? "ascending" : "descending")
    }
    await show("/streams?limit=1")
    await turnPages("Previous")
    await show("/integrations")
    await page.getByLabel("Search").fill("nothing")
    await page.getByText("No integration matches.").waitFor()
    await page.getByLabel("Search").fill("every")
    await click(integration, "link")
    await page.getByRole("heading", { level: 1, name: integration }).waitFor()
  },

  "run every command of a stream and of an integration": async ({ click, confirm, page, run, show }) => {
    await show(`/streams/${encodeURIComponent(integration)}/hris.skill`)
    await run("Try again now", "Try again now", "is tried again")
    await show(`/streams/${encodeURIComponent(integration)}/hris.absence_type`)
    // a command continues if its dialog is closed
    const held = Promise.withResolvers<void>()
    await page.route("**/poll", async (route) => {
      await held.promise
      await route.continue()
    })
    await click("Poll now")
    await page.getByRole("dialog").getByRole("button", { name: "Poll now" }).click()
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click()
    await page.locator("dialog").waitFor({ state: "detached" })
    held.resolve()
    await page.locator(".outcome").getByText("is polled").waitFor()
    await run("Sweep", "Start a sweep", "is swept")
    await run("Backfill", "Start a backfill", "a backfill starts")
    await run("Audit", "Start the audit", /differences?$/)
    await click("Rewind")
    await page.getByLabel("Time, in UTC").fill("2026-01-01T00:00")
    await confirm("Rewind", "rewound")
    await run("Pause", "Pause", "paused")
    await run("Resume", "Resume", "resumed")
    await click(`All streams of ${integration}`, "link")
    await page.getByRole("heading", { level: 1, name: integration }).waitFor()
    await run("Try 1 stream again now", "Try 1 stream again now", "resume: accepted for 1 stream")
    await run("Pause 3 streams", "Pause", /pause: accepted for 3 streams/)
    await run(/^Resume \d streams$/, /^Resume/, /resume: accepted/)
  }
}
