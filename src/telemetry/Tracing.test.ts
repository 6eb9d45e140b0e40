import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Tracer from "effect/Tracer"
import { formatTraceparent, parseTraceparent } from "../domain/Traceparent.ts"
import * as Tracing from "./Tracing.ts"

const collected = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return { spans, tracer }
}

const using = (options: Tracing.TracingOptions | null) => <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.provideService(effect, Tracing.Tracing, options)

const stored = (digit: string) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`
const parentOf = ({ parent }: Tracer.Span) => Option.getOrNull(Option.map(parent, ({ spanId }) => spanId))

/** Everything that opens a span, in the order of a change's path. */
const path = Effect.gen(function*() {
  const traceparent = yield* Tracing.traceparent.pipe(
    Tracing.inSpanOrTrace("commit", {}),
    Tracing.inSpan("page", {}),
    Tracing.inTrace("poll", {})
  )
  yield* Tracing.inEachTraceOf([traceparent], "relay", () => ({}))(Effect.void)
  yield* Tracing.inTraceOf([traceparent], "delivery", {})(Tracing.inSpan("write", {})(Effect.void))
  return traceparent
})

describe("Tracing", () => {
  it.effect("makes no span and stores nothing if the process exports no traces", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      // as the program runs: the tracer of Effect would show a span of Effect's own
      const traceparent = yield* path.pipe(
        using(null),
        Effect.withTracer(tracer),
        Effect.withTracerEnabled(false)
      )
      assert.isNull(traceparent)
      assert.deepStrictEqual(spans, [])
    }))

  it.effect("makes no span and stores nothing in a trace that is not recorded", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      assert.isNull(yield* using({ tracer, share: 0, continues: true })(path))
      assert.deepStrictEqual(spans, [])
    }))

  it.effect("decides once for a trace: inside one that is not recorded, nothing begins a trace", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const draws = [0.9, 0.1]
      yield* Tracing.inSpanOrTrace("commit", {})(Effect.void).pipe(
        Tracing.inTrace("poll", {}),
        using({ tracer, share: 0.5, continues: true }),
        Effect.provideService(Random.Random, { nextIntUnsafe: () => 0, nextDoubleUnsafe: () => draws.shift() ?? 0 })
      )
      assert.deepStrictEqual(spans, [])
    }))

  it.effect("joins the steps of a change to one trace, and only these, even if they use Effect's own spans", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const own = path.pipe(Effect.withSpan("own"), using({ tracer, share: 1, continues: true }))
      const traceparent = yield* own.pipe(Effect.withTracer(tracer), Effect.withTracerEnabled(false))
      const byName = new Map(spans.map((span) => [span.name, span]))
      assert.sameMembers([...byName.keys()], ["poll", "page", "commit", "relay", "delivery", "write"])
      const id = (name: string) => byName.get(name)!.spanId
      const parents = Object.fromEntries(spans.map((span) => [span.name, parentOf(span)]))
      assert.deepStrictEqual(parents, {
        poll: null,
        page: id("poll"),
        commit: id("page"),
        relay: id("commit"),
        delivery: id("commit"),
        write: id("delivery")
      })
      assert.strictEqual(new Set(spans.map(({ traceId }) => traceId)).size, 1)
      assert.strictEqual(traceparent, formatTraceparent(byName.get("commit")!))
      assert.isTrue(spans.every(({ status }) => status._tag === "Ended"))
    }))

  it.effect("gives events of several traces a trace with links, and events without a trace none", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const use = using({ tracer, share: 1, continues: true })
      yield* use(Tracing.inTraceOf([stored("a"), null, stored("b"), stored("a")], "delivery", {})(Effect.void))
      const [batch] = spans
      assert.isNull(parentOf(batch!))
      assert.deepStrictEqual(batch!.links.map(({ span }) => span.spanId), ["a".repeat(16), "b".repeat(16)])
      yield* use(Tracing.inTraceOf([null, null], "delivery", {})(Effect.void))
      yield* use(Tracing.inTraceOf([], "delivery", {})(Effect.void))
      assert.lengthOf(spans, 1)
    }))

  it.effect("opens one span in each trace of a batch, with the number of its events", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const traces = [stored("a"), stored("b"), null, stored("a")]
      const exit = yield* Effect.fail({ _tag: "SinkError", reason: { _tag: "Unreachable" } }).pipe(
        Tracing.inEachTraceOf(traces, "relay", (events) => ({ events })),
        using({ tracer, share: 1, continues: true }),
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(exit))
      const seen = spans.map((span) => [parentOf(span), span.attributes.get("events")])
      assert.deepStrictEqual(seen, [["a".repeat(16), 2], ["b".repeat(16), 1]])
      for (const { status } of spans) assert.deepInclude(failureIn(status), { name: "Unreachable" })
    }))

  it.effect("continues no trace if the sampler is always_off, and begins none below its share", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const traced = Tracing.inTraceOf([stored("a")], "delivery", {})(Tracing.inSpan("write", {})(Effect.void))
      yield* using({ tracer, share: 0, continues: false })(traced)
      assert.lengthOf(spans, 0)
      yield* using({ tracer, share: 0, continues: true })(traced)
      assert.deepStrictEqual(spans.map(({ name }) => name), ["delivery", "write"])
    }))

  it.effect("a page of a sweep begins a trace that links to the sweep, and a commit without a trace begins one", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const page = Tracing.inTrace("page", {}, "current")(Tracing.inSpanOrTrace("commit", {})(Effect.void))
      yield* Tracing.inTrace("sweep", {})(page).pipe(using({ tracer, share: 1, continues: true }))
      const [sweep, first, commit] = spans
      assert.notStrictEqual(first!.traceId, sweep!.traceId)
      assert.deepStrictEqual(first!.links.map(({ span }) => span.spanId), [sweep!.spanId])
      assert.strictEqual(parentOf(commit!), first!.spanId)
      yield* Tracing.inSpanOrTrace("commit", {})(Effect.void).pipe(using({ tracer, share: 1, continues: true }))
      assert.isNull(parentOf(spans[3]!))
    }))

  it.effect("records the type of an error and nothing that it says, and an interruption as one (I11)", () =>
    Effect.gen(function*() {
      const { spans, tracer } = collected()
      const use = using({ tracer, share: 1, continues: true })
      const secret = "Ada Lovelace"
      class Refused extends Error {}
      for (
        const effect of [
          Effect.fail({ _tag: "SourceError", message: secret, reason: { _tag: "Rejected", message: secret } }),
          Effect.fail({ _tag: "Transient", message: secret }),
          Effect.die(new TypeError(secret)),
          Effect.die(Object.assign(new Refused(secret), { name: secret })),
          Effect.die(secret)
        ] as ReadonlyArray<Effect.Effect<never, unknown>>
      ) yield* Effect.exit(use(Tracing.inTrace("write", {})(effect)))
      const types = spans.map(({ status }) => failureIn(status))
      assert.deepStrictEqual(
        types.map(({ name }) => name),
        ["Rejected", "Transient", "TypeError", "unknown", "unknown"]
      )
      assert.notInclude(JSON.stringify(types), "Ada")
      const fiber = yield* Effect.forkChild(use(Tracing.inTrace("write", {})(Effect.never)), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      const { status } = spans.at(-1)!
      assert.isTrue(status._tag === "Ended" && Exit.hasInterrupts(status.exit))
    }))
})

const failureIn = (status: Tracer.SpanStatus): { readonly name?: string } => {
  if (status._tag !== "Ended" || Exit.isSuccess(status.exit)) return {}
  const [reason] = status.exit.cause.reasons
  return reason?._tag === "Fail" ? reason.error as { readonly name: string } : {}
}

describe("traceparent", () => {
  it("is read as it is written, and any other text counts as none", () => {
    const context = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" }
    assert.deepStrictEqual(parseTraceparent(formatTraceparent(context)), context)
    const valid = formatTraceparent(context)
    for (
      const text of [
        null,
        "",
        valid.replace(/01$/, "00"),
        valid.toUpperCase(),
        `${valid}-x`,
        stored("0"),
        `00-${context.traceId}-${"0".repeat(16)}-01`,
        valid.replace(/^00/, "ff")
      ]
    ) assert.isNull(parseTraceparent(text), String(text))
  })
})
