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
import type { RedriveView } from "../../src/http/contract/DeadLetterApi.ts"
import { post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { clock, isPaused, serverNow } from "../Live.ts"

/** The deliveries that were sent again last, and when; this browser's clock, in ms. */
export const redriven = signal<(RedriveView & { readonly startedAt: number }) | null>(null)

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
  const isReading = useRef(false)
  const isDone = progress?.open === 0
  const beat = isPaused.value || isDone ? 0 : Math.floor(clock.value / pollMillis)

  useEffect(() => setProgress(null), [sent])
  useEffect(() => {
    if (sent === null || isReading.current || isDone) return
    isReading.current = true
    // without an answer the last numbers stay, and the state of the connection says why
    progressOf(sent.ranges).then((read) => redriven.value === sent && setProgress(read), () => undefined)
      .finally(() => isReading.current = false)
  }, [sent, beat])

  if (sent === null || progress === null) return null
  const { dead, done, open } = progress
  const count = sizeOf(sent.ranges)
  const left = secondsLeft(progress, {
    elapsed: (clock.value - sent.startedAt) / 1_000,
    due: (Date.parse(sent.to) - serverNow.value) / 1_000
  })
  return (
    <div class={`notice ${isDone ? dead === 0 ? "good" : "warn" : ""}`}>
      <p>
        Sent again: {number(done)} of {plural(count, "delivery", "deliveries")} done
        {open === 0 ? "" : `, ${number(open)} open`}
        {dead === 0 ? "" : `, ${number(dead)} failed again`}
        {open === 0 || left === null ? "." : `; about ${duration(left)} left.`}
      </p>
      <progress aria-label="Deliveries that were sent again" max={count} value={done + dead} />
      <p class="hidden" role="status">{isDone ? "All deliveries that were sent again are finished." : ""}</p>
      <button type="button" class="small" onClick={() => redriven.value = null}>Hide</button>
    </div>
  )
}
