/** Which actions pages offer, and which of them a test has used, so that an action without a test is noticed. */
import type { Page } from "playwright-core"

/** Runs in each page, before its script. The names of actions have `#` in place of numbers, one and many alike. */
const recorder = `(() => {
  const selector = "button:not([aria-disabled=true]), input, select, summary, a.button, .top a, .skip, .title a, .matter a"
  const textOf = (nodes) => [...nodes].filter(({ nodeType }) => nodeType === 3).map(({ data }) => data).join("")
  const nameOf = (element) => {
    const labeled = element.matches("input, select") ? textOf(element.labels?.[0]?.childNodes ?? []) : textOf(element.childNodes)
    return element.localName + " " + labeled.replace(/\\s+/g, " ").trim().replace(/\\d[\\d,]*/g, "#").replace(/# (dead letter|stream)s/, "# $1")
  }
  const seen = new Set()
  const look = () => {
    // other pages, such as the one of the API, have actions of their own
    if (document.getElementById("console") === null) return
    for (const element of document.querySelectorAll(selector)) {
      if (element.disabled || element.type === "hidden") continue
      const name = nameOf(element)
      if (!seen.has(name)) reportAction("seen", name)
      seen.add(name)
    }
  }
  new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true, attributes: true })
  const use = ({ target }) => {
    const element = target instanceof Element ? target.closest(selector) : null
    if (element !== null) reportAction("used", nameOf(element))
  }
  document.addEventListener("click", use, true)
  document.addEventListener("input", use, true)
})()`

export class Actions {
  readonly #seen = new Set<string>()
  readonly #used = new Set<string>()

  async watch(page: Page): Promise<void> {
    await page.exposeFunction("reportAction", (what: "seen" | "used", name: string) => {
      if (what === "seen") this.#seen.add(name)
      else this.#used.add(name)
    })
    await page.addInitScript(recorder)
  }

  get seen(): ReadonlySet<string> {
    return this.#seen
  }

  /** Actions that a page offered and that were not used. */
  get unused(): ReadonlyArray<string> {
    return [...this.#seen].filter((name) => !this.#used.has(name)).sort()
  }
}
