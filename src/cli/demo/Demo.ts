/**
 * The visible part of the demo: an introduction, the backfill, events as they happen, a final check and a summary. The caller
 * provides the simulated world and the running service.
 *
 * Gotchas
 * - Like any consumer, the demo gets the events that it shows and checks from the operating API.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { Capture } from "../../capture/schedule/Capture.ts"
import { isReadable } from "../../capture/StreamLifecycle.ts"
import { PluginAdmin } from "../../delivery/admin/PluginAdmin.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { streamName } from "../../domain/Model.ts"
import type { StreamView } from "../../http/contract/StreamApi.ts"
import type { SandboxHandle } from "../../sandbox/Sandbox.ts"
import { Store } from "../../store/Store.ts"
import { paint, toTerminal } from "../../telemetry/TerminalText.ts"
import type { ApiClient } from "../client/ApiClient.ts"
import { lagOf, type PluginWrite } from "../terminal/EventLines.ts"
import { print, refuse } from "../terminal/Process.ts"
import { progressLine } from "../terminal/Tables.ts"
import { findDifferences, findUndecided, Fold, type Records, sizeOf, truthOf } from "./ConsistencyCheck.ts"
import * as Story from "./Story.ts"
import { countsOf, type Summary, summaryText } from "./Summary.ts"

export interface DemoOptions {
  readonly sandbox: SandboxHandle
  /** The writes of plugins so far. */
  readonly writes: ReadonlyArray<PluginWrite>
  readonly client: ApiClient
  readonly seed: number
  /** Returns when the demo should end. */
  readonly until: Effect.Effect<void>
  /** Print only the summary, as JSON. */
  readonly json: boolean
}

const overwrite = (line: string) => Effect.sync(() => process.stdout.write(`\r\x1b[2K${toTerminal(line)}`))

/** Printed first, because the next steps take time. */
export const printIntroduction = (seed: number) =>
  print(
    `${paint("bold", "Rollcall demo: reads a simulated HR world over HTTP and turns its changes into events.")}\n` +
      `Seed ${seed}. Two plugins react to the events: welcome-new-hire and stage-tags (→ marks their writes).\n` +
      `Their writes come back as events, which name the plugin. Employees are a list that the demo defines.\n` +
      `Ctrl-C ends the demo with a check of every record.`
  )

const readOf = (streams: ReadonlyArray<StreamView>, truth: Records): number =>
  streams.reduce((sum, view) => {
    const expected = truth.get(view.stream)?.size ?? 0
    const isKnown = view.phase === "live" || (view.progress?.pass ?? 1) > 1
    // between two passes, and until the polls after the last one, there is no progress
    return sum + (isKnown ? expected : Math.min(expected, Math.max(view.progress?.records ?? 0, view.records_live)))
  }, 0)

/** Shows progress until every stream is live: a moving bar on a terminal, otherwise a line every two seconds. */
const watchBackfill = Effect.fnUntraced(function*({ client, sandbox }: DemoOptions) {
  const truth = truthOf(sandbox.world, yield* CurrentModels)
  const total = sizeOf(truth)
  const startedAt = yield* Clock.currentTimeMillis
  const moving = process.stdout.isTTY
  const look = Effect.gen(function*() {
    const streams = yield* client.allStreams
    const live = streams.length > 0 && streams.every((view) => view.phase === "live" || view.blocked !== null)
    const elapsed = ((yield* Clock.currentTimeMillis) - startedAt) / 1000
    const line = progressLine("backfill", live ? total : readOf(streams, truth), total, elapsed)
    yield* moving ? overwrite(line) : print(line)
    return live
  })
  yield* Effect.repeat(look, { until: (live) => live, schedule: Schedule.spaced(moving ? "100 millis" : "2 seconds") })
  if (moving) yield* print("")
})

const watch = (options: DemoOptions) =>
  Effect.gen(function*() {
    const { url } = options.client
    yield* print(`Console ${url}/   events ${url}/v1/events   documentation ${url}/docs\n`)
    yield* watchBackfill(options)
    yield* print(`\n${Story.introduction}`)
    yield* Story.show(options.sandbox, options.client, options.writes)
  })

/**
 * Stops the world, and then makes each kind of mutation that has not happened yet happen once. A hard delete always happens, because only
 * the final sweep can find it: an earlier hard-deleted record may have returned before a sweep.
 */
const applyMissingMutations = Effect.fnUntraced(function*({ freeze, integrations, world }: SandboxHandle) {
  yield* freeze
  const { activityKinds } = yield* Effect.promise(() => import("../../sandbox/world/Activity.ts"))
  for (const kind of activityKinds.filter((kind) => kind === "deleted_hard" || world.mutations[kind] === 0)) {
    for (const integration of integrations) world.mutate({ op: "simulate", integration, kind })
  }
})

