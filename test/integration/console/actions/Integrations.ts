/** The actions that add, remove and erase integrations. */
import { assert } from "vitest"
import { integration } from "../Installation.ts"
import type { Scenes } from "./Operator.ts"

export const integrations: Scenes = {
  "add an integration with the messages of the API, remove it, read it again, and erase it": async (
    { click, confirm, main, page, run, show }
  ) => {
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
  }
}
