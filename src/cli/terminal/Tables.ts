/** Tables, progress and numbers in the terminal output of commands. Pure: returns text, with colors if standard output shows them. */
import type { IntegrationView } from "../../http/contract/Api.ts"
import type { HoldView } from "../../http/contract/HoldApi.ts"
import type { StreamView } from "../../http/contract/StreamApi.ts"
import { oneLine, paint } from "../../telemetry/TerminalText.ts"

/** `12,345` */
export const formatCount = (count: number): string => count.toLocaleString("en")

/** `1 delivery`, `12 deliveries` */
export const formatPlural = (count: number, one: string, several = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : several}`

/** `2026-03-01 12:00Z` */
export const formatMinute = (instant: string | null): string =>
  instant === null ? "–" : `${instant.slice(0, 16).replace("T", " ")}Z`

// ---- progress -----------------------------------------------------------------------------------------------------

/** `12 s`, `3 min 20 s`, `5 h 12 min`, `3 d 4 h` */
export const formatSeconds = (value: number): string => {
  const whole = Math.ceil(value)
  const [unit, large, small, rest] = whole < 3_600
    ? [60, "min", "s", 1] as const
    : whole < 86_400
    ? [3_600, "h", "min", 60] as const
    : [86_400, "d", "h", 3_600] as const
  return whole < 60
    ? `${whole} s`
    : `${Math.floor(whole / unit)} ${large} ${Math.floor(whole % unit / rest)} ${small}`
}

/**
 * `backfill  ██████░░░░  61 %  3,050 of 5,000 records  1,220/s  2 s left`. `secondsLeft`: by default, computed from the rate so far; null
 * while it is unknown.
 */
export const progressLine = (
  name: string,
  done: number,
  total: number,
  elapsedSeconds: number,
  { secondsLeft, things = "records" }: { readonly things?: string; readonly secondsLeft?: number | null } = {}
): string => {
  const share = total === 0 ? 1 : Math.min(1, done / total)
  const full = Math.round(share * 24)
  const rate = elapsedSeconds === 0 ? 0 : done / elapsedSeconds
  const byRate = rate === 0 ? null : (total - done) / rate
  const seconds = secondsLeft === undefined ? byRate : secondsLeft
  const left = share === 1 ? "done" : seconds === null ? "starting" : `${formatSeconds(seconds)} left`
  return [
    name,
    paint("green", "█".repeat(full)) + paint("gray", "░".repeat(24 - full)),
    `${String(Math.floor(share * 100)).padStart(3)} %`,
    `${formatCount(done)} of ${formatCount(total)} ${things}`,
    `${formatCount(Math.round(rate))}/s`,
    left
  ].join("  ")
}

// ---- tables -------------------------------------------------------------------------------------------------------

/** A table with one line per item. `columns`: the heading of each column, and the text of its cell for an item. */
export const table = <A>(
  items: ReadonlyArray<A>,
  columns: Readonly<Record<string, (item: A) => string>>
): string => {
  const head = Object.keys(columns)
  const rows = items.map((item) => Object.values(columns).map((cell) => oneLine(cell(item))))
  const widths = head.map((cell, column) => Math.max(cell.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (row: ReadonlyArray<string>) =>
    row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()
  return [paint("bold", line(head)), ...rows.map(line)].join("\n")
}

/** `sweep: 3,050 read, 1,220/s, 2 s left` */
export const progressText = ({ kind, pass, records, ...progress }: NonNullable<StreamView["progress"]>): string => {
  const rate = `${formatCount(Math.round(progress.records_per_second))}/s`
  const left = progress.seconds_left === null ? "" : `, ${formatSeconds(progress.seconds_left)} left`
  return `${kind}${pass === 1 ? "" : ` (pass ${pass})`}: ${formatCount(records)} read, ${rate}${left}`
}

const streamCondition = (stream: StreamView | undefined): string => {
  if (stream === undefined) return ""
  if (stream.blocked !== null) return `blocked: ${stream.blocked.reason}`
  if (stream.paused) return "paused"
  if (stream.failing !== null) return `failing (${stream.failing.count})`
  if (stream.progress !== null) return progressText(stream.progress)
  return stream.phase
}

const pendingOf = ({ pending }: StreamView): number => Object.values(pending).reduce((sum, rows) => sum + rows, 0)

const sumOf = (streams: ReadonlyArray<StreamView>, count: (stream: StreamView) => number): number =>
  streams.reduce((sum, stream) => sum + count(stream), 0)

/** The freshness of the stream that is furthest behind: the greatest value. */
const freshnessOf = (streams: ReadonlyArray<StreamView>): string => {
  const seconds = streams.flatMap(({ freshness_seconds }) => freshness_seconds ?? [])
  return seconds.length < streams.length ? "–" : formatSeconds(Math.max(...seconds))
}

/** A table with a row per group. A group is one stream, or several of one integration in the same condition. */
export const streamGroupTable = (groups: ReadonlyArray<ReadonlyArray<StreamView>>): string =>
  table(groups, {
    INTEGRATION: ([first]) => first?.integration ?? "",
    MODEL: ([first, ...others]) => others.length === 0 ? first?.model ?? "" : `${others.length + 1} models`,
    CONDITION: ([first]) => streamCondition(first),
    RECORDS: (streams) => formatCount(sumOf(streams, ({ records_live }) => records_live)),
    PENDING: (streams) => String(sumOf(streams, pendingOf)),
    QUARANTINED: (streams) => String(sumOf(streams, ({ quarantined }) => quarantined)),
    FRESH: freshnessOf
  })

export const streamTable = (streams: ReadonlyArray<StreamView>): string =>
  streamGroupTable(streams.map((stream) => [stream]))

export const holdTable = (holds: ReadonlyArray<HoldView>): string =>
  table(holds, {
    HOLD: ({ id }) => String(id),
    STREAM: ({ stream }) => stream,
    KIND: ({ kind }) => kind,
    STATE: ({ state }) => state,
    RECORDS: ({ records }) => formatCount(records),
    SINCE: ({ opened_at }) => formatMinute(opened_at),
    REASON: ({ reason, waiting_reason }) => waiting_reason ?? reason
  })

export const integrationTable = (integrations: ReadonlyArray<IntegrationView>): string =>
  table(integrations, {
    INTEGRATION: ({ id }) => id,
    ACCOUNT: ({ account }) => account,
    STATE: ({ state }) => state,
    FROM: ({ declared }) => declared ? "configuration" : "run time",
    MODELS: ({ models }) => models === "auto" ? "auto" : models.join(","),
    BACKFILL: ({ backfill }) => backfill,
    STREAMS: ({ streams }) => String(streams),
    RECORDS: ({ records_live }) => formatCount(records_live)
  })
