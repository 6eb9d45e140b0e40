/**
 * Which integrations are read: those that configuration declares, and those that operators add and remove while we run.
 * Hides how one comes and goes, and how what is to be erased is first published and then taken away, over restarts too.
 *
 * Invariants
 * 1. The store is the truth: what was answered to an operator is so after a restart
 * 2. Of an integration that was erased nothing is left before its next generation begins: (generation, version) is the order of
 *    a record's events for everybody   (X19)
 *
 * Gotchas
 * - Declaring an integration that is being erased waits: it begins anew once the erasure is done.
 * - One whose account is no longer configured stays, and its streams show as blocked.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { derivedFrom, isStreamModel, type Model } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { Source } from "../../source/Source.ts"
import type { IntegrationState, OperatorAction } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { Capture } from "./Capture.ts"
import { discoverModels } from "./ModelDiscovery.ts"
import type { StreamSettings } from "./StreamLifecycle.ts"

/** What configuration or an operator says of one integration. */
export interface IntegrationSettings extends Pick<IntegrationState, "id" | "account" | "models" | "backfill"> {
  /** Between two polls of a stream. */
  readonly interval: Duration.Duration
  readonly sweepInterval: Duration.Duration
}

export interface IntegrationsOptions {
  readonly declared: ReadonlyArray<IntegrationSettings>
  /** Models of the declared ones that are `auto`, as far as they are already known. */
  readonly discovered: ReadonlyMap<string, ReadonlyArray<Model>>
  /** What is done to the records of a model. */
  readonly processing: (model: Model) => Processing
  /** Readers of the log that must have an integration's events before these are erased. */
  readonly readers: ReadonlyArray<string>
}

/** What becomes of the records of an integration that is removed. */
export type DataPolicy = "keep" | "erase"

const refusals = {
  present: ["is there already", "remove it first to add it with other settings"],
  declared: [
    "is declared in the configuration",
    "change it there, or take it out of there, and restart; its records are kept"
  ],
  unknown: ["is not there", "`rollcall integrations list` shows those that are"],
  erasing: ["is being erased", "wait until it is gone; its events must first be where they are published to"]
} as const

/** Nothing was changed. */
export class IntegrationRefused extends Schema.TaggedError<IntegrationRefused>()("IntegrationRefused", {
  id: Schema.String,
  reason: Schema.Literals(["present", "declared", "unknown", "erasing"])
}) {
  override get message(): string {
    return `${this.id} ${refusals[this.reason][0]}`
  }
  get hint(): string {
    return refusals[this.reason][1]
  }
}

type Refusable = Effect.Effect<IntegrationState, IntegrationRefused | StoreError>

export class Integrations extends Context.Service<Integrations, {
  /** Its streams are being read once this returns. One that was removed and kept goes on where it stood. */
  readonly add: (integration: IntegrationSettings) => Refusable
  /** Nothing more is read of it once this returns; erasing goes on in the background. */
  readonly remove: (id: string, data: DataPolicy) => Refusable
}>()("rollcall/capture/Integrations") {}

const readerCheckInterval = "1 second"
const patience = "2 seconds"

const stateOf = (
  { interval, sweepInterval, ...settings }: IntegrationSettings,
  before: IntegrationState | undefined,
  declared: boolean
): IntegrationState => ({
  ...settings,
  interval: Duration.toMillis(interval),
  sweepInterval: Duration.toMillis(sweepInterval),
  declared,
  generation: before?.generation ?? 1,
  state: before?.state === "erasing" ? "erasing" : "active"
})

