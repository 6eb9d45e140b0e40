/** How far deliveries are that were sent again: on the pages of dead letters, until the user hides it. */
import { signal } from "@preact/signals"
import { useEffect, useRef, useState } from "preact/hooks"
import type { ProgressView, RedriveView } from "../../src/http/deadletters/DeadLetterApi.ts"
import { post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { clock, isPaused, serverNow } from "../Live.ts"

/** The deliveries that were sent again last, and when; this browser's clock, in ms. */
export const redriven = signal<(RedriveView & { readonly startedAt: number }) | null>(null)

/** The most ids in one request. */
const idsPerRequest = 1000
const pollMillis = 2_000

const progressOf = async (ids: ReadonlyArray<number>): Promise<ProgressView> => {
  let [done, open, dead] = [0, 0, 0]
  for (let from = 0; from < ids.length; from += idsPerRequest) {
    const part = { ids: ids.slice(from, from + idsPerRequest) }
    const some = await post<ProgressView>("/v1/deadletters/progress", part, { automatic: true })
    done += some.done
    open += some.open
    dead += some.dead
  }
  return { done, open, dead }
}

/** By the rate so far, but not before the last of them is due; seconds. */
const secondsLeft = ({ dead, done, open }: ProgressView, startedAt: number, to: string): number | null => {
  const due = (Date.parse(to) - serverNow.value) / 1_000
  const elapsed = (clock.value - startedAt) / 1_000
  const byRate = done + dead === 0 ? null : open / (done + dead) * elapsed
  return due < 1 ? byRate : Math.max(due, byRate ?? 0)
}

export const RedriveProgress = () => {
  const sent = redriven.value
  const [progress, setProgress] = useState<ProgressView | null>(null)
  const isReading = useRef(false)
  const isDone = progress?.open === 0
  const beat = isPaused.value || isDone ? 0 : Math.floor(clock.value / pollMillis)

  useEffect(() => setProgress(null), [sent])
  useEffect(() => {
    if (sent === null || isReading.current || isDone) return
    isReading.current = true
    // without an answer the last numbers stay, and the state of the connection says why
    progressOf(sent.ids).then((read) => redriven.value === sent && setProgress(read), () => undefined)
      .finally(() => isReading.current = false)
  }, [sent, beat])

  if (sent === null || progress === null) return null
  const { dead, done, open } = progress
  const left = secondsLeft(progress, sent.startedAt, sent.to)
  return (
    <div class={`notice ${isDone ? dead === 0 ? "good" : "warn" : ""}`}>
      <p>
        Sent again: {number(done)} of {plural(sent.ids.length, "delivery", "deliveries")} done
        {open === 0 ? "" : `, ${number(open)} open`}
        {dead === 0 ? "" : `, ${number(dead)} failed again`}
        {open === 0 || left === null ? "." : `; about ${duration(left)} left.`}
      </p>
      <progress aria-label="Deliveries that were sent again" max={sent.ids.length} value={done + dead} />
      <p class="hidden" role="status">{isDone ? "All deliveries that were sent again are finished." : ""}</p>
      <button type="button" class="small" onClick={() => redriven.value = null}>Hide</button>
    </div>
  )
}
