/**
 * One message a day and integration: who was hired and declined for what, and what was opened. Hides how events become
 * a few lines.
 *
 * Invariants
 * 1. No personal data leaves unless `DIGEST_NAMES` is set
 * 2. One message per tick: an outage of days makes one that spans them   (L8)
 *
 * Gotchas
 * - A message whose answer never came may have arrived, and is sent again: better twice than not at all.
 */
import * as Plugin from "#plugin"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

const config = Config.all({
  /** Takes `{"text": "…"}`, as incoming webhooks of Slack and many others do. */
  url: Config.Redacted("DIGEST_URL"),
  /** Whether those who were hired are named. */
  names: Config.Boolean("DIGEST_NAMES").pipe(Config.withDefault(false)),
  /** Whether a day on which nothing happened is told. */
  empty: Config.Boolean("DIGEST_EMPTY").pipe(Config.withDefault(false))
})

type Hired = Plugin.EventOf<"ats.application.hired">
type Declined = Plugin.EventOf<"ats.application.declined">
type Opened = Plugin.EventOf<"hris.staffing_entity.opened">

export interface DayEvents {
  readonly hired: ReadonlyArray<Hired>
  readonly declined: ReadonlyArray<Declined>
  readonly opened: ReadonlyArray<Opened>
}

const mostTitles = 10

/** What the receiver would take for its own markup. */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

/** The last event of each record: who is hired twice in a day is one hire. */
const perRecord = <E extends { readonly recordId: string }>(events: ReadonlyArray<E>): ReadonlyArray<E> => [
  ...new Map(events.map((event) => [event.recordId, event])).values()
]

/** `3 hired: Nurse (2), Controller`; nothing for nothing. */
const line = <E extends { readonly recordId: string }>(
  what: string,
  events: ReadonlyArray<E>,
  titleOf: (event: E) => string | null | undefined,
  nameOf: (event: E) => string = () => ""
): ReadonlyArray<string> => {
  const records = perRecord(events)
  if (records.length === 0) return []
  const byTitle = [...Map.groupBy(records, (event) => titleOf(event) ?? "untitled")]
    .sort(([, a], [, b]) => b.length - a.length)
  const titles = byTitle.slice(0, mostTitles).map(([title, events]) => {
    const names = events.map(nameOf).filter(Boolean)
    if (names.length > 0) return `${escaped(title)}: ${escaped(names.join(", "))}`
    return events.length > 1 ? `${escaped(title)} (${events.length})` : escaped(title)
  })
  const more = byTitle.length > mostTitles ? [`and ${byTitle.length - mostTitles} more`] : []
  return [`• ${records.length} ${what}: ${[...titles, ...more].join(", ")}`]
}

const dayOf = (date: Date): string => date.toISOString().slice(0, "2026-03-01".length)

/** The days on which something happened; the tick's own if nothing did. */
const period = (tick: Plugin.Tick, times: ReadonlyArray<Date>): string => {
  const days = times.map(dayOf).sort()
  const from = days[0] ?? dayOf(tick.scheduledAt)
  const to = days.at(-1) ?? from
  return from === to ? from : `${from} to ${to}`
}

const nameOf = ({ after: { candidate } }: Hired): string =>
  [candidate?.first_name, candidate?.last_name].filter(Boolean).join(" ")

/** The message; null if nothing happened. */
export const messageOf = (
  tick: Plugin.Tick,
  { declined, hired, opened }: DayEvents,
  names: boolean
): string | null => {
  const lines = [
    ...line("hired", hired, ({ after }) => after.job?.name, names ? nameOf : undefined),
    ...line("declined", declined, ({ after }) => after.job?.name),
    ...line("opened", opened, ({ after }) => after.name)
  ]
  if (lines.length === 0) return null
  const days = period(tick, [...hired, ...declined, ...opened].map(({ detectedAt }) => detectedAt))
  return [`*${escaped(tick.integration)}, ${days}*`, ...lines].join("\n")
}

export default Plugin.make("digest", { config }).every(
  "1 day",
  { as: "digest" },
  Effect.fn("Digest.digest")(function*(tick, { empty, names, url }) {
    const { from, to } = tick
    const text = messageOf(
      tick,
      {
        hired: yield* Plugin.Events.between("ats.application.hired", from, to),
        declined: yield* Plugin.Events.between("ats.application.declined", from, to),
        opened: yield* Plugin.Events.between("hris.staffing_entity.opened", from, to)
      },
      names
    ) ?? (empty ? `*${escaped(tick.integration)}, ${period(tick, [])}*\nNothing happened.` : null)
    if (text === null) return
    const request = HttpClientRequest.post(Redacted.value(url)).pipe(HttpClientRequest.bodyJsonUnsafe({ text }))
    yield* Plugin.Journal.once("post", Schema.Boolean, Effect.as(Plugin.send(request), true))
  })
)
