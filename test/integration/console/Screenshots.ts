/**
 * `npm run screenshots`: writes pictures of the console to `docs/screenshots`, from a real process that reads a sandbox, with a broken
 * model, a hold and a dead letter.
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { BrowserContextOptions } from "playwright-core"
import { launch, missing, open } from "./Chromium.ts"
import { install, integration } from "./Installation.ts"

const folder = fileURLToPath(new URL("../../../docs/screenshots", import.meta.url))

const desktop: BrowserContextOptions = { viewport: { width: 1280, height: 800 }, colorScheme: "light" }
const dark: BrowserContextOptions = { ...desktop, colorScheme: "dark" }
const phone: BrowserContextOptions = { viewport: { width: 390, height: 844 }, colorScheme: "light" }

if (missing !== null) throw new Error(missing)
mkdirSync(folder, { recursive: true })
const browser = await launch()
const installation = await install({ guarded: false })
try {
  const { ask, sandbox, setBroken, tags, url } = installation
  setBroken(true)
  await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: "late" } })
  for (const id of tags.slice(0, 8)) await sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
  await sandbox.setFaults({
    faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "hris.skill" }]
  })
  const { items: [change] } = await ask<{ items: ReadonlyArray<{ position: string }> }>("/v1/changes?kind=created")
  const shot = async (name: string, path: string, options: BrowserContextOptions, text: string | RegExp) => {
    const { page } = await open(browser, url, options)
    await page.goto(path)
    await page.getByText(text).first().waitFor()
    await page.getByText("Live", { exact: true }).waitFor()
    await page.screenshot({ path: join(folder, `${name}.png`) })
    await page.context().close()
  }
  // the first page waits until everything has gone wrong
  const { page } = await open(browser, url, desktop)
  await page.goto("/")
  for (const title of ["changes of ats.tag held back", "1 dead letter of audience", "1 stream blocked"]) {
    await page.locator(".matter", { hasText: title }).waitFor({ timeout: 60_000 })
  }
  await page.context().close()
  await shot("overview", "/", desktop, "held back")
  await shot("overview-dark", "/", dark, "held back")
  await shot("overview-phone", "/", phone, "held back")
  await shot("stream", `/streams/${encodeURIComponent(integration)}/hris.skill`, desktop, /Blocked \(permission\)/)
  await shot("hold", "/holds/1", desktop, "would be deleted")
  await shot("dead-letters", "/dead-letters", desktop, "the list of the audience is closed")
  await shot("event", `/events/${change?.position}`, desktop, "Reveal values")
} finally {
  await browser.close()
  await installation.stop()
}
