/** Every action of the console, in a real browser with the right to operate: each takes effect, and each command is audited. */
import type { Browser, Locator, Page } from "playwright-core"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { Actions } from "./Actions.ts"
import { launch, missing, open, type Opened } from "./Chromium.ts"
import { install, type Installation, integration, token } from "./Installation.ts"

interface Items<A> {
  readonly items: ReadonlyArray<A>
}
interface Letter {
  readonly id: number
  readonly handler: string
}

describe.skipIf(missing !== null)(
  `the actions of the console${missing === null ? "" : ` (skipped: ${missing})`}`,
  () => {
    let browser: Browser
    let installation: Installation
    let opened: Opened
    let page: Page
    let main: Locator
    const actions = new Actions()

    const signIn = async (): Promise<void> => {
      await page.getByLabel("Token").fill(token)
      await page.getByRole("button", { name: "Sign in" }).click()
      await page.locator("h1:has-text('Overview')").waitFor()
    }

    /** Waits for so many items, and returns them. */
    const items = async <A>(path: string, count: number): Promise<ReadonlyArray<A>> => {
      for (;;) {
        const { items } = await installation.ask<Items<A>>(path)
        if (items.length >= count) return items
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }

    /** Opens a path and waits until its data is there. */
    const show = async (path: string): Promise<void> => {
      await page.goto(path)
      await page.locator("h1").waitFor()
      await page.locator("main:not(:has-text('Loading…'))").waitFor()
    }

    const click = (name: string | RegExp, role: "button" | "link" = "button"): Promise<void> =>
      main.getByRole(role, { name, exact: typeof name === "string" }).first().click()

    /** Confirms the open dialog, and waits until the command has ended with this result. */
    const confirm = async (name: string | RegExp, result: string | RegExp): Promise<void> => {
      await page.getByRole("dialog").getByRole("button", { name }).click()
      const said = page.locator(".outcome > p, dialog [role=alert]").first()
      await said.waitFor()
      const text = await said.innerText()
      assert.isTrue(typeof result === "string" ? text.includes(result) : result.test(text), text)
      await page.locator("dialog").waitFor({ state: "detached" })
    }

    const run = async (
      name: string | RegExp,
      confirmation: string | RegExp,
      result: string | RegExp
    ): Promise<void> => {
      await click(name)
      await confirm(confirmation, result)
    }

    /** Follows the links to the next page of a list, which begins with another row, and back to its first page. */
    const turnPages = async (back = "First page"): Promise<void> => {
      const next = main.getByRole("link", { name: "Next", exact: true })
      await next.waitFor()
      const first = await main.locator("tbody tr").first().innerText()
      await next.click()
      await main.getByRole("link", { name: back, exact: true }).waitFor()
      assert.notStrictEqual(await main.locator("tbody tr").first().innerText(), first)
      await main.getByRole("link", { name: back, exact: true }).click()
      await main.getByRole("link", { name: back, exact: true }).waitFor({ state: "detached" })
      await next.waitFor()
    }

    beforeAll(async () => {
      browser = await launch()
      installation = await install({ guarded: true })
      const { sandbox, setBroken, tags } = installation
      setBroken(true)
      await sandbox.setFaults({
        faults: [
          { kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "hris.skill" },
          { kind: "drop_response", endpoint: "createApplication" }
        ]
      })
      for (const name of ["late", "later"]) {
        await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name } })
      }
      for (const id of tags.slice(10, 12)) {
        await sandbox.mutate({ op: "update", integration, model: "ats.tag", id, fields: { name: `new ${id}` } })
      }
      for (const id of tags.slice(0, 8)) await sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
      for (const type of (await sandbox.truth("hris.absence_type")).slice(0, 5)) {
        const { id } = type as { id: string }
        await sandbox.mutate({ op: "delete", integration, model: "hris.absence_type", id })
      }
      await items("/v1/deadletters", 4)
      await items("/v1/holds", 2)
      opened = await open(browser, installation.url)
      page = opened.page
      main = page.locator("main")
      await actions.watch(page)
      await page.goto("/")
      await signIn()
    })
    afterAll(async () => {
      await browser?.close()
      await installation?.stop()
    })

    it("open every page, skip to its content, and select the time of the plots", async () => {
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
        await page.waitForURL(`**${path}`)
        await page.goBack()
      }
      await page.locator(".skip").focus()
      await page.keyboard.press("Enter")
      assert.strictEqual(await page.evaluate("document.activeElement.id"), "main")
      for (const [button, state] of [["Pause updates", "Paused"], ["Resume updates", "Live"]] as const) {
        await page.getByRole("button", { name: button }).click()
        await page.locator(".connection").getByText(state, { exact: true }).waitFor()
      }
    })

    it("search, filter, sort and page through streams, which the address keeps", async () => {
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
    })

    it("run every command of a stream and of an integration", async () => {
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
    })

    it("find events with every filter, and reveal and hide their values", async () => {
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
    })

    it("approve the counted changes of a hold as old records, and reject another hold", async () => {
      const [first, second] = await items<{ readonly id: number }>("/v1/holds", 2)
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
      const { items: deleted } = await installation.ask<Items<{ origin: string }>>("/v1/changes?kind=deleted&limit=200")
      assert.isNotEmpty(deleted)
      assert.isTrue(deleted.every(({ origin }) => origin === "backfill"))
    })

    it("accept a property that many records have lost, without publishing it", async () => {
      const { ask, sandbox } = installation
      const stream = `/streams/${encodeURIComponent(integration)}/hris.absence_type`
      const model = "hris.absence_type"
      const path = `/v1/changes?kind=created&model=${model}&limit=200`
      const known = (await ask<Items<unknown>>(path)).items.length
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
      const { items: [entry] } = await ask<Items<{ command: string; detail: string }>>("/v1/audit?limit=1")
      assert.deepInclude(entry, { command: "holds.approve", detail: `{"origin":null,"silent":true}` })
    })

    it("switch a plugin off and on, everywhere and in one integration, and stop and resume writes", async () => {
      await show("/plugins/audience")
      for (const word of ["off", "on"]) {
        await run(`Switch ${word} everywhere`, `Switch ${word}`, `audience is switched ${word} everywhere`)
      }
      for (const word of ["off", "on"]) {
        await run(
          `Switch ${word} in ${integration}`,
          `Switch ${word}`,
          `audience is switched ${word} in ${integration}`
        )
      }
      await click("All plugins", "link")
      await page.getByText(/^2 handlers: 0 running, 0 due, 0 waiting, \d+ dead letters$/).waitFor()
      await run("Stop all writes", "Stop all writes", "No plugin starts a write")
      await run("Resume writes", "Resume writes", "Plugins may write again")
    })

    it("filter dead letters, send them again with their progress, resolve writes, and discard", async () => {
      const letters = await items<Letter>("/v1/deadletters", 4)
      const ofHandler = (handler: string) => letters.filter((letter) => letter.handler === handler).map(({ id }) => id)
      const [created = 0] = ofHandler("ats.tag.created")
      const [happened = 0, not = 0] = ofHandler("ats.tag.updated")
      await show("/dead-letters")
      // nothing is the next step for all of them, so no button looks like it
      assert.strictEqual(await main.locator("button.main").count(), 0)
      await click("Send all 4 again")
      await page.getByRole("dialog").getByText(/2 of them have a write of unknown outcome/).waitFor()
      await page.getByRole("dialog").getByText("2 of audience (ats.tag.updated): OutcomeUnknown").waitFor()
      await page.getByRole("dialog").getByRole("link", { name: `Dead letter ${happened}` }).waitFor()
      await page.getByLabel("Send them").selectOption("10 minutes")
      await page.getByLabel("Send them").selectOption("")
      await page.getByRole("button", { name: "Cancel" }).click()
      await click("Discard all 4")
      await page.getByRole("button", { name: "Cancel" }).click()
      for (
        const [label, value] of [["Plugin", "audience"], ["Handler", "ats.tag.created"], ["Integration", integration]]
      ) {
        await page.getByLabel(label ?? "").fill(value ?? "")
        await click("Apply")
        if (label !== "Plugin") continue
        for (const shown of ["Send the 4 shown again", "Discard the 4 shown"]) {
          await click(shown)
          await page.getByRole("button", { name: "Cancel" }).click()
        }
        const reports = page.getByText("Open each to report what happened")
        await main.getByRole("link", { name: `Dead letter ${happened}` }).waitFor()
        await reports.click()
        await main.getByRole("link", { name: `Dead letter ${happened}` }).waitFor({ state: "detached" })
      }
      await page.getByLabel("Reason").selectOption("Permanent")
      const group = page.locator(".group", { hasText: "2 dead letters of audience (ats.tag.created)" })
      await group.waitFor()
      await page.locator(".group").nth(1).waitFor({ state: "detached" })
      await group.getByText("Show each").click()
      await group.getByRole("link", { name: `Dead letter ${created}` }).waitFor()
      await click("Send again")
      await page.locator(".outcome").getByText("2 dead letters sent again").waitFor()
      await page.getByText("Sent again: 0 of 2 deliveries done, 2 failed again.").waitFor()
      await click("Hide")
      await show(`/dead-letters/${created}`)
      installation.setBroken(false)
      await click("Send again")
      await page.locator(".outcome").getByText("1 dead letter sent again").waitFor()
      await page.getByText("Sent again: 1 of 1 delivery done.").waitFor()
      await show(`/dead-letters/${happened}`)
      // its write has an unknown outcome: its report comes first, and the dialog says that it would fail again
      assert.deepStrictEqual(
        await main.getByRole("button").allInnerTexts(),
        ["It happened", "It did not happen", "Send again", "Discard"]
      )
      await page.getByText("If it did not happen, it never will.").waitFor()
      await page.getByText("Look in the other system, then report for each write whether it happened.").waitFor()
      await page.getByText("which Rollcall does not read there").waitFor()
      await click("Send again")
      await page.getByRole("dialog").getByText(/a write of unknown outcome and will fail again/).waitFor()
      await page.getByRole("button", { name: "Cancel" }).click()
      await click("It happened")
      await page.getByLabel(/^Id of what it created/).fill("8Xi6iZrwusZqJmDGXs49GBmJ")
      await confirm("It happened", `dead letter ${happened} is tried again`)
      await show(`/dead-letters/${not}`)
      await click("All dead letters", "link")
      await page.getByRole("heading", { level: 1, name: "Dead letters" }).waitFor()
      await show(`/dead-letters/${not}`)
      await click("It did not happen")
      await page.getByRole("dialog").getByRole("button", { name: /^It did not happen: send/ }).click()
      // the API may show the write later, so this is refused in the first five minutes
      await page.getByRole("alert").getByText("it was sent less than five minutes ago").waitFor()
      await page.getByRole("button", { name: "Cancel" }).click()
      await run("Discard", "Discard 1 dead letter", "1 dead letter discarded")
      await show("/dead-letters")
      await run("Discard", "Discard 1 dead letter", "1 dead letter discarded")
      await page.getByText("No dead letter.").waitFor()
    })

    it("send dead letters again while their circuit is open, which says so, and try the handler now", async () => {
      installation.setBroken(true)
      for (let count = 0; count < 10; count++) {
        const fields = { name: `broken ${count}` }
        await installation.sandbox.mutate({ op: "create", integration, model: "ats.tag", fields })
      }
      await items("/v1/deadletters", 10)
      await show("/plugins/audience")
      await page.locator(".group", { hasText: "10 dead letters of audience (ats.tag.created)" }).waitFor()
      await page.getByText(/^It opened after 10 failures in a row\. One delivery is tried at/).waitFor()
      await page.locator(".sentence .badge.good", { hasText: /^on$/ }).waitFor()
      await page.locator(".sentence .badge.bad", { hasText: /^1 circuit open$/ }).waitFor()
      const attempts = page.getByRole("region", { name: "Attempts, table" }).getByRole("row", {
        name: /ats\.tag\.created/
      })
      await attempts.getByText("the list of the audience is closed").waitFor()
      await page.getByText(/^Attempts: \d+ in the last day, [1-9]\d* of them failed$/).waitFor({
        state: "attached"
      })
      await click("Send again")
      await page.getByRole("dialog").getByText(
        /Those of audience \(ats.tag.created\) wait: its circuit is open until .* UTC/
      ).waitFor()
      await confirm(
        "Send 10 dead letters again",
        /10 dead letters sent again, waiting: the circuit .* is open, one is tried at/
      )
      await page.locator("div.notice.warn", { hasText: "Waiting: the circuit of audience" }).waitFor()
      installation.setBroken(false)
      await run(/^Try now/, "Try now", "one delivery is tried now")
      await page.getByText("Sent again: 10 of 10 deliveries done.").waitFor()
      await page.getByText("No delivery was given up.").waitFor()
      await page.locator(".sentence .badge.bad").waitFor({ state: "detached" })
    })

    it("replay events from the page of a plugin, as its plan counts them", async () => {
      await show("/plugins/audience")
      await click("Replay events")
      const dialog = page.getByRole("dialog")
      await dialog.getByLabel("Handler").selectOption("ats.tag.created")
      await dialog.getByLabel(/^Integration/).selectOption(integration)
      await dialog.getByLabel(/^From/).fill("2020-01-01T00:00")
      await dialog.getByLabel(/^Before/).fill("2100-01-01T00:00")
      await dialog.getByRole("button", { name: "Show the plan" }).click()
      await dialog.getByText(/^\d+ deliveries\./).waitFor()
      await confirm(/^Replay \d+ deliveries/, /\d+ deliveries made for audience \(ats.tag.created\)/)
      await page.getByText(/^Sent again: (\d+) of \1 deliveries done\.$/).waitFor()
    })

    it("add an integration with the messages of the API, remove it, read it again, and erase it", async () => {
      await show("/integrations")
      await click("Add an integration")
      const dialog = page.getByRole("dialog")
      const key = "sk9F3kQ81zTq7vLw2xYp"
      const fill = async (values: Readonly<Record<string, string>>) => {
        for (const [label, value] of Object.entries(values)) {
          await dialog.getByLabel(new RegExp(`^${label}`)).fill(value)
        }
      }
      const [polls, sweeps] = ["Time between polls", "Time between sweeps"]
      await fill({ Id: "acme", Account: key, Models: "ats.tags", [polls]: "soon", [sweeps]: "later" })
      await dialog.getByRole("radio", { name: "Only store its records" }).check()
      await dialog.getByRole("radio", { name: "Publish its records as created" }).check()
      await dialog.getByRole("button", { name: "Add the integration" }).click()
      await dialog.getByRole("alert").getByText("Nothing was added.").waitFor()
      assert.include(await dialog.innerText(), `"acme" is not an integration id. An id is <tool>:<identifier>`)
      assert.match(await dialog.innerText(), /is not an account\. The accounts are default\./)
      assert.strictEqual(await dialog.locator("[aria-invalid=true]").count(), 5)
      assert.notInclude(await dialog.innerText(), key)
      await fill({ Id: "sandbox:everythin", Account: "", Models: "ats.tag, ats.offer", [polls]: "", [sweeps]: "" })
      await dialog.getByRole("button", { name: "Add the integration" }).click()
      // the API does not know this integration, which the result of the command says
      await page.locator(".outcome .bad", {
        hasText: /^sandbox:everythin is added, but sandbox:everythin\/ats\.\w+ cannot be read: .*NOT_FOUND/
      })
        .waitFor()
      await click("sandbox:everythin", "link")
      await page.getByText(`Did you mean ${integration} instead of sandbox:everythin?`).waitFor()
      await click("Remove")
      await page.getByRole("radio", { name: "Erase its records" }).check()
      await page.getByRole("dialog").getByText("No deleted event is published.").waitFor()
      await page.getByRole("radio", { name: "Keep its records" }).check()
      await confirm(/^Remove$/, "sandbox:everythin is removed; its records are kept")
      await run("Read it again", "Read it again", "sandbox:everythin is read again")
      await click("Remove")
      await confirm(/^Remove$/, "sandbox:everythin is removed; its records are kept")
      await page.getByText("It was removed, and is not read.").waitFor()
      await run("Erase its data", /^Erase$/, "sandbox:everythin is being erased")
      await page.getByText("There is no integration sandbox:everythin.").waitFor()
      await show(`/integrations/${integration}`)
      await page.getByText("The configuration declares this integration").waitFor()
      assert.strictEqual(await main.getByRole("button", { name: "Remove" }).count(), 0)
    })

    it("end sessions and sign out, and leave an entry with actor and address for every command", async () => {
      await show("/audit?limit=2")
      await turnPages()
      const { items: entries } = await installation.ask<Items<Record<string, string>>>("/v1/audit?limit=200")
      const commands = new Set(entries.map(({ command = "" }) => command))
      const expected = [
        ...["poll", "sweep", "backfill", "rewind", "audit", "pause", "resume"].map((name) => `streams.${name}`),
        "holds.approve",
        "holds.reject",
        "events.reveal",
        "holds.reveal",
        ...["off", "on", "stop-writes", "resume-writes", "try", "replay"].map((name) => `plugins.${name}`),
        ...["redrive", "discard", "resolve"].map((name) => `deadletters.${name}`),
        ...["add", "remove"].map((name) => `integrations.${name}`)
      ]
      assert.deepStrictEqual(expected.filter((command) => !commands.has(command)), [], [...commands].join(", "))
      for (const entry of entries) assert.deepInclude(entry, { actor: "session", address: "127.0.0.1" })
      await click(/^End session/)
      await page.getByRole("dialog").getByRole("button", { name: "End the session" }).click()
      // it was the own session
      await page.getByLabel("Token").waitFor()
      await page.goto("/")
      await signIn()
      await page.getByRole("button", { name: "Sign out", exact: true }).click()
      await signIn()
      await page.getByRole("button", { name: "Sign out everywhere" }).click()
      await page.getByLabel("Token").waitFor()
    })

    it("are all used by these tests, without a request to another server", () => {
      assert.isAtLeast(actions.seen.size, 60)
      // after a failed read only, which Pages.test.ts tests
      assert.deepStrictEqual(actions.unused.filter((name) => name !== "button Try again"), [])
      assert.deepStrictEqual(opened.foreign, [])
    })
  }
)
