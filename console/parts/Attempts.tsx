/** The attempts of a plugin in the last day: how many, how many failed, and the last error of each handler. */
import type { AttemptsView } from "../../src/http/contract/PluginApi.ts"
import { duration, number } from "../Format.ts"
import { Badge, Section, Since } from "./Basics.tsx"
import { Message } from "./Message.tsx"
import { type Line, Plot } from "./Plot.tsx"
import { Loaded, useResource } from "./Resource.tsx"
import { counts } from "./Scale.ts"
import { type Column, Table } from "./Table.tsx"

type Handler = AttemptsView["handlers"][number]
type Step = Handler["steps"][number]
type Count = "attempts" | "failed" | "settled"

const sum = (steps: ReadonlyArray<Step>, count: Count): number => steps.reduce((total, step) => total + step[count], 0)

const secondsOf = (time: string): number => Date.parse(time) / 1_000

const LastError = ({ handler: { last_failure: failure } }: { readonly handler: Handler }) =>
  failure === null ? <span class="quiet">none</span> : (
    <>
      <Badge tone="bad">{failure.refusal ?? failure.reason}</Badge> <Message message={failure.message} />
      <div class="quiet">
        in {failure.integration}, <Since at={failure.at} suffix=" ago" />
      </div>
    </>
  )

const columns: ReadonlyArray<Column<Handler>> = [
  { title: "Handler", kind: "name", cell: ({ handler }) => handler },
  { title: "Attempts", kind: "number", cell: ({ steps }) => number(sum(steps, "attempts")) },
  { title: "Failed", kind: "number", cell: ({ steps }) => number(sum(steps, "failed")) },
  { title: "Deliveries done", kind: "number", cell: ({ steps }) => number(sum(steps, "settled")) },
  { title: "Last error", kind: "wide", cell: (handler) => <LastError handler={handler} /> }
]

/** Steps in which no attempt ended are not in the response. The plots begin with one without attempts, and end now. */
const Plots = ({ as_of, handlers, step_seconds }: AttemptsView) => {
  const all = handlers.flatMap(({ steps }) => steps)
  const now = secondsOf(as_of)
  const first = Math.min(...all.map(({ at }) => secondsOf(at))) - step_seconds
  const starts = Array.from(
    { length: Math.floor((now - first) / step_seconds) + 1 },
    (_, n) => first + n * step_seconds
  )
  const steps = Map.groupBy(all, ({ at }) => secondsOf(at))
  const line = (label: string, color: string, count: (steps: ReadonlyArray<Step>) => number): Line => {
    const values = starts.map((at) => count(steps.get(at) ?? []))
    return { label, color, values: [...values, values.at(-1) ?? 0] }
  }
  const each = `in each ${duration(step_seconds)}`
  const [attempts, failed, settled] = [sum(all, "attempts"), sum(all, "failed"), sum(all, "settled")].map(number)
  const common = { times: [...starts, now], scale: counts, isStepped: true } as const
  return (
    <div class="plots">
      <div>
        <h3>Attempts {each}</h3>
        <Plot
          {...common}
          description={`Attempts: ${attempts} in the last day, ${failed} of them failed`}
          lines={[
            line("succeeded", "--accent", (some) => sum(some, "attempts") - sum(some, "failed")),
            line("failed", "--bad", (some) => sum(some, "failed"))
          ]}
        />
      </div>
      <div>
        <h3>Deliveries done {each}</h3>
        <Plot
          {...common}
          description={`Deliveries done: ${settled} in the last day`}
          lines={[line("done", "--accent", (some) => sum(some, "settled"))]}
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
              columns={columns}
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
