/**
 * `npm run screenshots`: writes a picture of every page of the console to `.cache/screenshots`, at 390 and 1440 pixels, light and dark, from
 * real processes that read a sandbox:
 *
 * | state | |
 * |---|---|
 * | empty | no integration and no plugin |
 * | login | a process with a token |
 * | well | all is well |
 * | trouble | held changes of 340 records, a handler whose circuit is open, dead letters, a misspelled integration, a missing permission |
 * | outage | the same, and the API does not answer |
 * | lost | the same, and the process is dead |
 *
 * It fails if axe finds something on a page, or if a page is wider than its window. It also writes the picture of the README.
 * `npm run screenshots -- hold plugin`: only the pages with such a name.
 */
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Browser, Page } from "playwright-core"
import { violationsIn } from "./Axe.ts"
import { launch, missing, open } from "./Chromium.ts"
import { install, type Installation, integration } from "./Installation.ts"
import { type Sample, writeSamples } from "./PastSamples.ts"

const misspelled = "sandbox:everythin"
const entities = 360
const losing = 340

const root = fileURLToPath(new URL("../../../", import.meta.url))
const folder = join(root, ".cache/screenshots")

/** `audience` gives up its deliveries, and cannot know whether its writes happened; the receiver of `badges` is unavailable. */
const configurationOf = (url: string, broken: string, job: string): string =>
  `import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import { existsSync } from "node:fs"

const isBroken = () => existsSync(${JSON.stringify(broken)})

const audience = Plugin.make("audience", { needs: { writes: ["createApplication"] } })
  .on("ats.tag.created", {}, async () => {
    if (isBroken()) throw new Plugin.Permanent({ message: "the list of the audience is closed" })
  })
  .on("ats.tag.updated", {}, async ({ recordId }, { api }) => {
    const candidate = { first_name: "A", last_name: "B", email_address: recordId + "@example.org" }
    await api.createApplication("${job}", { candidate }, { onUnknown: "deadLetter" })
  })
const badges = Plugin.make("badges").on("hris.staffing_entity.created", { origins: ["poll", "sweep"] }, async () => {
  if (isBroken()) throw new Plugin.Transient({ message: "badges.example answered 503" })
})

const settings = { interval: "1 second", sweepInterval: "1 hour" } as const
export default defineConfig({
  accounts: { default: { url: "${url}", key: secret("KEY") } },
  integrations: [
    { id: "${integration}", models: ["ats.tag", "hris.skill", "hris.staffing_entity", "hris.absence_type", "hris.legal_entity"], ...settings }
  ],
  plugins: [audience.with({ from: "oldest" }), badges.with({ from: "oldest" })]
})
`

const emptyConfiguration = (url: string): string =>
  `import { defineConfig, secret } from "rollcall"
export default defineConfig({ accounts: { default: { url: "${url}", key: secret("KEY") } } })
`

const pastSample = (ago: number): Sample => ({
  median: 3 + (ago % 4),
  p95: 5 + (ago % 7),
  worst: ago < 60 && ago > 40 ? 400 - 5 * ago : 8 + (ago % 11),
  events: 90_000 - 60 * ago - (ago > 150 ? 40 * (ago - 150) : 0),
  unpublished: ago % 5,
  deliveries: ago > 90 && ago < 110 ? 40 : ago % 3,
  deadLetters: ago < 30 ? 1 : 0,
  late: ago < 60 && ago > 40 ? 1 : 0,
  blocked: 0,
  failing: ago < 60 && ago > 50 ? 1 : 0,
  holds: 0
})

const looks = [390, 1440].flatMap((width) => (["light", "dark"] as const).map((theme) => ({ width, theme })))

interface Named {
  readonly id: number
  readonly position: string
}

interface View {
  readonly name: string
  readonly path: string
  /** A text that the page has when its data is there. */
  readonly text?: string | RegExp
  /** Prepares the page for the picture. */
  readonly act?: (page: Page) => Promise<unknown>
}

const only = process.argv.slice(2)
const isWanted = ({ name }: View): boolean => only.length === 0 || only.some((part) => name.includes(part))

const findings: Array<string> = []
let pictures = 0

const shot = async (page: Page, file: string): Promise<void> => {
  await page.screenshot({ path: join(folder, `${file}.png`), fullPage: true, animations: "disabled" })
  findings.push(...(await violationsIn(page)).map((found) => `${file}: ${found}`))
  const width = Number(await page.evaluate("document.documentElement.scrollWidth"))
  if (width > (page.viewportSize()?.width ?? 0)) findings.push(`${file}: the page scrolls to the side`)
  pictures += 1
}