const make = Effect.fnUntraced(function*(options: IntegrationsOptions) {
  const store = yield* Store
  const capture = yield* Capture
  const source = yield* Source
  const scope = yield* Effect.scope
  const lock = yield* Semaphore.make(1)

  const find = (id: string) => Effect.map(store.integrations, (all) => all.find((integration) => integration.id === id))

  const save = (integration: IntegrationState, action: OperatorAction | null = null) =>
    store.saveIntegration(capture.owner, integration, action)

  const operatorAction = (command: string, target: string, detail: string): Effect.Effect<OperatorAction> =>
    Effect.map(Clock.currentTimeMillis, (at) => ({ at, command, target, detail }))

  // ---- reading

  const discoveredModels = new Map(options.discovered)
  const discoverNew = (integrations: ReadonlyArray<Pick<IntegrationState, "id" | "account" | "models">>) =>
    discoverModels(integrations.filter(({ id, models }) => models === "auto" && !discoveredModels.has(id))).pipe(
      Effect.provideService(Source, source),
      Effect.map((found) => found.forEach((models, id) => discoveredModels.set(id, models)))
    )

  const streamsOf = ({ account, backfill, id, interval, generation, models, sweepInterval }: IntegrationState) => {
    const all = models === "auto" ? discoveredModels.get(id) ?? [] : models
    return all.filter(isStreamModel).map((model): StreamSettings => {
      const derived = derivedFrom(model, all)
      return {
        integration: id,
        model,
        account,
        interval: Duration.millis(interval),
        sweepInterval: Duration.millis(sweepInterval),
        backfill,
        generation,
        processing: options.processing(model),
        ...derived === undefined ? {} : { derivedProcessing: options.processing(derived) }
      }
    })
  }

  const startReading = (integration: IntegrationState) => capture.assign(integration.id, streamsOf(integration))
  const stopReading = (id: string) => capture.assign(id, [])

  // ---- erasing

  /** Until every reader has what the log holds now. */
  const awaitReaders = Effect.gen(function*() {
    const { newest } = yield* store.logRange
    const behind = Effect.map(
      Effect.forEach(options.readers, store.readerPosition),
      (positions) => positions.some((position) => position < newest)
    )
    while (yield* behind) yield* Effect.sleep(readerCheckInterval)
  })

  const finishErasing = Effect.fnUntraced(function*(id: string) {
    const erased = yield* find(id)
    if (erased === undefined) return
    yield* Effect.annotateLogs(Effect.logInfo("integration erased"), { integration: id })
    if (!erased.declared) return yield* save({ ...erased, state: "erased" })
    const anew: IntegrationState = { ...erased, state: "active" }
    yield* save(anew)
    yield* discoverNew([anew])
    yield* startReading(anew)
  })

  const erase = Effect.fnUntraced(function*(id: string) {
    yield* awaitReaders
    const own = (yield* store.streams).filter(({ integration }) => integration === id)
    yield* Effect.forEach(own, (key) => store.eraseStream(capture.owner, key), { discard: true })
    yield* lock.withPermit(finishErasing(id))
  })

  /** Who took the store over goes on with it: see `layer`. */
  const eraseInBackground = (id: string) =>
    erase(id).pipe(
      Effect.retry({ while: (error) => error.reason.retryable, schedule: Schedule.spaced(patience) }),
      Effect.catch((error) =>
        Effect.annotateLogs(Effect.logError("integration not erased"), { integration: id, why: error.message })
      ),
      Effect.forkIn(scope)
    )

  // ---- coming and going

  const add = Effect.fnUntraced(function*(settings: IntegrationSettings) {
    const before = yield* find(settings.id)
    const refuse = (reason: IntegrationRefused["reason"]) => new IntegrationRefused({ id: settings.id, reason })
    if (before?.state === "active") return yield* refuse(before.declared ? "declared" : "present")
    if (before?.state === "erasing") return yield* refuse("erasing")
    yield* discoverNew([settings])
    const after = stateOf(settings, before, false)
    const models = after.models === "auto" ? "auto" : after.models.join(" ")
    const detail =
      `account ${after.account}, models ${models}, backfill ${after.backfill}, generation ${after.generation}`
    const action = yield* operatorAction("integrations.add", after.id, detail)
    yield* save(after, action).pipe(Effect.andThen(startReading(after)), Effect.uninterruptible)
    yield* Effect.annotateLogs(Effect.logInfo("integration added"), { integration: after.id, detail })
    return after
  })

  const remove = Effect.fnUntraced(function*(id: string, data: DataPolicy) {
    const before = yield* find(id)
    const refuse = (reason: IntegrationRefused["reason"]) => new IntegrationRefused({ id, reason })
    if (before === undefined || before.state === "erased") return yield* refuse("unknown")
    if (before.declared) return yield* refuse("declared")
    if (before.state === "erasing") return data === "erase" ? before : yield* refuse("erasing")
    if (before.state === "removed" && data === "keep") return before
    const after: IntegrationState = data === "keep"
      ? { ...before, state: "removed" }
      : { ...before, state: "erasing", generation: Math.max(before.generation, store.identity.generation) + 1 }
    const action = yield* operatorAction("integrations.remove", id, `data ${data}`)
    discoveredModels.delete(id)
    yield* save(after, action).pipe(
      Effect.andThen(stopReading(id)),
      Effect.andThen(data === "erase" ? eraseInBackground(id) : Effect.void),
      Effect.uninterruptible
    )
    yield* Effect.annotateLogs(Effect.logInfo("integration removed"), { integration: id, data })
    return after
  })

  // ---- what was there before

  const before = new Map((yield* store.integrations).map((integration) => [integration.id, integration]))
  const stored = new Map(before)
  const declared = new Set(options.declared.map(({ id }) => id))
  for (const settings of options.declared) {
    stored.set(settings.id, stateOf(settings, before.get(settings.id), true))
  }
  for (const [id, integration] of before) {
    if (!integration.declared || declared.has(id)) continue
    const state = integration.state === "active" ? "removed" : integration.state
    stored.set(id, { ...integration, declared: false, state })
  }
  const active = [...stored.values()].filter(({ state }) => state === "active")
  yield* discoverNew(active)
  const changed = [...stored.values()].filter((integration) => before.get(integration.id) !== integration)
  yield* Effect.forEach(changed, (integration) => save(integration), { discard: true })
  const others = (yield* store.streams).filter(({ integration }) => stored.get(integration)?.state !== "active")
  yield* Effect.forEach(new Set(others.map(({ integration }) => integration)), stopReading, { discard: true })
  yield* Effect.forEach(active, startReading, { discard: true })
  for (const { id, state } of stored.values()) if (state === "erasing") yield* eraseInBackground(id)

  return Integrations.of({
    add: (settings) => lock.withPermit(add(settings)),
    remove: (id, data) => lock.withPermit(remove(id, data))
  })
})

/** Assigns capture what is to be read, as store and configuration say, and goes on erasing what was to be erased. */
export const layer = (
  options: IntegrationsOptions
): Layer.Layer<Integrations, StoreError, Capture | Source | Store> => Layer.effect(Integrations, make(options))
