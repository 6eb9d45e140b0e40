/**
 * A row of the log as handlers see it: parsed once, whoever asks.
 *
 * Gotchas
 * - Handlers share what was parsed: it is theirs to read, not to change.
 */
import type { JsonObject, JsonValue } from "../domain/Canonical.ts"
import { formatPosition, type LogEntry, type LogIdentity } from "../domain/ChangeEvent.ts"
import { segments } from "../domain/Diff.ts"
import type { Transition } from "../domain/Transition.ts"
import type { Cause, Change, EventOf, Trigger } from "../plugin/Event.ts"

export interface Occurrence {
  readonly entry: LogEntry
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  readonly changes: ReadonlyArray<Change>
  readonly transitions: ReadonlyArray<Transition>
  readonly cause: Cause | null
  /** Names of the changed properties of the record. */
  readonly changed: ReadonlyArray<string>
}

/** Computed when it is first asked for. */
const lazily = <A>(compute: () => A): () => A => {
  let known: { readonly value: A } | undefined
  return () => (known ??= { value: compute() }).value
}

/** Its texts are of our own making: they parse. */
export const occurrenceOf = (entry: LogEntry): Occurrence => {
  const parsed = (text: string | null) => lazily(() => text === null ? null : JSON.parse(text))
  const [before, after, cause] = [parsed(entry.before), parsed(entry.after), parsed(entry.cause)]
  const [changes, transitions] = [parsed(entry.changes), parsed(entry.transitions)]
  const changed = lazily(() => [
    ...new Set((changes() as ReadonlyArray<Change>).flatMap(({ path }) => segments(path).slice(0, 1)))
  ])
  return {
    entry,
    get before() {
      return before()
    },
    get after() {
      return after()
    },
    get changes() {
      return changes()
    },
    get transitions() {
      return transitions()
    },
    get cause() {
      return cause()
    },
    get changed() {
      return changed()
    }
  }
}

/** `ats.application.hired` → its model, and a kind or the name of a transition. */
export const partsOf = (trigger: string): { readonly model: string; readonly what: string } => {
  const dot = trigger.lastIndexOf(".")
  return { model: trigger.slice(0, dot), what: trigger.slice(dot + 1) }
}

const kinds: ReadonlySet<string> = new Set(["created", "updated", "deleted"])

/** Whether it is one of a trigger. */
export const isOf = (trigger: string, { entry, transitions }: Occurrence): boolean => {
  const { model, what } = partsOf(trigger)
  if (entry.model !== model) return false
  return kinds.has(what) ? entry.kind === what : transitions.some(({ name }) => name === what)
}

const changeOf = ({ after, before, changed }: Occurrence) =>
  Object.fromEntries(
    changed.map((name): [string, { before: JsonValue | undefined; after: JsonValue | undefined }] => [
      name,
      { before: before?.[name], after: after?.[name] }
    ])
  )

/** What a handler of `trigger`, narrowed to these properties, receives. */
export const eventOf = <T extends Trigger>(
  identity: LogIdentity,
  occurrence: Occurrence,
  trigger: T,
  narrowed: ReadonlyArray<string> | null = null
): EventOf<T> => shapeOf(identity, occurrence, partsOf(trigger).what, narrowed) as EventOf<T>

/** Which properties there are follows from what happened, as the type of the trigger's events says. */
const shapeOf = (
  identity: LogIdentity,
  occurrence: Occurrence,
  what: string,
  narrowed: ReadonlyArray<string> | null
): unknown => {
  const { after, before, cause, changed, changes, entry, transitions } = occurrence
  const event = {
    id: entry.eventId,
    model: entry.model,
    integration: entry.integration,
    recordId: entry.id,
    remoteId: entry.remoteId,
    lineage: entry.lineage,
    version: entry.version,
    kind: entry.kind,
    origin: entry.origin,
    changes,
    reason: entry.reason,
    restored: entry.restored,
    changedAt: entry.changedAt,
    detectedAt: new Date(entry.detectedAt),
    cause,
    position: formatPosition(identity, entry.position),
    before,
    after
  }
  if (!kinds.has(what)) return { ...event, transition: transitions.find(({ name }) => name === what) }
  if (what !== "updated") return event
  return {
    ...event,
    change: changeOf(occurrence),
    changed: narrowed === null ? changed : changed.filter((name) => narrowed.includes(name))
  }
}
