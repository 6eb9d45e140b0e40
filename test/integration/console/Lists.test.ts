/** The pages of the console about a list that only the configuration defines. */
import type { Browser, Page } from "playwright-core"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { launch, missing, open } from "./Chromium.ts"
import { install, type Installation, integration } from "./Installation.ts"

const model = "hris.employee"

const configurationOf = (url: string): string =>
  `import { defineConfig, defineList, secret } from "rollcall"

const employees = defineList("${model}", {
  path: "/hris/employees",
  transitions: { renamed: { path: "first_name" } }
})

export default defineConfig({
  accounts: { default: { url: "${url}", key: secret("KEY") } },
  lists: [employees],
  integrations: [{ id: "${integration}", models: ["${model}", "ats.tag"], interval: "1 second", sweepInterval: "1 hour" }]
})
`

describe.skipIf(missing !== null)(`the console${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  let browser: Browser
  let installation: Installation
  let renamed: string

  beforeAll(async () => {
    browser = await launch()
    installation = await install({ guarded: false, configure: configurationOf, streams: 2 })
    const { items, sandbox } = installation
    const ids = (await sandbox.truth(model)).map((employee) => (employee as { readonly id: string }).id)
    renamed = ids[0] ?? ""
    await sandbox.mutate({ op: "update", integration, model, id: renamed, fields: { first_name: "Ada" } })
    for (const id of ids.slice(1)) await sandbox.mutate({ op: "delete", integration, model, id })
    await items("/v1/holds")
    await items(`/v1/changes?model=${model}&transition=renamed`)
  })
  afterAll(async () => {
    await browser?.close()
    await installation?.stop()
  })

  const heading = (page: Page, name: string) => page.getByRole("heading", { level: 1, name }).waitFor()

  it("shows the streams, the events and the holds of a list that the configuration defines, and filters by it", async () => {
    const { errors, page } = await open(browser, installation.url)
    await page.goto("/streams")
    await page.getByRole("link", { name: `${integration}/${model}` }).click()
    await heading(page, `${integration}/${model}`)

    await page.goto("/events")
    const events = page.getByRole("table").getByRole("row")
    await page.getByLabel("Model").selectOption(model)
    await page.getByLabel("Kind").selectOption("updated")
    await page.getByLabel("Transition").selectOption("renamed")
    await page.getByText(/^1 event\b/).waitFor()
    assert.include(await events.nth(1).textContent(), renamed)
    await events.nth(1).getByRole("link").first().click()
    await page.getByText("/first_name").first().waitFor()
    await page.getByText("renamed").first().waitFor()

    await page.goto("/holds")
    await page.getByRole("link", { name: `${integration}/${model}` }).waitFor()
    await page.getByRole("link", { name: "Hold 1" }).click()
    await heading(page, "Hold 1")
    await page.getByText("would be deleted: the API marks them as deleted").waitFor()
    assert.deepStrictEqual(errors, [])
    await page.context().close()
  })
})
