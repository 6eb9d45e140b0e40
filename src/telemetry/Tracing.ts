/**
 * The port of traces: opens spans around effects, if this process exports traces. `Otlp.ts` implements it.
 *
 * Invariants
 * 1. Without the service `Tracing`, and in a trace that is not recorded, no span is made
 * 2. A span contains the type of an error, never its message, and no id or content of a record   (I11)
 *
 * Gotchas
 * - The current span is a reference of its own: Effect's tracing stays switched off, so that its own functions, statements and requests
 *   make no spans.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Tracer from "effect/Tracer"
import { formatTraceparent, parseTraceparent, type SpanContext } from "../domain/Traceparent.ts"

export type SpanName = "poll" | "sweep" | "release" | "page" | "commit" | "relay" | "delivery" | "write"

export type Attributes = Readonly<Record<string, string | number | boolean>>

export interface TracingOptions {
  readonly tracer: Tracer.Tracer
  /** The share of new traces that is recorded, 0 to 1. */
  readonly share: number
  /** Whether the traces of stored events are continued. */
  readonly continues: boolean
}

/** null: this process exports no traces. */
export const Tracing = Context.Reference<TracingOptions | null>("rollcall/telemetry/Tracing", {
  defaultValue: () => null
})

/** null: there is no trace; `"unrecorded"`: it is not recorded. */
const CurrentSpan = Context.Reference<Tracer.Span | "unrecorded" | null>("rollcall/telemetry/CurrentSpan", {
  defaultValue: () => null
})
const recorded = Effect.map(CurrentSpan, (span) => span === "unrecorded" ? null : span)

const kinds: Readonly<Record<SpanName, Tracer.SpanKind>> = {
  poll: "internal",
  sweep: "internal",
  release: "internal",
  page: "client",
  commit: "internal",
  relay: "producer",
  delivery: "consumer",
  write: "client"
}

/** The type of an error, from names in the code: its reason's tag, its own tag, or its class. */
const typeOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return "unknown"
  const { _tag, name, reason } = error as {
    readonly _tag?: unknown
    readonly name?: unknown
    readonly reason?: unknown
  }
  const known = [reason, error].map((one) => typeof one === "object" && one !== null && "_tag" in one ? one._tag : null)
  const found = [...known, _tag, name].find((text) => typeof text === "string" && /^\w{1,60}$/.test(text))
  return typeof found === "string" ? found : "unknown"
}

/** The result of a span without its value and without the text of its error. */
const outcomeOf = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<void, unknown> => {
  if (Exit.isSuccess(exit)) return Exit.void
  const reason = exit.cause.reasons.find((one) => !Cause.isInterruptReason(one))
  if (reason === undefined) return Exit.failCause(Cause.interrupt())
  const type = typeOf(Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : null)
  return Exit.fail({ name: type, message: type, stack: type })
}

interface SpanOptions {
  readonly name: SpanName
  readonly attributes: Attributes
  readonly parent: Tracer.AnySpan | null
  readonly links: ReadonlyArray<SpanContext>
}

const external = ({ spanId, traceId }: SpanContext): Tracer.ExternalSpan =>
  Tracer.externalSpan({ spanId, traceId, sampled: true })

const open = (tracer: Tracer.Tracer, { attributes, links, name, parent }: SpanOptions, startTime: bigint) => {
  const span = tracer.span({
    name,
    parent: Option.fromNullOr(parent),
    annotations: Context.empty(),
    links: links.map((link) => ({ span: external(link), attributes: {} })),
    startTime,
    kind: kinds[name],
    root: parent === null,
    sampled: true
  })
  for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
  return span
}

const close = (spans: ReadonlyArray<Tracer.Span>, exit: Exit.Exit<unknown, unknown>) =>
  Effect.map(Clock.currentTimeNanos, (endTime) => {
    const outcome = outcomeOf(exit)
    for (const span of spans) span.end(endTime, outcome)
  })

type Wrap = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Runs an effect in a new span, which is the current one inside. */
const within = (tracer: Tracer.Tracer, options: SpanOptions): Wrap => (effect) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Clock.currentTimeNanos, (startTime) => {
      const span = open(tracer, options, startTime)
      return Effect.onExit(restore(Effect.provideService(effect, CurrentSpan, span)), (exit) => close([span], exit))
    })
  )

