/**
 * The system's Chromium, for the tests of the console: without its user interface if that is installed, because opening windows and
 * profiles costs a third of the processor time.
 */
import { existsSync } from "node:fs"
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core"

const found = [
  process.env["CHROMIUM"] ?? "",
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome"
]
  .find((path) => path !== "" && existsSync(path))

/** Why the tests cannot run; null if they can. */
export const missing = found === undefined ? "Chromium is not installed; CHROMIUM names another path" : null

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: found ?? "", args: ["--no-sandbox", "--disable-dev-shm-usage"] })

/** A page of the console, and what it did that it must not do. */
export interface Opened {
  readonly page: Page
  /** Errors of the page, and messages of the browser about it, such as a violation of the policy. */
  readonly errors: ReadonlyArray<string>
  /** Addresses of other servers that it requested. */
  readonly foreign: ReadonlyArray<string>
}

/** A page in a context of its own, so that no cookie is shared. */
export const open = async (browser: Browser, baseURL: string, options: BrowserContextOptions = {}): Promise<Opened> => {
  const context = await browser.newContext({ baseURL, ...options })
  // a loaded machine needs longer than the default of 30 s
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  const errors: Array<string> = []
  const foreign: Array<string> = []
  page.on("pageerror", ({ message }) => errors.push(message))
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") errors.push(message.text())
  })
  page.on("request", (request) => {
    if (!request.url().startsWith(`${baseURL}/`)) foreign.push(request.url())
  })
  return { page, errors, foreign }
}

/** Opens a path of the console, and waits until its data is there. */
export const show = async (page: Page, path: string): Promise<void> => {
  await page.goto(path)
  await page.locator("h1").waitFor()
  await page.locator("main:not(:has-text('Loading…'))").waitFor()
  await page.getByText("Live", { exact: true }).waitFor()
}

/** Clicks, on the page or in its dialog, and counts how often. */
export const counting = (page: Page) => {
  let clicks = 0
  const click = async (role: "button" | "link", name: string | RegExp): Promise<void> => {
    clicks += 1
    await page.getByRole(role, { name }).first().click()
  }
  const confirm = async (name: string | RegExp): Promise<void> => {
    clicks += 1
    await page.getByRole("dialog").getByRole("button", { name }).click()
  }
  return { count: () => clicks, click, confirm }
}
