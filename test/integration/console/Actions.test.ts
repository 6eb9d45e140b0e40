/** Every action of the console, in a real browser with the right to operate: each takes effect, and each command is audited. */
import type { Browser } from "playwright-core"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { Actions } from "./Actions.ts"
import { changes } from "./actions/Changes.ts"
import { integrations } from "./actions/Integrations.ts"
import { operating, type Operator } from "./actions/Operator.ts"
import { plugins } from "./actions/Plugins.ts"
import { streams } from "./actions/Streams.ts"
import { launch, missing, open, type Opened } from "./Chromium.ts"
import { install, type Installation, integration } from "./Installation.ts"

describe.skipIf(missing !== null)(
  `the actions of the console${missing === null ? "" : ` (skipped: ${missing})`}`,
  () => {
    let browser: Browser
    let installation: Installation
    let opened: Opened
    let operator: Operator
    const actions = new Actions()

    beforeAll(async () => {
      browser = await launch()
      installation = await install({ guarded: true })
      const { items, sandbox, setBroken, tags } = installation
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
      operator = operating(installation, opened.page)
      await actions.watch(opened.page)
      await opened.page.goto("/")
      await operator.signIn()
    })
    afterAll(async () => {
      await browser?.close()
      await installation?.stop()
    })

    for (const [title, test] of Object.entries({ ...streams, ...changes, ...plugins, ...integrations })) {
      it(title, () => test(operator))
    }

    it("end sessions and sign out, and leave an entry with actor and address for every command", async () => {
      const { click, page, show, signIn, turnPages } = operator
      await show("/audit?limit=2")
      await turnPages()
      const entries = await installation.items<Record<string, string>>("/v1/audit?limit=200")
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
