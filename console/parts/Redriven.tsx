/** How far deliveries are that were sent again: on the pages of dead letters, until the user hides it. */
import { signal } from "@preact/signals"
import { useEffect, useRef, useState } from "preact/hooks"
import {
  type DeliveryProgress,
  type IdRange,
  requestsOf,
  secondsLeft,
  sizeOf,
  sumOf
} from "../../src/domain/DeliveryProgress.ts"
import { type OpenCircuit, openCircuitsOf } from "../../src/domain/HandlerCircuit.ts"
import type { PlanView, RedriveView } from "../../src/http/contract/DeadLetterApi.ts"
import type { PluginList } from "../../src/http/contract/PluginApi.ts"
import { get, post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { clock, isPaused, serverNow } from "../Live.ts"
import { Waiting } from "./Circuit.tsx"

interface Sent extends Pick<RedriveView, "ranges" | "to"> {
  /** This browser's clock, in ms. */
  readonly startedAt: number
  readonly handlers: ReadonlyArray<Pick<PlanView["shares"][number], "plugin" | "handler">>
}

/** The deliveries that were sent again last. */
export const redriven = signal<Sent | null>(null)

/** The open circuits of handlers whose deliveries were sent again: these wait. */
const openCircuits = async ({ handlers }: Sent): Promise<ReadonlyArray<OpenCircuit>> => {
  const { items } = await get<PluginList>("/v1/plugins", { automatic: true })
  return openCircuitsOf(handlers, items, serverNow.value)
}

const pollMillis = 2_000

const progressOf = async (all: ReadonlyArray<IdRange>): Promise<DeliveryProgress> => {
  const parts: Array<DeliveryProgress> = []
  for (const ranges of requestsOf(all)) {
    parts.push(await post<DeliveryProgress>("/v1/deadletters/progress", { ranges }, { automatic: true }))
  }
  return sumOf(parts)
}

export const RedriveProgress = () => {
  const sent = redriven.value
  const [progress, setProgress] = useState<DeliveryProgress | null>(null)
  const [circuits, setCircuits] = useState<ReadonlyArray<OpenCircuit>>([])
  const isReading = useRef(false)
  const isDone = progress?.open === 0
  const beat = isPaused.value || isDone ? 0 : Math.floor(clock.value / pollMillis)

  useEffect(() => setProgress(null), [sent])
  useEffect(() => {
    if (sent === null || isReading.current || isDone) return
    isReading.current = true
    // without an answer the last numbers stay, and the state of the connection says why
    Promise.all([progressOf(sent.ranges), openCircuits(sent)]).then(([read, open]) => {
      if (redriven.value !== sent) return
      setProgress(read)
      setCircuits(open)
    }, () => undefined)
      .finally(() => isReading.current = false)
  }, [sent, beat])

  if (sent === null || progress === null) return null
  const { dead, done, open } = progress
  const waiting = open === 0 ? [] : circuits
  const count = sizeOf(sent.ranges)
  const left = secondsLeft(progress, {
    elapsed: (clock.value - sent.startedAt) / 1_000,
    due: (Date.parse(sent.to) - serverNow.value) / 1_000
  })
  return (
    <div class={`notice ${isDone && dead === 0 ? "good" : isDone || waiting.length > 0 ? "warn" : ""}`}>
      <p>
        Sent again: {number(done)} of {plural(count, "delivery", "deliveries")} done
        {open === 0 ? "" : `, ${number(open)} open`}
        {dead === 0 ? "" : `, ${number(dead)} failed again`}
        {open === 0 || left === null || waiting.length > 0 ? "." : `; about ${duration(left)} left.`}
      </p>
      {waiting.map((circuit) => (
        <Waiting
          key={`${circuit.plugin} ${circuit.handler}`}
          circuit={circuit}
          after={() => setCircuits([])}
        />
      ))}
      <progress aria-label="Deliveries that were sent again" max={count} value={done + dead} />
      <p class="hidden" role="status">{isDone ? "All deliveries that were sent again are finished." : ""}</p>
      <button type="button" class="small" onClick={() => redriven.value = null}>Hide</button>
    </div>
  )
}
