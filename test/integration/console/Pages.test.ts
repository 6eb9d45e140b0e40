/** Every page of the console in a real browser: accessible, usable without a mouse, in the dark and on a phone, and masked. */
import type { Browser, Page } from "playwright-core"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { colorRules, violationsIn } from "./Axe.ts"
import { launch, missing, open, show } from "./Chromium.ts"
import { install, type Installation, integration, readToken, token } from "./Installation.ts"

describe.skipIf(missing !== null)(`the pages of the console${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  let browser: Browser
  let installation: Installation
  let cookies: ReadonlyArray<Readonly<Record<string, string>>>
  let paths: ReadonlyArray<string>

  const signIn = async (page: Page, secret: string): Promise<void> => {
    await page.goto("/streams?state=ok")
    await page.getByLabel("Token").fill(secret)
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.getByRole("heading", { level: 1, name: "Streams" }).waitFor()
  }

  beforeAll(async () => {
    browser = await launch()
    installation = await install({ guarded: true })
    const { items, sandbox, setBroken, tags } = installation
    setBroken(true)
    await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: "late" } })
    for (const id of tags.slice(0, 8)) await sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
    const [letter] = await items<{ readonly id: number }>("/v1/deadletters")
    const [hold] = await items<{ readonly id: number }>("/v1/holds")
    const [change] = await items<{ readonly position: string }>("/v1/changes?kind=created")
    await sandbox.setFaults({
      faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "hris.skill" }]
    })
    paths = [
      "/",
      "/streams",
      `/streams/${encodeURIComponent(integration)}/hris.skill`,
      "/integrations",
      `/integrations/${encodeURIComponent(integration)}`,
      "/events",
      `/events/${change?.position}`,
      "/holds",
      `/holds/${hold?.id}`,
      "/plugins",
      "/plugins/audience",
      "/dead-letters",
      `/dead-letters/${letter?.id}`,
      "/processes",
      "/audit",
      "/glossary",
      "/no/such/page"
    ]
    const { page } = await open(browser, installation.url)
    await signIn(page, token)
    cookies = await page.context().cookies() as unknown as typeof cookies
    await page.context().close()
  })
  afterAll(async () => {
    await browser?.close()
    await installation?.stop()
  })

  /** A page with the session of an operator. */
  const opened = async (options: Parameters<typeof open>[2] = {}) => {
    const found = await open(browser, installation.url, options)
    await found.page.context().addCookies(cookies as never)
    return found
  }

  it("have nothing that axe reports, in light and dark colors", async () => {
    const { errors, foreign, page } = await opened({ colorScheme: "light" })
    const found: Array<string> = []
    const check = async (path: string): Promise<void> => {
      const light = await violationsIn(page)
      await page.emulateMedia({ colorScheme: "dark" })
      const dark = await violationsIn(page, colorRules)
      await page.emulateMedia({ colorScheme: "light" })
      found.push(...[...light, ...dark].map((violation) => `${path} ${violation}`))
    }
    for (const path of paths) {
      await show(page, path)
      await check(path)
    }
    await page.goto(paths[8] ?? "")
    await page.getByRole("button", { name: "Approve" }).click()
    await page.getByRole("button", { name: /^Publish/ }).waitFor()
    await check("the dialog of an approval")
    await page.goto("/integrations")
    await page.getByRole("button", { name: "Add an integration" }).click()
    await page.getByRole("button", { name: "Add the integration" }).click()
    await page.locator("[aria-invalid=true]").waitFor()
    await check("the dialog of a wrong integration")
    // the browser notes the status of the page that does not exist, and of the integration
    const refused = (status: string) => `Failed to load resource: the server responded with a status of ${status}`
    assert.deepStrictEqual([found, errors, foreign], [[], ["404 (Not Found)", "400 (Bad Request)"].map(refused), []])
    await page.context().close()
  })

  it("fit a width of 320 pixels without scrolling to the side, and move nothing for users who want no motion", async () => {
    const { page } = await opened({ viewport: { width: 320, height: 640 }, reducedMotion: "reduce" })
    for (const path of paths) {
      await show(page, path)
      assert.isAtMost(Number(await page.evaluate("document.documentElement.scrollWidth")), 320, path)
      const moving =
        "[...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).transitionDuration !== '0s').length"
      assert.strictEqual(await page.evaluate(moving), 0, path)
    }
    assert.deepStrictEqual(await violationsIn(page), [])
    // beside the last record of a hold, its buttons are still in reach
    await show(page, paths.find((path) => path.startsWith("/holds/")) ?? "")
    await page.locator("tbody tr").last().scrollIntoViewIfNeeded()
    const { y = -1 } = await page.getByRole("button", { name: /^Approve/ }).boundingBox() ?? {}
    assert.isTrue(y >= 0 && y < 640, `${y}`)
    await page.context().close()
  })

  it("are used with the keyboard alone: a hold is found, and its approval is canceled", async () => {
    const { page } = await opened()
    await show(page, "/")
    const focused = (): Promise<string> => page.evaluate("document.activeElement.textContent")
    const tabTo = async (text: RegExp): Promise<void> => {
      for (let presses = 0; presses < 40; presses++) {
        await page.keyboard.press("Tab")
        if (text.test(await focused())) return
      }
      assert.fail(`Tab does not reach ${text}`)
    }
    await tabTo(/^Holds/)
    await page.keyboard.press("Enter")
    // the heading is shown before it gets the focus
    await page.locator("h1:focus", { hasText: "Holds" }).waitFor()
    await page.getByRole("link", { name: /^Hold \d+$/ }).waitFor()
    await tabTo(/^Hold \d+$/)
    await page.keyboard.press("Enter")
    await page.getByRole("button", { name: "Approve" }).waitFor()
    await tabTo(/^Approve/)
    await page.keyboard.press("Enter")
    await page.getByRole("dialog").waitFor()
    for (let presses = 0; presses < 12; presses++) {
      await page.keyboard.press("Tab")
      const isInside = await page.evaluate(
        "document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)"
      )
      assert.isTrue(isInside)
    }
    await page.keyboard.press("Escape")
    await page.getByRole("dialog").waitFor({ state: "detached" })
    assert.match(await focused(), /^Approve/)
    // no element has the focus without being visible, or without an outline
    await show(page, "/streams")
    const hidden = `(() => {
      const one = document.activeElement
      if (one === document.body) return ""
      const { bottom, left, right, top } = one.getBoundingClientRect()
      const front = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
      const isSeen = front !== null && (one.contains(front) || front.contains(one))
      return isSeen && getComputedStyle(one).outlineStyle !== "none" ? "" : one.outerHTML
    })()`
    for (let presses = 0; presses < 30; presses++) {
      await page.keyboard.press("Tab")
      assert.strictEqual(await page.evaluate(hidden), "")
    }
    await page.context().close()
  })

  it("mask values until they are revealed, which the audit log records with the session", async () => {
    const { page } = await opened()
    const { ask } = installation
    await page.goto("/events?kind=created&model=ats.tag")
    await page.getByRole("link", { name: /^\d{4}-/ }).first().click()
    const table = page.getByRole("region", { name: "Values, table" })
    await page.getByRole("button", { name: "Reveal values" }).waitFor()
    const name = "late"
    assert.notInclude(await page.locator("main").innerText(), name)
    await page.getByRole("button", { name: "Reveal values" }).click()
    await page.getByText("The whole record").click()
    await page.locator(".sides").getByText(name).first().waitFor()
    await page.getByRole("button", { name: "Hide values" }).click()
    await table.waitFor()
    assert.notInclude(await page.locator("main").innerText(), name)
    const { items } = await ask<{ items: ReadonlyArray<Record<string, string>> }>("/v1/audit")
    assert.deepInclude(items.find(({ command }) => command === "events.reveal"), {
      target: `${integration}/ats.tag`,
      actor: "session",
      address: "127.0.0.1"
    })
    await page.context().close()
  })

  it("keep filters in the address, and the back button returns to the page before", async () => {
    const { page } = await opened()
    await show(page, "/streams")
    await page.getByRole("searchbox").fill("skill")
    await page.getByText("1 to 1 of 1 stream").waitFor()
    assert.include(page.url(), "search=skill")
    await page.getByRole("link", { name: `${integration}/hris.skill` }).click()
    await page.getByText(/Blocked \(permission\) since/).waitFor()
    await page.goBack()
    await page.getByText("1 to 1 of 1 stream").waitFor()
    assert.strictEqual(await page.getByRole("searchbox").inputValue(), "skill")
    await page.context().close()
  })

  it("stay as they are while paused, and say so", async () => {
    const { page } = await opened()
    const { sandbox, tags } = installation
    await show(page, "/")
    await page.getByRole("button", { name: "Pause" }).click()
    await page.getByText(/^Paused, as of/).waitFor()
    const held = page.locator(".matter", { hasText: "changes of ats.tag held back" })
    const before = await held.locator("h3").innerText()
    const { page: other } = await opened()
    await other.goto("/")
    // both pages get states equally often, so the paused one has got the first of these two when the other one shows the second
    for (const count of [9, 10]) {
      await sandbox.mutate({ op: "delete", integration, model: "ats.tag", id: tags[count - 1] ?? "" })
      await other.locator(".matter", { hasText: `${count} changes of ats.tag held back` }).waitFor()
    }
    await other.context().close()
    await page.getByText(/^Paused, as of (?![0-3] s)/).waitFor()
    assert.strictEqual(await held.locator("h3").innerText(), before)
    await page.getByRole("button", { name: "Resume" }).click()
    await page.getByText("Live", { exact: true }).waitFor()
    await page.locator(".matter", { hasText: "10 changes of ats.tag held back" }).waitFor()
    await page.context().close()
  })

  it("warn on the page of a hold while its stream is not read", async () => {
    const { page } = await opened()
    const stream = `/v1/streams/${encodeURIComponent(integration)}/ats.tag`
    await installation.ask(`${stream}/pause`, {})
    await show(page, paths[8] ?? "")
    await page.locator(".notice.warn", { hasText: "The stream is paused" }).waitFor()
    await installation.ask(`${stream}/resume`, {})
    await page.locator(".notice.warn").waitFor({ state: "detached" })
    await page.getByText(/^The events ats\.tag\.deleted go to the readers of the event feed and to no plugin\.$/)
      .waitFor()
    await page.context().close()
  })

  it("run no command with the read token: the buttons are disabled", async () => {
    const { page } = await open(browser, installation.url)
    await signIn(page, readToken)
    assert.include(page.url(), "/streams?state=ok")
    await page.goto(paths[8] ?? "")
    await page.getByRole("button", { name: "Approve" }).waitFor()
    assert.isTrue(await page.getByRole("button", { name: "Approve" }).isDisabled())
    await page.goto("/integrations")
    assert.isTrue(await page.getByRole("button", { name: "Add an integration" }).isDisabled())
    assert.include(await page.locator(".foot").innerText(), "Read only")
    await page.getByRole("button", { name: "Sign out", exact: true }).click()
    await page.getByLabel("Token").waitFor()
    await page.context().close()
  })

  it("say that they are not connected, keep what they show, and continue when the process answers again", async () => {
    const { page } = await opened({ viewport: { width: 390, height: 844 }, colorScheme: "dark" })
    await show(page, "/streams")
    await installation.whileDead(async () => {
      // the connection has ended; the first request after that finds no process
      await page.getByText(/Not connected: .* check that the process runs/).waitFor()
      // a list that was being read at that moment has a notice too
      const said = await page.locator(".notice", { hasText: "Not connected:" }).innerText()
      assert.match(said, /shows the state of \d{4}-\d\d-\d\d .* tries again by itself/)
      assert.strictEqual(await page.locator("tbody tr").count(), 3)
      assert.deepStrictEqual(await violationsIn(page), [])
    })
    await page.getByText("Live", { exact: true }).waitFor()
    await page.getByText("Not connected:").waitFor({ state: "detached" })
    await page.context().close()
  })

  it("say why they cannot be read, and try again on request", async () => {
    const { page } = await opened()
    const problem = { detail: "the database does not answer", hint: "Rollcall tries again." }
    const body = JSON.stringify(problem)
    await page.route("**/v1/holds?*", (route) => route.fulfill({ status: 503, contentType: "application/json", body }))
    await page.goto("/holds")
    await page.getByRole("alert").getByText(problem.detail).waitFor()
    assert.deepStrictEqual(await violationsIn(page), [])
    // an update would read the holds too
    await page.getByRole("button", { name: "Pause" }).click()
    await page.getByText(/^Paused, as of/).waitFor()
    await page.unroute("**/v1/holds?*")
    await page.getByRole("button", { name: "Try again" }).click()
    await page.getByRole("rowheader", { name: /^Hold \d+$/ }).waitFor()
    await page.goto("/holds/77")
    await page.getByRole("alert").waitFor()
    await page.goto("/streams?search=nothing")
    await page.getByText("No stream matches.").waitFor()
    assert.deepStrictEqual(await violationsIn(page), [])
    await page.context().close()
  })

  it("show the login page when the session has ended, and return to the same filter afterwards", async () => {
    const { page } = await open(browser, installation.url)
    await signIn(page, token)
    await page.context().clearCookies()
    await page.getByLabel("Token").waitFor()
    await page.getByLabel("Token").fill(token)
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.getByRole("heading", { level: 1, name: "Streams" }).waitFor()
    assert.include(page.url(), "/streams?state=ok")
    await page.context().close()
  })
})
