/** The state that the server sends as it changes, whether the page shows it, and how old it is. */
import { computed, signal } from "@preact/signals"
import type { OverviewView } from "../src/http/contract/OverviewApi.ts"
import { follow, get, RequestError } from "./Client.ts"

export const overview = signal<OverviewView | null>(null)
/** Whether events are published to Kafka. */
export const usesKafka = (): boolean =>
  overview.value?.path.some(({ state, step }) => step === "kafka" && state !== "unused") === true
/** `lost`: the connection ended, and another one is tried. */
export const connection = signal<"connecting" | "live" | "lost">("connecting")
/** Why there is no connection; null while there is one, and after an answer that simply ended. */
export const problem = signal<RequestError | null>(null)
export const isPaused = signal(false)
/** Grows with each new state: pages then read what they show again. */
export const ticks = signal(0)
/** The browser's clock, once a second, for durations. */
export const clock = signal(Date.now())

/** How far this clock is ahead of the server's, so that durations are right; ms. */
const clockAhead = signal(0)
export const serverNow = computed(() => clock.value - clockAhead.value)

const [firstDelay, longestDelay] = [1_000, 15_000] as const
/** After this time without a message, the connection is treated as lost, in ms. The server pauses for at most 30 s. */
const silence = 45_000

let stop = new AbortController()
let heardAt = Date.now()

const show = (state: OverviewView): void => {
  const isFirst = overview.value === null
  // the first state tells how far the clocks differ; a state is read just before it is sent
  if (isFirst && state.outage === null) clockAhead.value = Date.now() - Date.parse(state.as_of)
  overview.value = state
  ticks.value += 1
}

const receive = (data: string): void => {
  heardAt = Date.now()
  connection.value = "live"
  problem.value = null
  if (!isPaused.value) show(JSON.parse(data) as OverviewView)
}

const wait = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const connect = async (): Promise<void> => {
  for (let delay: number = firstDelay;; delay = Math.min(longestDelay, delay * 2)) {
    const began = Date.now()
    stop = new AbortController()
    heardAt = began
    await follow("/v1/overview", stop.signal, receive).catch((error: unknown) => {
      problem.value = error instanceof RequestError ? error : null
    })
    connection.value = "lost"
    if (Date.now() - began > longestDelay) delay = firstDelay
    await wait(delay)
  }
}

/** Reads the state again, after a command. */
export const refresh = async (): Promise<void> => {
  show(await get<OverviewView>("/v1/overview", { fresh: true }))
}

export const togglePause = (): void => {
  isPaused.value = !isPaused.value
  if (!isPaused.value) void refresh().catch(() => undefined)
}

export const start = (): void => {
  setInterval(() => {
    if (!document.hidden) clock.value = Date.now()
    if (Date.now() - heardAt > silence) stop.abort()
  }, 1_000)
  void connect()
}
