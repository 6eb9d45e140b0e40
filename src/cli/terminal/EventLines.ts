/**
 * The terminal output for events and plugin writes: one line each, or one line for a group of events with the same change.
 * Returns text and prints nothing. The text has colors if standard output shows them.
 */
import type { WriteName } from "../../api/Writes.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { EventData } from "../../publish/EventSchema.ts"
import type { WriteRequest } from "../../source/Source.ts"
import { oneLine, paint, timeOfDay } from "../../telemetry/TerminalText.ts"
import { formatPlural } from "./Tables.ts"

/** The properties of an event of the HTTP API that the terminal output uses. */
export type EventView =
  & Omit<EventData, "integration" | "generation" | "remote_id" | "cause" | "stub" | "log">
  & Partial<Pick<EventData, "cause">>

/** A write of a plugin that took effect. */
export interface PluginWrite {
  /** Our clock, in ms. */
  readonly at: number
  readonly plugin: string
  readonly request: WriteRequest<WriteName>
}

// ---- names --------------------------------------------------------------------------------------------------------

const valueAt = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>(
    (inner, name) => typeof inner === "object" && inner !== null ? Reflect.get(inner, name) : undefined,
    value
  )

const text = (value: unknown): string | null => typeof value === "string" && value !== "" ? value : null

const person = (value: unknown): string | null => {
  const first = text(valueAt(value, "first_name"))
  const last = text(valueAt(value, "last_name"))
  return first === null ? last : last === null ? first : `${first} ${last.slice(0, 1)}.`
}

/** A title that people recognize: the name of the record's person, else the record's own name or title, else its id. */
const recordTitle = (record: unknown, id: string): string =>
  person(valueAt(record, "candidate")) ?? person(valueAt(record, "application", "candidate")) ??
    person(valueAt(record, "reviewee")) ??
    person(valueAt(record, "employee")) ?? person(record) ?? text(valueAt(record, "name")) ??
    text(valueAt(record, "title")) ?? id

// ---- what happened ------------------------------------------------------------------------------------------------

const truncate = (text: string, width: number): string => text.length > width ? `${text.slice(0, width - 1)}…` : text

const valueWidth = 32

const formatValue = (value: unknown, width = valueWidth): string => {
  if (value === null || value === undefined) return "–"
  if (typeof value === "object") return Array.isArray(value) ? `[${value.length}]` : "{…}"
  return truncate(String(value), width)
}

/** `before → after`. Long texts are cut around their first difference, so that the change stays visible. */
const formatValues = (before: unknown, after: unknown): string => {
  const [one, other] = [formatValue(before, Infinity), formatValue(after, Infinity)]
  let same = 0
  while (same < one.length && one[same] === other[same]) same++
  const start = Math.max(one.length, other.length) > valueWidth && same > valueWidth / 2 ? same - valueWidth / 4 : 0
  const cut = (text: string) => truncate(start === 0 ? text : `…${text.slice(start)}`, valueWidth)
  return `${cut(one)} → ${cut(other)}`
}

/**
 * For a change of the stage: `Screening → Interview`, the names of the stages, or their ids if the names are unknown. For another
 * transition: `name (from → to)`. Null if the event has no transition.
 */
const describeTransition = (event: EventView): string | null => {
  const moved = event.transitions.find((transition) => transition.name === "stage_changed")
  if (moved !== undefined) {
    const from = text(valueAt(event.before, "current_stage", "name")) ?? formatValue(moved.from)
    return `${from} → ${text(valueAt(event.after, "current_stage", "name")) ?? formatValue(moved.to)}`
  }
  const other = event.transitions[0]
  return other === undefined ? null : `${other.name} (${formatValue(other.from)} → ${formatValue(other.to)})`
}

const isMember = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value)

