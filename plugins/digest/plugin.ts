/**
 * Sends one message per day and integration: the hires and declines by job, and the openings that were posted.
 *
 * Invariants
 * 1. The message contains no personal data unless `DIGEST_NAMES` is set
 * 2. One message per tick: after an outage of several days, one message covers all of them   (L8)
 *
 * Gotchas
 * - A message whose response was lost may have arrived. It is sent again: a duplicate is better than a lost message.
 */
import * as Plugin from "#plugin"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

const config = Config.all({
  /** Receives `{"text": "…"}`, the format of incoming webhooks of Slack and many other services. */
  url: Config.Redacted("DIGEST_URL"),
  /** Whether the address may be `http://` on another machine. */
  allowPlaintext: Config.Boolean("DIGEST_ALLOW_PLAINTEXT").pipe(Config.withDefault(false)),
  /** Whether the message contains the names of hired people. */
  names: Config.Boolean("DIGEST_NAMES").pipe(Config.withDefault(false)),
  /** Whether a message is sent for a day without events. */
  empty: Config.Boolean("DIGEST_EMPTY").pipe(Config.withDefault(false))
}).pipe(Config.flatMap(({ allowPlaintext, ...settings }) => {
  const allowedBy = "DIGEST_ALLOW_PLAINTEXT to true"
  const fault = Plugin.addressFault(Redacted.value(settings.url), { allowPlaintext, allowedBy })
  return fault === null
    ? Config.succeed(settings)
    : Config.fail(new ConfigProvider.SourceError({ message: `DIGEST_URL ${fault}` }))
}))

type Hired = Plugin.EventOf<"ats.application.hired">
type Declined = Plugin.EventOf<"ats.application.declined">
type Opened = Plugin.EventOf<"hris.staffing_entity.opened">

export interface DayEvents {
  readonly hired: ReadonlyArray<Hired>
  readonly declined: ReadonlyArray<Declined>
  readonly opened: ReadonlyArray<Opened>
}

const maxTitles = 10

/** Escapes the characters that the receiver would read as markup. */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

/** One line: without line breaks and control characters, and without characters that reorder or hide text. */
const oneLine = (text: string): string =>
  text.replace(/[\p{Bidi_Control}\u200b\u2060\ufeff]/gu, "").replace(/[\p{Cc}\s]+/gu, " ").trim()

/** The last event of each record, so that a person who is hired twice in a day appears as one hire. */
const perRecord = <E extends { readonly recordId: string }>(events: ReadonlyArray<E>): ReadonlyArray<E> => [
  ...new Map(events.map((event) => [event.recordId, event])).values()
]

/** A line such as `3 hired: Nurse (2), Controller`; no line if there are no events. */
const line = <E extends { readonly recordId: string }>(
  what: string,
  events: ReadonlyArray<E>,
  titleOf: (event: E) => string | null | undefined,
  nameOf: (event: E) => string = () => ""
): ReadonlyArray<string> => {
  const records = perRecord(events)
  if (records.length === 0) return []
  const byTitle = [...Map.groupBy(records, (event) => oneLine(titleOf(event) ?? "") || "untitled")]
    .sort(([, a], [, b]) => b.length - a.length)
  const titles = byTitle.slice(0, maxTitles).map(([title, events]) => {
    const names = events.map(nameOf).filter(Boolean)
    if (names.length > 0) return `${escaped(title)}: ${escaped(names.join(", "))}`
    return events.length > 1 ? `${escaped(title)} (${events.length})` : escaped(title)
  })
  const more = byTitle.length > maxTitles ? [`and ${byTitle.length - maxTitles} more`] : []
  return [`• ${records.length} ${what}: ${[...titles, ...more].join(", ")}`]
}

const dayOf = (date: Date): string => date.toISOString().slice(0, "2026-03-01".length)

/** The first and the last day with events; the day before the tick, which is due when the day ends, if there are none. */
const period = (tick: Plugin.Tick, times: ReadonlyArray<Date>): string => {
  const days = times.map(dayOf).sort()
  const from = days[0] ?? dayOf(new Date(tick.scheduledAt.getTime() - 1))
  const to = days.at(-1) ?? from
  return from === to ? from : `${from} to ${to}`
}

const nameOf = ({ after: { candidate } }: Hired): string =>
  oneLine([candidate?.first_name, candidate?.last_name].filter(Boolean).join(" "))

/** The text of the message; null if there are no events. */
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
  // attempts over ten hours: an outage of the receiver must not cost a day its message
  { as: "digest", attempts: 20, retry: { first: "5 seconds", longest: "1 hour" } },
  Effect.fn("Digest.digest")(function*(tick, { config: { empty, names, url } }) {
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
