/** Plots of the last hours, from the history in the store. */
import { useEffect, useState } from "preact/hooks"
import type { SampleView } from "../../src/http/contract/OverviewApi.ts"
import { get } from "../Client.ts"
import { duration, number } from "../Format.ts"
import { clock, isPaused, usesKafka } from "../Live.ts"
import { parameter, setParameters } from "../Router.ts"
import { Empty, Section } from "./Basics.tsx"
import { Choices } from "./Choices.tsx"
import { type Line, Plot, type PlotProps } from "./Plot.tsx"
import { counts, durations, rates } from "./Scale.ts"

interface History {
  readonly interval_seconds: number
  readonly samples: ReadonlyArray<SampleView>
}

const hours: Readonly<Record<string, string>> = { 1: "1 h", 6: "6 h", 24: "24 h" }

const secondsOf = ({ at }: SampleView): number => Date.parse(at) / 1_000

/** Adds an empty sample in each gap, so that a plot does not draw a line across the time in which no process ran. */
const withGaps = ({ interval_seconds, samples }: History): ReadonlyArray<SampleView | number> =>
  samples.flatMap((sample, index) => {
    const before = samples[index - 1]
    const isGap = before !== undefined && secondsOf(sample) - secondsOf(before) > interval_seconds * 2.5
    return isGap ? [secondsOf(sample) - 1, sample] : [sample]
  })

const Plots = (history: History) => {
  const points = withGaps(history)
  const times = points.map((point) => typeof point === "number" ? point : secondsOf(point))
  const line = (
    label: string,
    color: string,
    value: (sample: SampleView, before: SampleView | undefined) => number | null
  ): Line => ({
    label,
    color,
    values: points.map((point, index) => {
      const before = points[index - 1]
      return typeof point === "number" ? null : value(point, typeof before === "number" ? undefined : before)
    })
  })
  const last = history.samples.at(-1)
  const count = (value: number | undefined): string => number(value ?? 0)
  const shown = (value: number | null | undefined): string => value == null ? "not known" : duration(value)
  const plots: ReadonlyArray<Omit<PlotProps, "times"> & { readonly title: string }> = [
    {
      title: "Freshness",
      description: `Freshness of the streams: now ${shown(last?.median_seconds)} median, ${
        shown(last?.worst_seconds)
      } worst`,
      scale: durations,
      lines: [
        line("median", "--accent", ({ median_seconds }) => median_seconds),
        line("95 %", "--warn", ({ p95_seconds }) => p95_seconds),
        line("worst", "--bad", ({ worst_seconds }) => worst_seconds)
      ]
    },
    {
      title: "Events per second",
      description: "Events per second in the event log",
      scale: rates,
      lines: [
        line("events", "--accent", (sample, before) =>
          before === undefined
            ? null
            : Math.max(0, sample.events - before.events) / Math.max(1, secondsOf(sample) - secondsOf(before)))
      ]
    },
    {
      title: "Waiting",
      description: `What waits: now ${usesKafka() ? `${count(last?.unpublished)} events for Kafka, ` : ""}${
        count(last?.deliveries)
      } open deliveries, ${count(last?.dead_letters)} dead letters`,
      scale: counts,
      lines: [
        ...usesKafka() ? [line("events for Kafka", "--accent", ({ unpublished }) => unpublished)] : [],
        line("deliveries", "--warn", ({ deliveries }) => deliveries),
        line("dead letters", "--bad", ({ dead_letters }) => dead_letters)
      ]
    },
    {
      title: "Streams with problems, and open holds",
      description: `Streams with problems: now ${count(last?.late)} late, ${count(last?.failing)} failing, ${
        count(last?.blocked)
      } blocked; ${count(last?.holds)} open holds`,
      scale: counts,
      lines: [
        line("late", "--warn", ({ late }) => late),
        line("failing", "--text", ({ failing }) => failing),
        line("blocked", "--bad", ({ blocked }) => blocked),
        line("open holds", "--accent", ({ holds }) => holds)
      ]
    }
  ]
  return (
    <div class="plots">
      {plots.map(({ title, ...plot }) => (
        <div key={title}>
          <h3>{title}</h3>
          <Plot times={times} {...plot} />
        </div>
      ))}
    </div>
  )
}

export const HistorySection = () => {
  const [history, setHistory] = useState<History | null>(null)
  const range = parameter("hours") === "" ? "6" : parameter("hours")
  const minute = Math.floor(clock.value / 60_000)
  useEffect(() => {
    if (isPaused.value && history !== null) return
    const since = new Date(Date.now() - Number(range) * 3_600_000).toISOString()
    // without an answer the last plot stays, and the state of the connection says why
    get<History>(`/v1/overview/history?since=${since}`, { automatic: true }).then(setHistory, () => undefined)
  }, [minute, range])
  return (
    <Section id="history" title="Last hours">
      <Choices
        legend="Range"
        name="hours"
        texts={hours}
        chosen={range}
        choose={(value) => setParameters({ hours: value === "6" ? "" : value })}
        isRow
      />
      {history === null ? null : history.samples.length < 2
        ? <Empty>The plot begins a few minutes after the first start: there is one sample a minute.</Empty>
        : <Plots {...history} />}
    </Section>
  )
}