/**
 * Runs after the world has stopped. Two polls close gaps that moving pages may have left, and the sweep finds the changes that polls
 * cannot see. A stream whose backfill had not started when the demo ended has no watermark and cannot be polled; the sweep is its
 * backfill.
 */
const pollAndSweepAll = Effect.gen(function*() {
  const capture = yield* Capture
  const store = yield* Store
  yield* Effect.forEach(
    (yield* store.streams).filter(isReadable(yield* CurrentModels)),
    (stream) =>
      Effect.all([
        stream.watermark === null ? capture.sweep(stream) : Effect.void,
        capture.poll(stream),
        capture.poll(stream),
        capture.sweep(stream)
      ]).pipe(
        Effect.retry({ times: 3, schedule: Schedule.spaced("500 millis") })
      ),
    { concurrency: 4, discard: true }
  )
})

/** Repeats until there is no new event: plugins react to events, and their writes become events too. */
const runUntilIdle = Effect.gen(function*() {
  const plugins = yield* PluginAdmin
  const store = yield* Store
  yield* pollAndSweepAll
  const react = Effect.gen(function*() {
    const { newest } = yield* store.logRange
    yield* plugins.awaitDrained(newest)
    yield* pollAndSweepAll
    return (yield* store.logRange).newest === newest
  })
  yield* Effect.repeat(react, { until: (isIdle) => isIdle, times: 5 })
})

const recordsRead = Effect.map(Metric.snapshot, (metrics) =>
  metrics.reduce(
    (sum, metric) =>
      metric.id === "rollcall_records_read_total" && metric.type === "Counter" ? sum + Number(metric.state.count) : sum,
    0
  ))

const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

const check = Effect.fnUntraced(function*({ client, sandbox: { world } }: DemoOptions) {
  const store = yield* Store
  const models = yield* CurrentModels
  const fold = new Fold()
  const events = { created: 0, updated: 0, deleted: 0 }
  const lags: Array<number> = []
  const echoes: Array<{ readonly plugin: string; readonly name: string }> = []
  yield* Stream.runForEach(client.allEvents, (event) =>
    Effect.sync(() => {
      fold.add(event)
      events[event.data.kind] += 1
      const { cause, model } = event.data
      if (cause != null) echoes.push({ plugin: cause.plugin, name: model })
      const lag = lagOf(event.data)
      if (lag !== null) lags.push(lag)
    }))
  const rows = yield* store.pendingRows({ limit: 1_000_000 })
  const pending = new Set(rows.map((row) => `${streamName(row)}/${row.id}`))
  const truth = truthOf(world, models)
  const { mutations } = world
  const missing = Object.keys(mutations).filter((kind) => mutations[kind] === 0)
  const excluded = new Set([...pending, ...findUndecided(world, models, fold.records, pending)])
  const differences = [
    ...fold.violations,
    ...findDifferences(fold.records, truth, (stream, id) => excluded.has(`${stream}/${id}`))
  ]
  lags.sort((a, b) => a - b)
  return {
    events,
    echoes: countsOf(echoes),
    detection_seconds: lags.length === 0 ? null : { p50: quantile(lags, 0.5), p95: quantile(lags, 0.95) },
    mutations,
    check: {
      passed: differences.length === 0 && missing.length === 0,
      compared: sizeOf(truth),
      pending: pending.size,
      missing,
      differences: differences.slice(0, 10)
    }
  }
})

/** Runs the demo to its end. Fails if the final check fails. */
export const run = Effect.fn("Demo.run")(function*(options: DemoOptions) {
  const startedAt = yield* Clock.currentTimeMillis
  const capture = yield* Capture
  const capturing = yield* Effect.forkChild(capture.run)
  const watching = Effect.andThen(options.json ? Effect.never : watch(options), Effect.never)
  yield* Effect.raceFirst(Effect.raceFirst(watching, Fiber.join(capturing)), options.until)
  if (!options.json) {
    yield* print("\nFinal check: the world is stopped, and every stream is polled twice and swept …")
  }
  yield* Fiber.interrupt(capturing)
  yield* applyMissingMutations(options.sandbox)
  yield* runUntilIdle
  const summary: Summary = {
    seed: options.seed,
    seconds: ((yield* Clock.currentTimeMillis) - startedAt) / 1000,
    records_read: yield* recordsRead,
    plugins: countsOf(options.writes.map(({ plugin, request }) => ({ plugin, name: request.write }))),
    ...(yield* check(options))
  }
  yield* print(options.json ? JSON.stringify(summary) : summaryText(summary))
  if (summary.check.passed) return
  return yield* refuse(
    "the final check failed: the events do not reproduce the simulated world",
    `this is a bug in Rollcall; please report it with the summary above and seed ${options.seed}`
  )
})
