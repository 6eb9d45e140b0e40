/** A page of the console in the session of an operator, and the steps that the tests of its actions repeat. */
import type { Page } from "playwright-core"
import { assert } from "vitest"
import { show } from "../Chromium.ts"
import { type Installation, token } from "../Installation.ts"

export type Operator = ReturnType<typeof operating>

/** Tests by their titles. Each begins with what the ones before it have left. */
export type Scenes = Readonly<Record<string, (operator: Operator) => Promise<void>>>

export const operating = (installation: Installation, page: Page) => {
  const main = page.locator("main")

  const signIn = async (): Promise<void> => {
    await page.getByLabel("Token").fill(token)
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.locator("h1:has-text('Overview')").waitFor()
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

  return { installation, page, main, signIn, show: (path: string) => show(page, path), click, confirm, run, turnPages }
}
