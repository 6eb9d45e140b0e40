/**
 * The cost of open consoles, with 3,000 streams: CPU time of the process for no console, one and twenty, how long the overview takes in
 * a browser until it can be used, and how many streams a process polls while no console and twenty are open.
 * `node bench/Console.ts [streams]`
 */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { incrementalModels } from "../src/api/Lists.ts"
import { launch, open } from "../test/integration/console/Chromium.ts"
import { make, type ManyStreams } from "./ManyStreams.ts"

const streams = process.argv[2] ?? "3000"
const seconds = 30
/** Every stream is due once in this time, in seconds: about as often as one process can poll 3,000 streams. */
const interval = 10
const folder = mkdtempSync(join(tmpdir(), "rollcall-console-"))
const child = spawn(process.execPath, [
  join(import.meta.dirname, "ConsoleServer.ts"),
  join(folder, "rollcall.db"),
  streams
], {
  stdio: ["ignore", "pipe", "inherit"]
})
const [line] = await once(child.stdout, "data")
const url = String(line).trim()

/** CPU time of the process so far, in ms. */
const worked = (): number => {
  const [user = 0, system = 0] = readFileSync(`/proc/${child.pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ").slice(
    11,
    13
  )
    .map(Number)
  return (user + system) * 10
}
const wait = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))

/** Reads the overview like a console does, without a browser: the state, and the rows of the streams with each state. */
const follow = async (url: string, signal: AbortSignal): Promise<void> => {
  const { body } = await fetch(`${url}/v1/overview`, { headers: { accept: "text/event-stream" }, signal })
  for await (const chunk of body ?? []) {
    if (chunk.length > 0) await (await fetch(`${url}/v1/overview/streams?limit=100`, { signal })).text()
  }
}

const shareOf = async (consoles: number): Promise<number> => {
  const stop = new AbortController()
  for (let index = 0; index < consoles; index++) follow(url, stop.signal).catch(() => undefined)
  await wait(5_000)
  const before = worked()
  await wait(seconds * 1_000)
  const share = (worked() - before) / (seconds * 10)
  stop.abort()
  return share
}

/** Polls per second of a service that is busy with polls, for each number of consoles in turn. */
const measurePolls = async ({ polled, start, streams }: ManyStreams): Promise<void> => {
  const service = start().process
  const { url }: { url: string } = JSON.parse((await service.line(`"started"`)).text)
  while ((await polled(false)).streams < streams) await wait(500)
  for (const consoles of [0, 20, 0, 20]) {
    const stop = new AbortController()
    for (let index = 0; index < consoles; index++) follow(url, stop.signal).catch(() => undefined)
    await wait(5_000)
    await polled(true)
    const before = service.cpuSeconds
    await wait(seconds * 1_000)
    const { polls } = await polled(false)
    const share = (100 * (service.cpuSeconds - before)) / seconds
    stop.abort()
    console.log(`${consoles} consoles: ${(polls / seconds).toFixed(0)} polls/s, ${share.toFixed(0)} % of a core`)
  }
}

try {
  for (const consoles of [0, 1, 20]) {
    console.log(`${consoles} consoles, ${streams} streams: ${(await shareOf(consoles)).toFixed(1)} % of a core`)
  }
  const browser = await launch()
  const { page } = await open(browser, url)
  const times: Array<number> = []
  for (let index = 0; index < 5; index++) {
    const began = performance.now()
    await page.goto("/", { waitUntil: "commit" })
    await page.locator(".matter a.button").first().waitFor()
    times.push(performance.now() - began)
  }
  console.log(`overview usable after ${times.map((time) => Math.round(time)).join(", ")} ms`)
  await browser.close()
  child.kill()
  const integrations = Math.ceil(Number(streams) / incrementalModels.length)
  const busy = make("sqlite", integrations, 5, { ROLLCALL_INTERVAL: `${interval} seconds` })
  await Effect.runPromise(Effect.scoped(Effect.flatMap(busy, (many) => Effect.promise(() => measurePolls(many)))))
} finally {
  child.kill()
  rmSync(folder, { recursive: true, force: true })
}
