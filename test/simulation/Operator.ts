/** The actions of an operator in a world: decisions about holds, the adoption of the store, and replays of deliveries. */
import * as Effect from "effect/Effect"
import * as StoreAdoption from "../../src/capture/rewrite/StoreAdoption.ts"
import { replay } from "../../src/delivery/admin/Replay.ts"
import { batchWindowOf } from "../../src/delivery/handler/Subscription.ts"
import { formatPosition } from "../../src/domain/ChangeEvent.ts"
import { defaultProcessing } from "../../src/domain/Processing.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import type { Hold } from "../../src/store/Records.ts"
import { Store } from "../../src/store/Store.ts"
import type { Replay } from "./plan/Plan.ts"
import { plugins, replayed } from "./service/Plugins.ts"
import { modelsOf } from "./world/DefinedModels.ts"
import type { WorldRun } from "./WorldRun.ts"

/** An operator decides about all holds; returns whether there was one. */
export const decide = (
  run: WorldRun,
  states: ReadonlyArray<Hold["state"]>,
  decision: "approving" | "rejected"
): boolean => {
  const { oracle, store, time } = run
  const holds = time.run(store.store.holds({ states, limit: 1_000 }), Infinity) ?? []
  const decided = decision === "rejected"
    ? { state: decision }
    : { state: decision, release: { origin: null, silent: false } }
  for (const { id } of holds) {
    if (decision === "approving" && run.failover !== null) run.failover.approved.push(id)
    else if (decision === "approving") oracle.approve(id)
    time.run(run.current.within(store.store.decide(id, decided, time.now)), time.now + 1_000)
  }
  return holds.length > 0
}

/** An operator adopts the store as it is. */
export const adopt = (run: WorldRun): void => {
  const { oracle, sink, store, time } = run
  run.keepCopy()
  run.killAll()
  const adoption = Effect.flatMap(
    StoreAdoption.plan(sink.generation),
    (plan) => StoreAdoption.adopt(plan, ({ model }) => defaultProcessing(model, modelsOf(run.plan.setting)))
  )
  time.run(run.current.within(Effect.provideService(adoption, Store, store.store)), Infinity)
  store.reopen()
  const range = time.run(store.store.logRange, Infinity)
  oracle.adopted(run.wholeLog, range?.newest ?? 0, sink.entries)
}

/** An operator replays a range of the log to the batch handler. */
export const replayDeliveries = (run: WorldRun, { from, to }: Replay): void => {
  const plugin = plugins.find(({ name }) => name === replayed.plugin)
  const handler = plugin?.handlers.find(({ name }) => name === replayed.handler)
  if (plugin === undefined || handler === undefined) {
    throw new Error("the plugin or handler for replays does not exist")
  }
  const { deliveries, store } = run.store
  const replaying = Effect.gen(function*() {
    const state = (yield* deliveries.handlers).find((one) => one.plugin === plugin.name)
    const { newest } = yield* store.logRange
    if (state === undefined || newest === 0) return
    const positionAt = (part: number) => formatPosition(store.identity, Math.max(1, Math.round(part * newest)))
    const range = { ...replayed, from: positionAt(from), to: positionAt(to), fresh: false }
    const integrations = [...new Set(run.plan.setting.streams.map(({ integration }) => integration))]
    const subscription = { key: state.key, plugin, handler, batchWindow: batchWindowOf(handler) }
    const { deliveries: count } = yield* replay(subscription, range, integrations)
    run.trace(`an operator replays ${count} deliveries`)
  }).pipe(Effect.provideService(Store, store), Effect.provideService(Deliveries, deliveries), Effect.ignore)
  run.time.run(run.current.within(replaying), Infinity)
}