const opened = async (browser: Browser, url: string, { theme, width }: (typeof looks)[number]): Promise<Page> =>
  (await open(browser, url, { viewport: { width, height: 844 }, colorScheme: theme })).page

/** Takes the pictures of a state. */
const shoot = async (browser: Browser, url: string, state: string, views: ReadonlyArray<View>): Promise<void> => {
  for (const look of looks) {
    const page = await opened(browser, url, look)
    for (const { act, name, path, text } of views.filter(isWanted)) {
      await page.goto(path)
      await page.locator("h1").waitFor()
      await page.locator("main:not(:has-text('Loading…')):not(:has-text('Searching…'))").waitFor()
      if (state !== "login") await page.getByText("Live", { exact: true }).waitFor()
      if (path === "/" && state !== "login") {
        await page.locator("section:has(#history) :is(.plots, .empty)").waitFor()
      }
      if (text !== undefined) await page.getByText(text).first().waitFor()
      await act?.(page)
      await shot(page, `${state}-${name}-${look.width}-${look.theme}`)
    }
    await page.context().close()
  }
}

/** Takes pictures of a page that was open when its process died. */
const shootLost = async (browser: Browser, { url, whileDead }: Installation): Promise<void> => {
  const pages = await Promise.all(looks.map((look) => opened(browser, url, look)))
  for (const page of pages) {
    await page.goto("/")
    await page.getByText("Live", { exact: true }).waitFor()
  }
  await whileDead(async () => {
    for (const [index, page] of pages.entries()) {
      await page.getByText(/Not connected: .* check that the process runs/).waitFor()
      await shot(page, `lost-overview-${looks[index]?.width}-${looks[index]?.theme}`)
    }
  })
}

const press = (name: string | RegExp) => async (page: Page): Promise<void> => {
  await page.locator("main").getByRole("button", { name }).first().click()
  await page.locator("dialog:not(:has-text('Loading…'))").waitFor()
}

const reveal = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: "Reveal" }).click()
  await page.getByRole("button", { name: "Hide" }).waitFor()
}

/** Waits until the overview names all these matters. */
const awaitMatters = async (browser: Browser, url: string, titles: ReadonlyArray<string | RegExp>): Promise<void> => {
  const { page } = await open(browser, url)
  await page.goto("/")
  for (const title of titles) await page.getByText(title).first().waitFor({ timeout: 120_000 })
  await page.context().close()
}

const using = async (
  options: Parameters<typeof install>[0],
  use: (installation: Installation) => Promise<void>
): Promise<void> => {
  const installation = await install(options)
  try {
    await use(installation)
  } finally {
    await installation.stop()
  }
}

const stream = (model: string, of = integration): string => `/streams/${encodeURIComponent(of)}/${model}`
const lists = ["streams", "integrations", "events", "holds", "plugins", "dead-letters", "processes", "audit"]
const pagesOf = (...names: ReadonlyArray<string>): ReadonlyArray<View> =>
  names.map((name) => ({ name, path: name === "overview" ? "/" : `/${name}` }))

