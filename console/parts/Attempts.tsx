/** The attempts of a plugin in the last day: how many, how many failed, and the last error of each handler. */
import type { AttemptsView } from "../../src/http/contract/PluginApi.ts"
import { number, rate } from "../Format.ts"
import { Badge, Section, Since } from "./Basics.tsx"
import { Message } from "./Message.tsx"
import { type Line, Plot } from "./Plot.tsx"
import { Loaded, useResource } from "./Resource.tsx"
import { rates } from "./Scale.ts"
import { type Column, Table } from "./Table.tsx"

type Handler = AttemptsView["handlers"][number]
type Step = Handler["steps"][number]
type Count = "attempts" | "failed" | "settled"

const sum = (steps: ReadonlyArray<Step>, count: Count): number => steps.reduce((total, step) => total + step[count], 0)

/** A rate of a shorter time would jump with each attempt. */
const shortest = 60

const secondsOf = (time: string): number => Date.parse(time) / 1_000

/** Per minute, over this step and the five before it. */
const perMinute = ({ as_of, step_seconds }: AttemptsView, { steps }: Handler): number => {
  const now = secondsOf(as_of)
  const from = now - now % step_seconds - 5 * step_seconds
  return sum(steps.filter(({ at }) => secondsOf(at) >= from), "settled") * 60 / (now - from)
}

const LastError = ({ handler: { last_failure: failure } }: { readonly handler: Handler }) =>
  failure === null ? <span class="quiet">none</span> : (
    <>
      <Badge tone="bad">{failure.refusal ?? failure.reason}</Badge> <Message message={failure.message} />
      <div class="quiet">
        in {failure.integration}, <Since at={failure.at} suffix=" ago" />
      </div>
    </>
  )

const columns = (view: AttemptsView): ReadonlyArray<Column<Handler>> => [
  { title: "Handler", kind: "name", cell: ({ handler }) => handler },
  { title: "Attempts", kind: "number", cell: ({ steps }) => number(sum(steps, "attempts")) },
  { title: "Failed", kind: "number", cell: ({ steps }) => number(sum(steps, "failed")) },
  { title: "Deliveries done", kind: "number", cell: ({ steps }) => number(sum(steps, "settled")) },
  { title: "Done per minute, last hour", kind: "number", cell: (handler) => rate(perMinute(view, handler)) },
  { title: "Last error", kind: "wide", cell: (handler) => <LastError handler={handler} /> }
]

/** Steps in which no attempt ended are not in the response. Before the first step is one without attempts, so that a line has two ends. */
const Plots = ({ as_of, handlers, step_seconds }: AttemptsView) => {
  const all = handlers.flatMap(({ steps }) => steps)
  const now = secondsOf(as_of)
  const first = Math.min(...all.map(({ at }) => secondsOf(at))) - step_seconds
  const times = Array.from({ length: Math.floor((now - first) / step_seconds) + 1 }, (_, n) => first + n * step_seconds)
  const steps = Map.groupBy(all, ({ at }) => secondsOf(at))
  const line = (label: string, color: string, count: Count): Line => ({
    label,
    color,
    values: times.map((at) => {
      const elapsed = Math.min(step_seconds, now - at)
      return elapsed < shortest ? null : sum(steps.get(at) ?? [], count) * 60 / elapsed
    })
  })
  const [attempts, failed, settled] = [sum(all, "attempts"), sum(all, "failed"), sum(all, "settled")].map(number)
  return (
    <div class="plots">
      <div>
        <h3>Attempts per minute</h3>
        <Plot
          description={`Attempts per minute: ${attempts} in the last day, ${failed} of them failed`}
          times={times}
          scale={rates}
          lines={[line("all", "--accent", "attempts"), line("failed", "--bad", "failed")]}
        />
      </div>
      <div>
        <h3>Deliveries done per minute</h3>
        <Plot
          description={`Deliveries done per minute: ${settled} in the last day`}
          times={times}
          scale={rates}
          lines={[line("done", "--accent", "settled")]}
        />
      </div>
    </div>
  )
}

export const Attempts = ({ plugin }: { readonly plugin: string }) => {
  const resource = useResource<AttemptsView>(`/v1/plugins/${encodeURIComponent(plugin)}/attempts`)
  return (
    <Section id="attempts" title="Attempts in the last day">
      <Loaded resource={resource}>
        {(view) => (
          <>
            <Table
              label="Attempts"
              columns={columns(view)}
              rows={view.handlers}
              keyOf={({ handler }) => handler}
            />
            {view.handlers.every(({ steps }) => steps.length === 0) ? null : <Plots {...view} />}
          </>
        )}
      </Loaded>
    </Section>
  )
}
