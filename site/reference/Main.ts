/** `npm run docs:reference`: writes the pages of `docs/reference` from the sources. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "./Markdown.ts"
import { metricsPage } from "./Metrics.ts"
import { settingsPage } from "./Settings.ts"

/** The pages by path. */
export const referencePages: ReadonlyMap<string, string> = new Map([
  ["docs/reference/metrics.md", metricsPage()],
  ["docs/reference/settings.md", settingsPage()]
])

if (import.meta.main) { for (const [path, text] of referencePages) writeFileSync(join(root, path), text) }
