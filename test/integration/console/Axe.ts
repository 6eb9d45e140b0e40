/** The findings of axe in a page of the console. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Page } from "playwright-core"

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

interface Violation {
  readonly id: string
  readonly nodes: ReadonlyArray<{ readonly html: string; readonly failureSummary?: string }>
}

/** The rules whose result depends on colors. */
export const colorRules = ["color-contrast", "link-in-text-block"]

/** The violations of WCAG 2.2, levels A and AA, and of best practices; if `rules` are given, only of these. */
export const violationsIn = async (page: Page, rules?: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  // the script is half a megabyte; a page keeps it until another page is loaded
  if (await page.evaluate("typeof axe") === "undefined") await page.evaluate(axe)
  // axe leaves the target size out unless it is selected
  const options = JSON.stringify(
    rules === undefined ? { rules: { "target-size": { enabled: true } } } : { runOnly: { type: "rule", values: rules } }
  )
  const violations = await page.evaluate(
    `axe.run(document, ${options}).then(({ violations }) => violations)`
  ) as ReadonlyArray<Violation>
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ failureSummary, html }) => `${id}: ${html} ${failureSummary}`)
  )
}
