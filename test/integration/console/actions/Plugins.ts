/** The actions of plugins, dead letters and replays. */
import { assert } from "vitest"
import { integration } from "../Installation.ts"
import type { Scenes } from "./Operator.ts"

interface Letter {
  readonly id: number
  readonly handler: string
}

export const plugins: Scenes = {
  "switch a plugin off and on, everywhere and in one integration, and stop and resume writes": async (
    { click, page, run, show }
  ) => {
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
  },

  "filter dead letters, send them again with their progress, resolve writes, and discard": async (
    { click, confirm, installation, main, page, run, show }
  ) => {
    const letters = await installation.items<Letter>("/v1/deadletters", 4)
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
  },

  "send dead letters again while their circuit is open, which says so, and try the handler now": async (
    { click, confirm, installation, page, run, show }
  ) => {
    // before the circuit opens, because it is open for half a minute only
    await show("/plugins/audience")
    installation.setBroken(true)
    for (let count = 0; count < 10; count++) {
      const fields = { name: `broken ${count}` }
      await installation.sandbox.mutate({ op: "create", integration, model: "ats.tag", fields })
    }
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
  },

  "replay events from the page of a plugin, as its plan counts them": async ({ click, confirm, page, show }) => {
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
  }
}