/**
 * Runs an effect in a span that begins a trace, if the trace is recorded. `linked`: the spans that led to it, or `"current"`: the current
 * span, if there is one.
 */
export const inTrace =
  (name: SpanName, attributes: Attributes, linked: ReadonlyArray<SpanContext> | "current" = []): Wrap => (effect) =>
    Effect.flatMap(Tracing, (tracing) => {
      if (tracing === null) return effect
      return Effect.flatMap(Effect.all([recorded, Random.next]), ([current, random]) => {
        if (random >= tracing.share) return Effect.provideService(effect, CurrentSpan, "unrecorded" as const)
        const links = linked !== "current" ? linked : current === null ? [] : [current]
        return within(tracing.tracer, { name, attributes, parent: null, links })(effect)
      })
    })

/** Runs an effect in a span below the current one, if there is one. */
export const inSpan = (name: SpanName, attributes: Attributes): Wrap => (effect) =>
  Effect.flatMap(
    recorded,
    (parent) =>
      parent === null ?
        effect :
        Effect.flatMap(
          Tracing,
          (tracing) =>
            tracing === null ? effect : within(tracing.tracer, { name, attributes, parent, links: [] })(effect)
        )
  )

/** Like `inSpan`; if there is no trace, the span begins one. */
export const inSpanOrTrace = (name: SpanName, attributes: Attributes): Wrap => (effect) =>
  Effect.flatMap(
    CurrentSpan,
    (current) => current === null ? inTrace(name, attributes)(effect) : inSpan(name, attributes)(effect)
  )

/**
 * Runs the handling of events in a span that continues the trace of the events. If the events have several traces, the span begins a new
 * trace, with links to these; if they have none, there is no span. `traceparents`: one for each event, as stored.
 */
export const inTraceOf =
  (traceparents: ReadonlyArray<string | null>, name: SpanName, attributes: Attributes): Wrap => (effect) =>
    Effect.flatMap(Tracing, (tracing) => {
      const [first, ...others] = tracing?.continues === true ? contextsOf(traceparents) : []
      if (tracing === null || first === undefined) return effect
      return others.length === 0
        ? within(tracing.tracer, { name, attributes, parent: external(first), links: [] })(effect)
        : within(tracing.tracer, { name, attributes, parent: null, links: [first, ...others] })(effect)
    })

/** The distinct spans that these `traceparent` values name. */
const contextsOf = (traceparents: ReadonlyArray<string | null>): ReadonlyArray<SpanContext> =>
  [...new Set(traceparents)].flatMap((text) => parseTraceparent(text) ?? [])

/** Runs the handling of a batch of events, with one span in each of their traces. `attributes`: of a span, by the number of its events. */
export const inEachTraceOf =
  (traceparents: ReadonlyArray<string | null>, name: SpanName, attributes: (events: number) => Attributes): Wrap =>
  (effect) =>
    Effect.flatMap(Tracing, (tracing) => {
      const counts = new Map<string | null, number>()
      if (tracing?.continues === true) {
        for (const text of traceparents) counts.set(text, (counts.get(text) ?? 0) + 1)
      }
      const options = [...counts].flatMap(([text, events]): ReadonlyArray<SpanOptions> => {
        const parent = parseTraceparent(text)
        return parent === null ? [] : [{ name, attributes: attributes(events), parent: external(parent), links: [] }]
      })
      if (tracing === null || options.length === 0) return effect
      return Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Clock.currentTimeNanos, (startTime) => {
          const spans = options.map((one) => open(tracing.tracer, one, startTime))
          return Effect.onExit(restore(effect), (exit) => close(spans, exit))
        })
      )
    })

/** Adds attributes to the current span, if there is one. */
export const note = (attributes: () => Attributes): Effect.Effect<void> =>
  Effect.map(recorded, (span) => {
    if (span === null) return
    for (const [key, value] of Object.entries(attributes())) span.attribute(key, value)
  })

/** Captures the current span. The returned function runs an effect in it, even if the span has ended by then. */
export const resume: Effect.Effect<Wrap> = Effect.map(
  CurrentSpan,
  (span): Wrap => (effect) => span === null ? effect : Effect.provideService(effect, CurrentSpan, span)
)

/** The current span as it is stored with the events that it appends; null: the trace is not recorded, or there is none. */
export const traceparent: Effect.Effect<string | null> = Effect.map(
  recorded,
  (span) => span === null ? null : formatTraceparent(span)
)
