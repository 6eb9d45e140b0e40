/** Plugins over HTTP: how they are, their switches and replays. What is refused becomes a problem. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { type PluginRefused, Plugins, type PluginsView, unknownPlugin } from "../delivery/Plugins.ts"
import { formatPosition } from "../domain/ChangeEvent.ts"
import type { Switch } from "../store/Deliveries.ts"
import { Store, type StoreError } from "../store/Store.ts"
import { Api } from "./Api.ts"
import * as Feed from "./Feed.ts"
import type { PluginList, PluginView } from "./PluginApi.ts"
import { NotFound, NotNow, ReplayMalformed } from "./Problem.ts"

const mostRehearsed = 100
const instant = (millis: number): string => new Date(millis).toISOString()

const listOf = Effect.fnUntraced(function*({ plugins, reason, state, writesStopped }: PluginsView) {
  const { identity } = yield* Store
  const items = plugins.map(({ handlers, ...plugin }): PluginView => ({
    ...plugin,
    handlers: handlers.map(({ lag, oldest, position, resting, ...handler }) => ({
      ...handler,
      position: position === null ? null : formatPosition(identity, position),
      lag_events: lag,
      oldest_at: oldest === null ? null : instant(oldest),
      resting: resting && { until: instant(resting.until), failures: resting.failures }
    }))
  }))
  const list: PluginList = {
    items,
    next: null,
    writes: writesStopped ? "stopped" : "on",
    delivering: { state, reason: reason && `${reason.message}; ${reason.hint}` }
  }
  return list
})

/** Every plugin, as `GET /v1/plugins` lists them. */
export const list = Effect.gen(function*() {
  const { view } = yield* Plugins
  return yield* Effect.flatMap(view, listOf)
})

const find = Effect.fnUntraced(function*(plugin: string) {
  const { items } = yield* list
  return items.find((view) => view.plugin === plugin) ??
    (yield* unknownPlugin(plugin, items.map(({ plugin }) => plugin)))
})

const missing = ({ hint, message }: PluginRefused) => new NotFound({ detail: `${message}: ${hint}` })
const orAway = (error: StoreError) => Feed.orStoreAway(error)

const refused = (refusal: PluginRefused): Effect.Effect<never, NotFound | NotNow> =>
  Effect.fail(
    refusal.reason === "now" ? new NotNow({ detail: refusal.message, hint: refusal.hint }) : missing(refusal)
  )

const replayRefused = (refusal: PluginRefused): Effect.Effect<never, NotFound | NotNow | ReplayMalformed> =>
  refusal.reason === "malformed"
    ? Effect.fail(new ReplayMalformed({ detail: refusal.message, hint: refusal.hint }))
    : refused(refusal)

const switched = (which: Switch, on: boolean) => Effect.flatMap(Plugins, ({ set }) => set(which, on))

const plugin = (plugin: string, integration: string | undefined, on: boolean) =>
  switched({ _tag: "Plugin", plugin, integration: integration ?? null }, on).pipe(
    Effect.andThen(find(plugin)),
    Effect.catchTags({ PluginRefused: refused, StoreError: orAway })
  )

const writes = (on: boolean) =>
  switched({ _tag: "Writes" }, on).pipe(
    Effect.andThen(list),
    Effect.catchTags({ PluginRefused: (refusal) => Effect.fail(missing(refusal)), StoreError: orAway })
  )

export const layer = HttpApiBuilder.group(Api, "plugins", (handlers) =>
  handlers
    .handle("list", () => Effect.catchTag(list, "StoreError", orAway))
    .handle("show", ({ params }) =>
      Effect.catchTags(find(params.plugin), {
        PluginRefused: (refusal) => Effect.fail(missing(refusal)),
        StoreError: orAway
      }))
    .handle("on", ({ params, query }) => plugin(params.plugin, query.integration, true))
    .handle("off", ({ params, query }) => plugin(params.plugin, query.integration, false))
    .handle("stop", () => writes(false))
    .handle("resume", () => writes(true))
    .handle("replay", ({ params, payload: { dryRun = false, fresh = false, limit = mostRehearsed, ...stretch } }) =>
      Effect.gen(function*() {
        const plugins = yield* Plugins
        const { identity } = yield* Store
        const asked = { ...params, ...stretch, fresh }
        const { from, to, deliveries, ...found } = dryRun
          ? yield* plugins.dryRun({ ...asked, limit })
          : { ...(yield* plugins.replay(asked)), rehearsed: [], left: 0 }
        return {
          dry_run: dryRun,
          plugin: params.plugin,
          handler: stretch.handler,
          deliveries,
          from: formatPosition(identity, from),
          to: formatPosition(identity, to),
          rehearsed: found.rehearsed.map((one) => ({ ...one, position: formatPosition(identity, one.position) })),
          left: found.left
        }
      }).pipe(Effect.catchTags({ PluginRefused: replayRefused, StoreError: orAway }))))
