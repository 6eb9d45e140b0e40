/**
 * Two lists of the API, of applications and of offers that repeat their candidates, a store in a real file, and processes that read the
 * lists and forget records.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { existsSync, readFileSync } from "node:fs"
import { Forgetting, type ForgettingRefused, layer } from "../../../src/capture/forget/Forgetting.ts"
import { Capture, layer as captureLayer } from "../../../src/capture/schedule/Capture.ts"
import * as Integrations from "../../../src/capture/schedule/Integrations.ts"
import { builtInModels, CurrentModels } from "../../../src/domain/BuiltInModels.ts"
import type { ForgettableRecord } from "../../../src/domain/Forgotten.ts"
import * as Guard from "../../../src/domain/Guard.ts"
import { isModel, type Model } from "../../../src/domain/Model.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import { Source } from "../../../src/source/Source.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store, type StoreError } from "../../../src/store/Store.ts"
import { storeFile } from "../TemporaryFolder.ts"
import { type Body, run, start } from "./Rig.ts"
import * as Scripted from "./ScriptedApi.ts"

export const integration = "greenhouse:acme"
const models = ["ats.application", "ats.candidate", "ats.offer"] as const
export const ann: ForgettableRecord = { integration, model: "ats.candidate", id: "c-ann" }

/** The processes of one test, with the lists that they read. */
export interface World {
  readonly applications: Scripted.ScriptedApi
  readonly offers: Scripted.ScriptedApi
  /** Number of times that this text is in the bytes of the store's files. */
  readonly inFiles: (text: string) => number
  /** The database. */
  readonly file: string
}

export const candidate = (name: string, at: number) => ({
  id: `c-${name}`,
  first_name: name,
  email_addresses: [{ email_address: `${name}@people.example`, type: null }],
  tags: [],
  remote_deleted_at: null,
  changed_at: new Date(at).toISOString()
})

export const apply = ({ applications }: World, id: string, name: string, at: number, details: object = {}) =>
  applications.put(at, {
    id,
    outcome: "PENDING",
    candidate_id: `c-${name}`,
    candidate: candidate(name, at),
    ...details
  })

export const offer = ({ offers }: World, id: string, name: string, at: number) =>
  offers.put(at, {
    id,
    status: "SENT",
    application_id: `a-${name}`,
    application: { candidate: candidate(name, at), job: { id: "j", name: "Cook" } }
  })

/** Thresholds that nothing exceeds. */
const nothingHeld = {
  ...Guard.defaultThresholds,
  smallCount: 1000,
  count: 1000,
  share: 1,
  smallShare: 1,
  scopeCount: 1000
}

/** Starts a process that reads these models, and knows `known`. */
export const startReading = Effect.fnUntraced(function*(
  models: ReadonlyArray<Model>,
  known = builtInModels,
  processing = (model: Model) =>
    isModel(known, model) ? Processing.defaultProcessing(model, known) : Processing.unchanging(model, known)
) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const services = Layer.mergeAll(
    Layer.succeed(Store, yield* Store),
    Layer.succeed(Deliveries, yield* Deliveries),
    Layer.succeed(Source, yield* Source)
  )
  const settings = {
    id: integration,
    account: "default",
    models,
    interval: Duration.minutes(1),
    sweepInterval: Duration.hours(6),
    backfill: "publish"
  } as const
  const context = yield* layer({ processing }).pipe(
    Layer.provideMerge(Integrations.layer({ declared: [settings], discovered: new Map(), processing, readers: [] })),
    Layer.provideMerge(
      captureLayer({
        minOverlap: Duration.minutes(5),
        confirmInterval: Duration.minutes(10),
        guard: nothingHeld,
        processingOf: ({ model }) => isModel(known, model) ? processing(model) : null
      })
    ),
    Layer.provide(services),
    Layer.fresh,
    (one) => Effect.provideService(Layer.buildWithScope(one, scope), CurrentModels, known)
  )
  const capture = Context.get(context, Capture)
  yield* Effect.forkIn(Effect.provideService(capture.run, CurrentModels, known), scope)
  // in steps, because a fiber that yields to others for a moment does not stop the clock
  yield* Effect.repeat(TestClock.adjust("10 seconds"), { times: 11 })
  return { ...Context.get(context, Forgetting), capture, stop: Scope.close(scope, Exit.void) }
})
export const startProcess = startReading(models)

export const scenario = <A>(
  test: (world: World) => Body<A, Store | Deliveries | Source | Scope.Scope>,
  /** More lists of the API. */
  lists: Readonly<Partial<Record<Model, Scripted.ScriptedApi>>> = {}
): Effect.Effect<A, unknown> => {
  const [applications, offers] = [Scripted.make(), Scripted.make()]
  return Effect.gen(function*() {
    const file = yield* storeFile
    const inFiles = (text: string) =>
      ["", "-wal"].map((suffix) => file + suffix).filter((path) => existsSync(path))
        .reduce((sum, path) => sum + readFileSync(path, "latin1").split(text).length - 1, 0)
    const world: World = { applications, offers, inFiles, file }
    yield* TestClock.setTime(start)
    for (const name of ["ann", "bob"]) {
      apply(world, `a-${name}`, name, start)
      offer(world, `o-${name}`, name, start)
    }
    const api = Scripted.layerOf({ "ats.application": applications, "ats.offer": offers, ...lists })
    return yield* Effect.provide(run(test(world)), Layer.merge(api, Sqlite.layer({ file })))
  }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None"))
}

export const entries = Effect.flatMap(Store, (store) => store.readLog({ after: 0, limit: 10_000 }))
export const contentOf = (model: Model, id: string) =>
  Effect.flatMap(Store, (store) =>
    Effect.map(store.records({ integration, model }, null, 100), ({ records }) => {
      const found = records.find((record) => record.id === id)
      return found === undefined ? null : JSON.parse(found.content)
    }))
export const later = (minutes: number) => start + minutes * 60_000
export const reasonOf = <A>(effect: Effect.Effect<A, ForgettingRefused | StoreError>) =>
  Effect.map(Effect.flip(effect), (error) => error._tag === "ForgettingRefused" ? error.reason : error.message)

/** Plans, confirms the plan, and waits until nothing is left. */
export const forgetNow = Effect.fnUntraced(
  function*({ forget, plan }: Pick<Forgetting["Service"], "plan" | "forget">, record: ForgettableRecord) {
    const { hash } = yield* plan(record)
    return yield* forget(record, hash)
  }
)