if (missing !== null) throw new Error(missing)
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
const browser = await launch()
try {
  await using(
    { guarded: false, configure: emptyConfiguration, streams: 0 },
    ({ url }) => shoot(browser, url, "empty", pagesOf("overview", ...lists))
  )
  await using(
    { guarded: true, configure: emptyConfiguration, streams: 0 },
    ({ url }) => shoot(browser, url, "login", [{ name: "login", path: "/", text: "Token" }])
  )
  await using({ guarded: false, configure: configurationOf, streams: 5 }, async (installation) => {
    const { ask, file, items, restart, sandbox, setBroken, tags, url } = installation
    const create = async (model: "ats.tag" | "hris.staffing_entity", count: number, name: string) => {
      for (let n = 1; n <= count; n++) {
        await sandbox.mutate({ op: "create", integration, model, fields: { name: `${name} ${n}` } })
      }
    }
    await create("hris.staffing_entity", entities, "Recruiter")
    await restart(() => writeSamples(file, 300, pastSample))
    await shoot(browser, url, "well", [
      ...pagesOf("overview"),
      { name: "stream", path: stream("hris.staffing_entity") },
      { name: "event", path: `/events/${(await items<Named>("/v1/changes?kind=created"))[0]?.position}` },
      { name: "plugin", path: "/plugins/audience" },
      ...pagesOf("glossary", "no/such/page").map((view) => ({ ...view, name: view.name.replaceAll("/", "-") }))
    ])

    setBroken(true)
    await sandbox.setFaults({
      faults: [
        { kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "hris.skill" },
        { kind: "drop_response", endpoint: "createApplication" }
      ]
    })
    for (const id of tags.slice(0, 8)) await sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
    await awaitMatters(browser, url, ["8 changes of ats.tag held back"])
    const { page } = await open(browser, url, { viewport: { width: 1280, height: 800 }, colorScheme: "light" })
    await page.goto("/holds/1")
    await page.getByText("8 of 8").waitFor()
    await page.getByText("Live", { exact: true }).waitFor()
    await page.screenshot({ path: join(root, "docs/screenshots/hold.png") })
    await page.context().close()

    await ask("/v1/integrations", { id: misspelled, models: ["ats.tag", "ats.application"] })
    for (const id of tags.slice(10, 12)) {
      await sandbox.mutate({ op: "update", integration, model: "ats.tag", id, fields: { name: "Renamed" } })
    }
    const all = await sandbox.truth("hris.staffing_entity")
    for (const [index, { id }] of (all as ReadonlyArray<{ id: string }>).slice(0, losing).entries()) {
      const fields = index < losing - 28 ? { custom_fields: null, status: null } : { custom_fields: null }
      await sandbox.mutate({ op: "update", integration, model: "hris.staffing_entity", id, fields })
    }
    await create("ats.tag", 13, "late")
    await create("hris.staffing_entity", 14, "Assistant")
    await awaitMatters(browser, url, [
      "340 changes of hris.staffing_entity held back",
      "Circuit open: badges",
      "13 dead letters of audience",
      "1 stream blocked",
      "2 streams blocked"
    ])
    const holds = (await ask<{ items: ReadonlyArray<{ id: number; model: string }> }>("/v1/holds")).items
    const holdOf = (model: string): string => `/holds/${holds.find((hold) => hold.model === model)?.id}`
    const [letter] = await items<Named>("/v1/deadletters?handler=ats.tag.created")
    const [unknown] = await items<Named>("/v1/deadletters?handler=ats.tag.updated")
    const [updated] = await items<Named>("/v1/changes?kind=updated&model=ats.tag")
    const trouble: ReadonlyArray<View> = [
      ...pagesOf("overview", ...lists),
      { name: "stream-blocked", path: stream("hris.skill") },
      { name: "stream-misspelled", path: stream("ats.tag", misspelled) },
      { name: "stream-held", path: stream("hris.staffing_entity") },
      { name: "integration", path: `/integrations/${encodeURIComponent(integration)}` },
      { name: "integration-misspelled", path: `/integrations/${encodeURIComponent(misspelled)}` },
      {
        name: "integration-remove",
        path: `/integrations/${encodeURIComponent(misspelled)}`,
        act: press("Remove")
      },
      { name: "integration-add", path: "/integrations", act: press("Add an integration") },
      { name: "event", path: `/events/${updated?.position}`, act: reveal },
      { name: "hold-340", path: holdOf("hris.staffing_entity"), text: "340 of 340" },
      {
        name: "hold-340-revealed",
        path: holdOf("hris.staffing_entity"),
        act: reveal
      },
      { name: "hold-340-approve", path: holdOf("hris.staffing_entity"), act: press("Approve") },
      { name: "hold-deletes", path: holdOf("ats.tag"), text: "8 of 8" },
      { name: "plugin-circuit", path: "/plugins/badges" },
      { name: "plugin-dead", path: "/plugins/audience" },
      { name: "plugin-replay", path: "/plugins/audience", act: press("Replay events") },
      { name: "dead-letter", path: `/dead-letters/${letter?.id}` },
      { name: "dead-letter-unknown", path: `/dead-letters/${unknown?.id}` },
      { name: "dead-letters-redrive", path: "/dead-letters", act: press(/^Send all/) }
    ]
    await shoot(browser, url, "trouble", trouble)

    await sandbox.stop()
    await awaitMatters(browser, url, ["Nothing has been read since"])
    await shoot(browser, url, "outage", [
      ...pagesOf("overview", "streams", "integrations", "plugins"),
      { name: "stream", path: stream("hris.staffing_entity") },
      { name: "integration", path: `/integrations/${encodeURIComponent(integration)}` },
      { name: "hold-340", path: holdOf("hris.staffing_entity") }
    ])
    await shootLost(browser, installation)
  })
} finally {
  await browser.close()
}
console.log(`${pictures} pictures in ${folder}`)
for (const finding of findings) console.error(finding)
if (findings.length > 0) process.exitCode = 1
