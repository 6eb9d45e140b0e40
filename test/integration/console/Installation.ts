/**
 * A real process that reads a sandbox, with one plugin, and the three things that go wrong in it: an integration that is no longer
 * allowed to read a model, deletes that the guard holds, and a delivery that is given up.
 */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { type RunningSandbox, startSandbox } from "../../../src/sandbox/Sandbox.ts"
import { freePort } from "../../support/services/FreePort.ts"
import { Program } from "../cli/Program.ts"

const effect = realpathSync(join(dirname(fileURLToPath(import.meta.url)), "../../../node_modules/effect"))

export const integration = "sandbox:everything"
export const token = "an-operate-token-of-at-least-32-characters"
export const readToken = "a-read-token-of-at-least-32-characters"

/**
 * Its deliveries of new tags are given up as long as the file exists. For a changed tag it sends a write; without an answer to it the
 * delivery is given up.
 */
const configurationOf = (url: string, broken: string, job: string): string =>
  `import { defineConfig, secret } from "rollcall"
import * as Plugin from "rollcall/plugin"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"

const audience = Plugin.make("audience", { needs: { writes: ["createApplication"] } }).on(
  "ats.tag.created",
  {},
  () => existsSync(${JSON.stringify(broken)})
    ? Effect.fail(new Plugin.Permanent({ message: "the list of the audience is closed" }))
    : Effect.void
).on(
  "ats.tag.updated",
  {},
  ({ recordId }) => Effect.flatMap(Plugin.Api, (api) => {
    const candidate = { first_name: "A", last_name: "B", email_address: recordId + "@example.org" }
    return api.createApplication("${job}", { candidate }, { onUnknown: "deadLetter" })
  })
).with({ from: "oldest" })

export default defineConfig({
  accounts: { default: { url: "${url}", key: secret("KEY") } },
  integrations: [{
    id: "${integration}",
    models: ["ats.tag", "hris.skill", "hris.absence_type"],
    interval: "1 second",
    sweepInterval: "1 hour"
  }],
  plugins: [audience]
})
`

export interface Installation {
  readonly url: string
  readonly sandbox: RunningSandbox
  /** The file of the store. */
  readonly file: string
  /** Stops the process and starts it again, at the same address. `meanwhile` runs in between. */
  readonly restart: (meanwhile?: () => void) => Promise<void>
  /** Runs `use` while the process is dead, and then starts another one at the same address. */
  readonly whileDead: (use: () => Promise<void>) => Promise<void>
  /** Ids of the tags at the start. */
  readonly tags: ReadonlyArray<string>
  /** Deliveries of new tags are given up, or no longer. */
  readonly setBroken: (isBroken: boolean) => void
  /** Sends a request with the operate token; a POST if it has a body. */
  readonly ask: <A>(path: string, body?: object) => Promise<A>
  /** Waits for so many items of a list, and returns them. */
  readonly items: <A>(path: string, count?: number) => Promise<ReadonlyArray<A>>
  readonly stop: () => Promise<void>
}

/**
 * `guarded`: the API needs a token. `environment`: further settings. `configure`: another configuration file, whose streams are all live
 * at the end.
 */
export const install = async ({ configure = configurationOf, environment = {}, guarded, streams = 3 }: {
  readonly guarded: boolean
  readonly environment?: Readonly<Record<string, string>>
  readonly configure?: (url: string, broken: string, job: string) => string
  readonly streams?: number
}): Promise<Installation> => {
  const directory = mkdtempSync(join(tmpdir(), "rollcall-console-"))
  const sandbox = await startSandbox({ seed: 7, speed: 0, records: 10, integrations: 1 })
  const broken = join(directory, "broken")
  mkdirSync(join(directory, "node_modules"))
  symlinkSync(effect, join(directory, "node_modules/effect"))
  const [job] = await sandbox.truth("ats.job")
  const configuration = configure(sandbox.url, broken, (job as { id: string }).id)
  writeFileSync(join(directory, "rollcall.config.ts"), configuration)
  const port = await freePort()
  const file = join(directory, "rollcall.db")
  const start = () =>
    new Program(["start"], {
      KEY: sandbox.key,
      ROLLCALL_STORE: `sqlite:${file}`,
      ROLLCALL_HTTP_PORT: String(port),
      ...guarded ? { ROLLCALL_HTTP_TOKEN: token, ROLLCALL_HTTP_READ_TOKEN: readToken } : {},
      ...environment
    }, directory)
  let program = start()
  const url = `http://127.0.0.1:${port}`
  const ask = async <A>(path: string, body?: object): Promise<A> => {
    const response = await fetch(`${url}${path}`, {
      headers: { "content-type": "application/json", ...guarded ? { authorization: `Bearer ${token}` } : {} },
      ...body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }
    })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return await response.json() as A
  }
  const items = async <A>(path: string, count = 1): Promise<ReadonlyArray<A>> => {
    for (;;) {
      const { items } = await ask<{ readonly items: ReadonlyArray<A> }>(path)
      if (items.length >= count) return items
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const stop = async (): Promise<void> => {
    await program.stop()
    await sandbox.stop()
    rmSync(directory, { recursive: true, force: true })
  }
  const whileDead = async (use: () => Promise<void>): Promise<void> => {
    await program.stop("SIGKILL")
    await use()
    program = start()
    while (!(await ask("/v1/overview").then(() => true, () => false))) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const setBroken = (isBroken: boolean): void => {
    if (isBroken) writeFileSync(broken, "")
    else if (existsSync(broken)) rmSync(broken)
  }
  const live = async (): Promise<void> => {
    for (;;) {
      const found = await ask<{ streams: { total: number; live: number } }>("/v1/overview").catch(() => null)
      if (found !== null && found.streams.live === streams) break
      if (program.process.exitCode !== null) throw new Error(program.stderr)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const restart = async (meanwhile: () => void = () => undefined): Promise<void> => {
    await program.stop()
    meanwhile()
    program = start()
    await live()
  }
  try {
    await live()
  } catch (error) {
    await stop()
    throw error
  }
  const tags = (await sandbox.truth("ats.tag")).map((tag) => (tag as { id: string }).id)
  return { url, sandbox, file, tags, setBroken, ask, items, restart, whileDead, stop }
}