/** `interviews title Case study → Culture talk`. The ids of array items are left out of the path: they mean nothing to people. */
const describeChange = (event: EventView): string => {
  const [first, ...others] = event.changes
  if (first === undefined) return "changed"
  const path = first.path.split("/").filter((part) => !/^(?=.*[\dA-Z])[\w-]{16,}$/.test(part)).join(" ").trim()
  const more = others.length === 0 ? "" : ` and ${others.length} more`
  if (first.before === null && isMember(first.after)) return `${path} added${more}`
  if (isMember(first.before) && first.after === null) return `${path} removed${more}`
  return `${path} ${formatValues(first.before, first.after)}${more}`
}

const describeEvent = (event: EventView): string => {
  if (event.kind === "created") return event.restored ? "restored" : describeTransition(event) ?? "created"
  if (event.kind === "deleted") return `deleted (${event.reason ?? "unknown"})`
  return describeTransition(event) ?? describeChange(event)
}

/**
 * Seconds from the change to its detection. Null for an event of a backfill, and if `changed_at` is missing, is not a time, or is the same
 * as before the change.
 */
export const lagOf = ({ before, changed_at, detected_at, origin }: EventView): number | null => {
  const time = parseTime(changed_at)
  return time === null || origin === "backfill" || changed_at === valueAt(before, "changed_at")
    ? null
    : Math.max(0, Date.parse(detected_at) - time) / 1000
}

const kinds = { created: "green", updated: "yellow", deleted: "red" } as const

/** One line for an event or a group. `title`: the record, or the number of records. `details`: further parts at the end. */
const line = (event: EventView, at: string | number, title: string, details: ReadonlyArray<string>): string =>
  [
    paint("gray", timeOfDay(at)),
    paint("cyan", event.model.padEnd(29)),
    truncate(oneLine(title), 24).padEnd(24),
    paint(kinds[event.kind], describeEvent(event)),
    ...details.map((detail) => paint("gray", detail))
  ].join("  ")

/** `14:02:11Z  ats.application  Ada L.  Screening → Interview  v3  +1.2 s`. `at`: the time of the line. */
export const eventLine = (event: EventView, at: string | number = event.detected_at): string => {
  const lag = lagOf(event)
  return line(event, at, recordTitle(event.after ?? event.before, event.id), [
    `v${event.version}`,
    ...(lag === null ? [] : [`+${lag.toFixed(1)} s`]),
    ...(event.cause == null ? [] : [`by ${event.cause.plugin}`])
  ])
}

/** From this number of records on, equal changes are shown as a group. */
const smallestGroup = 3

/**
 * The lines of events that were detected together. Equal changes of several records are one line, at the place of the first of them:
 * `14:02:11Z  hris.staffing_entity  286 records  name Lyon office 4 → Lyon office 4 (new)`
 */
export const eventLines = (events: ReadonlyArray<EventView>): ReadonlyArray<string> => {
  const waves = Map.groupBy(events.keys(), (index) => {
    const event = events[index]!
    return `${event.model} ${event.kind} ${describeEvent(event)}`
  })
  const lines = new Map<number, string>()
  for (const wave of waves.values()) {
    const records = new Set(wave.map((index) => events[index]!.id)).size
    const first = wave[0]!
    if (records >= smallestGroup) {
      lines.set(first, line(events[first]!, events[first]!.detected_at, formatPlural(records, "record"), []))
    } else for (const index of wave) lines.set(index, eventLine(events[index]!))
  }
  return [...lines].sort(([one], [other]) => one - other).map(([, text]) => text)
}

/** `14:02:12Z  → stage-tags        addTag          Stage: Interview` */
export const writeLine = ({ at: time, plugin, request: { body, write } }: PluginWrite): string => {
  const summary = text(valueAt(body, "tag", "name")) ?? text(valueAt(body, "properties", "work_email")) ??
    text(valueAt(body, "document", "name")) ?? text(valueAt(body, "url")) ?? ""
  return [
    paint("gray", timeOfDay(time)),
    paint("bold", `→ ${plugin}`.padEnd(29)),
    write.padEnd(24),
    truncate(oneLine(summary), 48)
  ].join("  ")
}
