/** The steps of docs/operating.md for a plugin that must not repeat itself after its store was restored from a backup. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as StoreAdoption from "../../../src/capture/rewrite/StoreAdoption.ts"
import { PluginAdmin } from "../../../src/delivery/admin/PluginAdmin.ts"
import * as PluginAdminLayer from "../../../src/delivery/admin/PluginAdminLayer.ts"
import { DeliveryEngine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import type { Source } from "../../../src/source/Source.ts"
import type { Deliveries } from "../../../src/store/Deliveries.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import { acme, startProcess } from "../../support/capture/Capturing.ts"
import { start } from "../../support/capture/Rig.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"

const stream = { integration: acme.id, model: "ats.tag" } as const

/** In steps, because a fiber that yields to others for a moment does not stop the clock. */
const pass = (minutes: number) => Effect.repeat(TestClock.adjust("10 seconds"), { times: minutes * 6 - 1 })

/** A process with this plugin. It ends with its scope. */
const begin = Effect.fnUntraced(function*(plugin: Plugin.Plugin<unknown>) {
  const store = yield* Store
  const { capture } = yield* startProcess({ declared: [acme] })
  const built = yield* Layer.build(
    Layer.fresh(
      PluginAdminLayer.layer([plugin]).pipe(
        Layer.provideMerge(
          DeliveryEngine.layer({ plugins: [plugin], retention: Duration.days(7), integrationsReady: Effect.void }).pipe(
            Layer.provide(Placement.local)
          )
        ),
        Layer.provide(Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.never)))
      )
    )
  )
  const delivery = Context.get(built, DeliveryEngine)
  return {
    plugins: Context.get(built, PluginAdmin),
    /** `rollcall streams sweep --wait` */
    sweep: capture.sweep(stream),
    /** Until `rollcall plugins list` shows no lag. */
    drained: Effect.flatMap(store.logRange, ({ newest }) => delivery.awaitDrained(newest)),
    pending: Effect.map(store.pendingRows({ limit: 10 }), (rows) => rows.map(({ id, status }) => `${id} ${status}`))
  }
})

describe("a store restored from a backup", () => {
  it.effect("makes a plugin that is off until the losses are read repeat nothing, and act on later and on replayed events", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "rollcall-restored-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const [file, backup] = [join(folder, "rollcall.db"), join(folder, "backup.db")]
      const api = Scripted.make()
      const put = (id: string) =>
        Effect.map(
          Clock.currentTimeMillis,
          (now) => api.put(now, { id, name: "1", remote_created_at: new Date(now).toISOString() })
        )
      const opened = <A, E>(use: Effect.Effect<A, E, Store | Deliveries | Source | Scope.Scope>) =>
        Effect.scoped(use).pipe(Effect.provide(Layer.fresh(Layer.merge(Sqlite.layer({ file }), Scripted.layer(api)))))
      const mails: Array<string> = []
      const mail = (what: string) => ({ recordId }: { readonly recordId: string }) =>
        Effect.sync(() => void mails.push(`${recordId} ${what}`))
      const plugin = Plugin.make("mail")
        .on("ats.tag.created", {}, mail("created"))
        .on("ats.tag.deleted", {}, mail("deleted"))

      yield* TestClock.setTime(start)
      yield* Effect.forEach(["a", "b", "c"], put)
      yield* opened(Effect.flatMap(begin(plugin), ({ drained }) => Effect.andThen(pass(2), drained)))
      copyFileSync(file, backup)
      yield* opened(Effect.gen(function*() {
        const { drained, sweep } = yield* begin(plugin)
        yield* put("lost")
        api.vanish("a")
        yield* sweep
        yield* pass(15)
        yield* drained
      }))
      const before = ["lost created", "a deleted"]
      assert.deepStrictEqual(mails, before)
      copyFileSync(backup, file)
      yield* opened(Effect.flatMap(StoreAdoption.plan(0), (plan) => StoreAdoption.adopt(plan, () => null)))

      // 1. it is off in the configuration
      const restartedAt = yield* opened(Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const { drained, pending, sweep } = yield* begin(plugin.with({ others: false }))
        // 2. its streams are swept, nothing is pending, and it has no lag
        yield* sweep
        assert.deepStrictEqual(yield* pending, ["a absent"])
        yield* Effect.repeat(Effect.andThen(pass(1), pending), { until: (rows) => rows.length === 0 })
        yield* drained
        return now
      }))
      // 4. it is on again
      yield* opened(Effect.gen(function*() {
        const { drained, plugins } = yield* begin(plugin)
        yield* put("later")
        yield* pass(15)
        yield* drained
        assert.deepStrictEqual(mails, [...before, "later created"])
        const missed = yield* Effect.forEach(plugin.handlers, ({ name }) =>
          plugins.dryRun({
            plugin: "mail",
            handler: name,
            from: new Date(restartedAt).toISOString(),
            fresh: false,
            limit: 10
          }))
        assert.deepStrictEqual(missed.flatMap(({ results }) => results.flatMap(({ records }) => records)), [
          "ats.tag/lost",
          "ats.tag/later",
          "ats.tag/a"
        ])
      }))
    }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None")))
})
