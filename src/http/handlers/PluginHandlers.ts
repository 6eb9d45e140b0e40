/** Handlers for plugins: their state, switches and replays. Refusals become problem responses. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { PluginAdmin, type PluginRequestError, unknownPlugin } from "../../delivery/admin/PluginAdmin.ts"
import { formatPosition } from "../../domain/ChangeEvent.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { Switch } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { type AttemptCounts, countedStep, countedSteps } from "../../store/Delivery.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import type { AttemptsView, UnconfirmedList } from "../contract/PluginApi.ts"
import { Conflict, type NotFound, ReplayMalformed, toNotFound, toNotFoundOrConflict } from "../contract/Problem.ts"
import { pluginList } from "../status/OverviewCache.ts"

const defaultDryRunLimit = 100
const maxUnconfirmed = 100

const find = Effect.fnUntraced(function*(plugin: string) {
  const { items } = yield* pluginList
  return items.find((view) => view.plugin === plugin) ??
    (yield* unknownPlugin(plugin, items.map(({ plugin }) => plugin)))
})

const toReplayProblem = (refusal: PluginRequestError): Effect.Effect<never, NotFound | Conflict | ReplayMalformed> =>
  refusal.reason === "malformed"
    ? Effect.fail(new ReplayMalformed({ detail: refusal.message, hint: refusal.hint }))
    : toNotFoundOrConflict(refusal)

const setSwitch = (which: Switch, on: boolean) => Effect.flatMap(PluginAdmin, ({ setSwitch }) => setSwitch(which, on))

const switchPlugin = (plugin: string, integration: string | undefined, on: boolean) =>
  setSwitch({ _tag: "Plugin", plugin, integration: integration ?? null }, on).pipe(
    Effect.andThen(find(plugin)),
    Effect.catchTag("PluginRequestError", toNotFoundOrConflict)
  )

const switchWrites = (on: boolean) =>
  setSwitch({ _tag: "Writes" }, on).pipe(
    Effect.andThen(pluginList),
    Effect.catchTag("PluginRequestError", toNotFound)
  )

const tryHandler = Effect.fnUntraced(function*(plugin: string, handler: string) {
  yield* find(plugin)
  const action = {
    at: yield* Clock.currentTimeMillis,
    command: "plugins.try",
    target: plugin,
    detail: handler
  }
  if (!(yield* (yield* Deliveries).tryCircuit({ plugin, handler }, action))) {
    return yield* new Conflict({
      detail: `the circuit of ${plugin} (${handler}) is not open`,
      hint: "its deliveries are tried when they are due; `rollcall plugins show` shows them"
    })
  }
  yield* Effect.annotateLogs(Effect.logInfo("operator acted"), action)
  return yield* find(plugin)
})

const lastFailureOf = (counts: ReadonlyArray<AttemptCounts>): AttemptsView["handlers"][number]["last_failure"] => {
  const failures = counts.flatMap(({ failure }) => failure === null ? [] : [failure])
  const last = failures.toSorted((one, other) => one.at - other.at).at(-1)
  if (last === undefined) return null
  const { at, integration, message, reason, refusal } = last
  return { at: formatTime(at), integration, reason, message, refusal }
}

const attempts = Effect.fnUntraced(function*(plugin: string) {
  const { handlers } = yield* find(plugin)
  const { attemptCounts } = yield* Deliveries
  const now = yield* Clock.currentTimeMillis
  const counts = yield* attemptCounts(plugin, now - countedStep * countedSteps)
  const view: AttemptsView = {
    as_of: formatTime(now),
    step_seconds: countedStep / 1_000,
    handlers: handlers.map(({ handler }) => {
      const own = counts.filter((one) => one.handler === handler)
      return {
        handler,
        steps: own.map(({ at, attempts, failed, settled }) => ({ at: formatTime(at), attempts, failed, settled })),
        last_failure: lastFailureOf(own)
      }
    })
  }
  return view
})

/** L2: writes whose effect was never seen. */
const unconfirmed = Effect.gen(function*() {
  const store = yield* Store
  const found = yield* store.unconfirmedWrites(maxUnconfirmed)
  const items = found.map(({ key, name, reportedAt, ...write }) => ({
    ...write,
    record: key,
    write: name,
    reported_at: formatTime(reportedAt)
  }))
  const list: UnconfirmedList = { items, next: null }
  return list
})

export const layer = HttpApiBuilder.group(Api, "plugins", (handlers) =>
  handlers
    .handle("list", () => pluginList)
    .handle("show", ({ params }) => Effect.catchTag(find(params.plugin), "PluginRequestError", toNotFound))
    .handle("attempts", ({ params }) => Effect.catchTag(attempts(params.plugin), "PluginRequestError", toNotFound))
    .handle("on", ({ params, query }) => switchPlugin(params.plugin, query.integration, true))
    .handle("off", ({ params, query }) => switchPlugin(params.plugin, query.integration, false))
    .handle("try", ({ params: { plugin }, query: { handler } }) =>
      Effect.catchTag(tryHandler(plugin, handler), "PluginRequestError", toNotFound))
    .handle("stop", () =>
      switchWrites(false))
    .handle("unconfirmed", () =>
      unconfirmed)
    .handle("resume", () => switchWrites(true))
    .handle(
      "replay",
      ({ params, payload: { dryRun = false, fresh = false, limit = defaultDryRunLimit, ...range } }) =>
        Effect.gen(function*() {
          const plugins = yield* PluginAdmin
          const { identity } = yield* Store
          const request = { ...params, ...range, fresh }
          const { from, to, deliveries, ranges, ...outcome } = dryRun
            ? { ...(yield* plugins.dryRun({ ...request, limit })), ranges: [] }
            : { ...(yield* plugins.replay(request)), results: [], omitted: 0 }
          return {
            dry_run: dryRun,
            plugin: params.plugin,
            handler: range.handler,
            deliveries,
            ranges,
            from: formatPosition(identity, from),
            to: formatPosition(identity, to),
            results: outcome.results.map((one) => ({ ...one, position: formatPosition(identity, one.position) })),
            omitted: outcome.omitted
          }
        }).pipe(Effect.catchTag("PluginRequestError", toReplayProblem))
    ))
