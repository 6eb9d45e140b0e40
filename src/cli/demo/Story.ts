/**
 * Makes the mutations of the simulated world that take one person from applicant to employee, and shows them. Everything else that happens
 * is one line a second.
 *
 * Gotchas
 * - A line of an event has the time at which the demo received the event, so that the times of the lines never decrease.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import { oneLine, paint, timeOfDay } from "../../telemetry/TerminalText.ts"
import { type ApiClient, type FeedEvent, parseEvent } from "../client/ApiClient.ts"
import { eventLine, type PluginWrite, writeLine } from "../terminal/EventLines.ts"
import { print } from "../terminal/Process.ts"
import { formatCount } from "../terminal/Tables.ts"

/** Ids of the person's records: their events and the writes about them contain one. */
type Person = Set<string>

// ---- the person ---------------------------------------------------------------------------------------------------

const name = { first_name: "Maya", last_name: "Lindholm" }
export const introduction =
  `Follow ${name.first_name} ${name.last_name}: an applicant, interviewed, hired, and then an employee, created by a plugin.`

const between = "3 seconds"

/** Makes the person apply, get an interview and an offer, and be hired. Ends early if the world deletes one of the records. */
const act = Effect.fnUntraced(function*(
  { integrations: [integration = ""], mutate, truth }: SandboxHandle,
  person: Person
) {
  const stages = yield* truth("ats.stage", integration)
  // a stage may have been renamed since the start: "Offer" to "Offer Europe"
  const stageOf = (first: string) =>
    stages.flatMap((stage) => {
      const { id, name } = Object(stage)
      return String(name).startsWith(first) && typeof id === "string" ? [id] : []
    })[0] ?? null
  const candidate = yield* mutate({ op: "create", integration, model: "ats.candidate", fields: name })
  const links = { candidate: candidate.id }
  const application = yield* mutate({ op: "create", integration, model: "ats.application", links })
  person.add(candidate.id).add(application.id)
  const target = { op: "update", integration, model: "ats.application", id: application.id } as const
  const moveTo = (stage: string) => mutate({ ...target, links: { current_stage: stageOf(stage) } })
  const add = (model: string, fields: Record<string, string>) =>
    mutate({ op: "create", integration, model, fields, links: { application: application.id } })
  const acts = [
    moveTo("Interview"),
    add("ats.interview", { title: "Technical interview" }),
    moveTo("Offer"),
    add("ats.offer", { status: "SENT" }),
    mutate({ ...target, fields: { outcome: "HIRED" } })
  ]
  yield* Effect.forEach(acts, (next) => Effect.andThen(Effect.sleep(between), next), { discard: true })
}, (acts) => Effect.ignore(acts))

// ---- what is shown ------------------------------------------------------------------------------------------------

const isAbout = (person: Person) => (value: unknown): boolean => {
  const text = JSON.stringify(value)
  return [...person].some((id) => text.includes(id))
}

/** JSON on several lines; a value that fits on a line stays on it. */
const indented = (value: unknown, margin: string): string => {
  const short = JSON.stringify(value)
  if (typeof value !== "object" || value === null || margin.length + short.length <= 116) return short
  const inner = `${margin}  `
  const lines = Array.isArray(value)
    ? value.map((item) => indented(item, inner))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${indented(item, inner)}`)
  const [open, close] = Array.isArray(value) ? "[]" : "{}"
  return `${open}\n${lines.map((line) => inner + line).join(",\n")}\n${margin}${close}`
}

const count = (values: ReadonlyArray<string>): string =>
  [...Map.groupBy(values, (value) => value)].map(([value, equal]) => `${formatCount(equal.length)} ${value}`).join(", ")

/** `14:02:11Z  others   12 updated, 3 created; plugins: 5 addTag`; null if nothing happened. */
const othersLine = (
  second: number,
  events: ReadonlyArray<FeedEvent>,
  writes: ReadonlyArray<PluginWrite>
): string | null => {
  const parts = [
    ...events.length > 0 ? [count(events.map(({ data }) => data.kind))] : [],
    ...writes.length > 0 ? [`plugins: ${count(writes.map(({ request }) => request.write))}`] : []
  ]
  return parts.length === 0 ? null : paint("gray", `${timeOfDay(second)}  ${"others".padEnd(29)}  ${parts.join("; ")}`)
}

/** Plays the acts and prints what happens, until interrupted. `writes`: the writes of plugins so far. */
export const show = Effect.fnUntraced(function*(
  sandbox: SandboxHandle,
  client: ApiClient,
  writes: ReadonlyArray<PluginWrite>
) {
  const person: Person = new Set()
  /** The employee has none of these ids, and neither has the write that creates it, but both have this part of an address. */
  let address = "none yet"
  const received: Array<{ readonly at: number; readonly event: FeedEvent }> = []
  let printed = 0
  let shownWrites = 0
  let isWhole = false
  const receive = Stream.runForEach(
    client.follow({ after: "latest" }),
    (text) =>
      Effect.map(Clock.currentTimeMillis, (at) => {
        const event = parseEvent(text)
        const { remote_id } = Object(event.data.after)
        if (event.data.model === "ats.application" && person.has(event.data.id)) address = `.${remote_id}@`
        received.push({ at, event })
      })
  )
  const printSecond = Effect.fnUntraced(function*(second: number) {
    const isEarlier = ({ at }: { readonly at: number }) => at < second + 1_000
    const events = received.splice(0, received.filter(isEarlier).length)
    const sent = writes.slice(shownWrites).filter(isEarlier)
    shownWrites += sent.length
    const isOwn = isAbout(new Set([...person, address]))
    const ofEvents = Map.groupBy(events, ({ event }) => isOwn(event.data))
    const ofWrites = Map.groupBy(sent, ({ request }) => isOwn(request))
    const own = [
      ...(ofEvents.get(true) ?? []).map(({ at, event }) => ({ at, line: eventLine(event.data, at) })),
      ...(ofWrites.get(true) ?? []).map((write) => ({ at: write.at, line: writeLine(write) }))
    ].sort((one, other) => one.at - other.at)
    yield* Effect.forEach(own, ({ line }) => print(line), { discard: true })
    const first = ofEvents.get(true)?.find(({ event }) => event.data.model === "ats.candidate")
    if (first !== undefined && !isWhole) {
      isWhole = true
      yield* print(
        `\nThe event of the candidate, whole:\n${indented(first.event, "").split("\n").map(oneLine).join("\n")}\n`
      )
    }
    const others = othersLine(
      second,
      (ofEvents.get(false) ?? []).map(({ event }) => event),
      ofWrites.get(false) ?? []
    )
    if (others !== null) yield* print(others)
  })
  const printSeconds = Effect.gen(function*() {
    const complete = secondOf(yield* Clock.currentTimeMillis)
    for (printed ||= complete; printed < complete; printed += 1_000) yield* printSecond(printed)
  })
  yield* Effect.all([receive, Effect.repeat(printSeconds, Schedule.spaced("200 millis")), act(sandbox, person)], {
    concurrency: 3,
    discard: true
  })
})

const secondOf = (time: number): number => Math.floor(time / 1_000) * 1_000
