/** A plot over time. Its values are also in its description, for a screen reader. */
import { useEffect, useRef } from "preact/hooks"
import UPlot from "uplot"
import type { Scale } from "./Scale.ts"

export interface Line {
  readonly label: string
  /** A custom property of the style sheet. */
  readonly color: string
  readonly values: ReadonlyArray<number | null>
}

export interface PlotProps {
  readonly description: string
  /** Seconds since 1970; with a null in each line where samples are missing. */
  readonly times: ReadonlyArray<number>
  readonly lines: ReadonlyArray<Line>
  readonly scale: Scale
  /** Each value is for the time up to the next one. */
  readonly isStepped?: boolean
}

const height = 180

/** In UTC, as everywhere: `22:05` */
const timeOfDay = (seconds: number): string => new Date(seconds * 1_000).toISOString().slice(11, 16)

const colorOf = (element: Element, name: string): string => {
  // a custom property with light-dark() is resolved only where it is used
  const probe = document.createElement("i")
  probe.style.color = `var(${name})`
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

/** The legend shows the newest sample, with its time, while the pointer is elsewhere. */
const showNewest = (plot: UPlot): void => {
  const newest = plot.data[0].length - 1
  if (plot.legend.idx == null && newest >= 0) plot.setLegend({ idx: newest }, false)
}

export const Plot = ({ description, isStepped = false, lines, scale, times }: PlotProps) => {
  const stepped = isStepped ? UPlot.paths.stepped?.({ align: 1 }) : undefined
  const paths = stepped === undefined ? {} : { paths: stepped }
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot | null>(null)
  const data: UPlot.AlignedData = [[...times], ...lines.map(({ values }) => [...values])]

  useEffect(() => {
    const element = box.current
    if (element === null) return
    const build = (): void => {
      plot.current?.destroy()
      const axis = {
        stroke: colorOf(element, "--quiet"),
        grid: { stroke: colorOf(element, "--line"), width: 1 },
        ticks: { show: false }
      }
      plot.current = new UPlot(
        {
          width: element.clientWidth,
          height,
          // in UTC, as everywhere
          tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
          cursor: { drag: { x: false, y: false } },
          // a part of the axis would make small changes look large, and a line of zeros needs a top
          scales: { y: { range: (_, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
          hooks: { setLegend: [showNewest] },
          series: [
            { value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
            ...lines.map(({ color, label }) => ({
              label,
              stroke: colorOf(element, color),
              width: 1.5,
              ...paths,
              points: { show: false },
              value: (_: UPlot, value: number | null) => value === null ? "–" : scale.format(value)
            }))
          ],
          axes: [{ ...axis, values: (_, values) => values.map(timeOfDay) }, {
            ...axis,
            size: 64,
            incrs: [...scale.steps],
            values: (_, values, _axis, _space, step) => values.map((value) => scale.tick(value, step))
          }]
        },
        data,
        element
      )
    }
    build()
    const scheme = matchMedia("(prefers-color-scheme: dark)")
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    scheme.addEventListener("change", build)
    return () => {
      observer.disconnect()
      scheme.removeEventListener("change", build)
      plot.current?.destroy()
    }
  }, [])

  useEffect(() => plot.current?.setData(data), [times])

  return (
    <figure class="plot">
      <figcaption class="hidden">{description}</figcaption>
      <div ref={box} aria-hidden="true" />
    </figure>
  )
}
