/**
 * Manages the integrations that are read: those declared in the configuration, and those that operators add and remove at run
 * time. A removed integration can be erased: its events are first published and then deleted, even if the process restarts in between.
 *
 * Invariants
 * 1. The store has the authoritative list, so a confirmed command is still in effect after a restart
 * 2. All records of an erased integration are deleted before its next generation starts, because (generation, version) orders a
 *    record's events for every reader   (X19)
 *
 * Gotchas
 * - If an integration that is being erased is declared again, it starts with a new backfill once the erasure is complete.
 * - An integration whose account is no longer configured is kept, and its streams are blocked.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { derivedFrom, isModel, type Model, streamName } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import type { Source } from "../../source/Source.ts"
import type { OperatorAction } from "../../store/Operators.ts"
import { retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import type { IntegrationState } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import type { StreamSettings } from "../StreamLifecycle.ts"
import { Capture } from "./Capture.ts"
import * as DiscoveredModels from "./DiscoveredModels.ts"
import * as IntegrationErasure from "./IntegrationErasure.ts"
import { type Discovered, listed, missingCategories } from "./ModelDiscovery.ts"

/** Settings of one integration, from the configuration or from an operator. */
export interface IntegrationSettings extends Pick<IntegrationState, "id" | "account" | "models" | "backfill"> {
  /** Time between two polls of a stream. */
  readonly interval: Duration.Duration
  /** Time between two sweeps of a stream. */
  readonly sweepInterval: Duration.Duration
}

export interface IntegrationsOptions {
  readonly declared: ReadonlyArray<IntegrationSettings>
  /** The discovered models of declared integrations with `models: auto`. */
  readonly discovered: ReadonlyMap<string, Discovered>
  /** Processing of a model's records. */
  readonly processing: (model: Model) => Processing
  /** Readers of the event log that must have read an integration's events before they are erased. */
  readonly readers: ReadonlyArray<string>
}

/** Whether the records of a removed integration are kept or erased. */
export type DataPolicy = "keep" | "erase"

const refusals = {
  present: ["already exists", "to change its settings, remove it first and add it again"],
  declared: [
    "is declared in the configuration",
    "change or remove it in the configuration and restart; its records are kept"
  ],
  unknown: ["does not exist", "run `rollcall integrations list` to see all integrations"],
  erasing: ["is being erased", "wait until the erasure is complete; its events must be published first"],
  undefined: [
    "has a model that the process which would read it does not know",
    "define the list in the configuration of every process, and restart the process that lacks it"
  ]
} as const

/** The command was refused; nothing was changed. */
export class IntegrationRefused extends Schema.TaggedError<IntegrationRefused>()("IntegrationRefused", {
  id: Schema.String,
  reason: Schema.Literals(["present", "declared", "unknown", "erasing", "undefined"])
}) {
  override get message(): string {
    return `${this.id} ${refusals[this.reason][0]}`
  }
  get hint(): string {
    return refusals[this.reason][1]
  }
}

const refuse = (id: string, reason: IntegrationRefused["reason"]) => new IntegrationRefused({ id, reason })

const stateOf = (
  { account, backfill, id, interval, models, sweepInterval }: IntegrationSettings,
  before: IntegrationState | undefined,
  declared: boolean
): IntegrationState => ({
  id,
  account,
  models,
  backfill,
  interval: Duration.toMillis(interval),
  sweepInterval: Duration.toMillis(sweepInterval),
  declared,
  generation: before?.generation ?? 1,
  state: before?.state === "erasing" ? "erasing" : "active"
})

const make = Effect.fnUntraced(function*(options: IntegrationsOptions) {
  const store = yield* Store
  const capture = yield* Capture
  const discovered = yield* DiscoveredModels.make(options.discovered)
  const lock = yield* Semaphore.make(1)
  const known = yield* CurrentModels

  const save = (integration: IntegrationState, action: OperatorAction | null = null) =>
    store.saveIntegration(capture.ownerOf(integration.id), integration, action)

  const operatorAction = (command: string, target: string, detail: string): Effect.Effect<OperatorAction> =>
    Effect.map(Clock.currentTimeMillis, (at) => ({ at, command, target, detail }))

  // ---- reading

  const streamsOf = ({ account, backfill, id, interval, generation, models, sweepInterval }: IntegrationState) => {
    const all = models === "auto" ? discovered.modelsOf(id) : models
    return all.filter((model) => known.listOf(model) !== undefined).map((model): StreamSettings => {
      const derived = derivedFrom(known, model, all)
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

  const startReading = (integrations: ReadonlyArray<IntegrationState>) =>
    capture.assign(new Map(integrations.map((integration) => [integration.id, streamsOf(integration)])))
  const stopReading = (ids: Iterable<string>) => capture.assign(new Map([...ids].map((id) => [id, []])))

  /**
   * Retires the streams of these integrations whose models the tools do not offer, and returns them. If this process has lost their shard,
   * its next owner does that with its own catalog.
   */
  const retireUnoffered = Effect.fnUntraced(function*(ids: ReadonlyMap<string, Discovered>) {
    const read = new Set(
      (yield* store.integrations).flatMap(({ id, models }) =>
        ids.has(id) && models === "auto" && capture.owns(id) ? [id] : []
      )
    )
    const unoffered = (yield* store.streams).filter(({ integration, model, retired }) =>
      retired !== true && read.has(integration) && !discovered.modelsOf(integration).includes(model)
    )
    return yield* Effect.filter(unoffered, (key) =>
      capture.retire(key).pipe(
        Effect.as(true),
        Effect.catch((error) => error.reason._tag === "Fenced" ? Effect.succeed(false) : Effect.fail(error))
      ))
  })

  const applyCatalog = Effect.fnUntraced(
    function*(found: ReadonlyMap<string, Discovered>) {
      const retired = yield* retryWhileStoreUnavailable(lock.withPermit(retireUnoffered(found)))
      const missing = new Set([...found.values()].flatMap(missingCategories))
      yield* Effect.annotateLogs(Effect.logInfo("tool catalog available"), {
        account: [...new Set([...found.values()].map(({ account }) => account))].join(", "),
        retired: retired.length === 0 ? "no stream" : listed(retired.map(streamName)),
        ...(missing.size === 0 ? {} : { missing: [...missing].join(", ") })
      })
    },
    Effect.catch(({ message }) =>
      Effect.annotateLogs(Effect.logError("models that the tools do not offer are read until the next start"), {
        why: message
      })
    )
  )

  // ---- erasing

  const finishErasing = Effect.fnUntraced(function*(id: string) {
    const erased = yield* store.integration(id)
    if (erased === null) return
    yield* Effect.annotateLogs(Effect.logInfo("integration erased"), { integration: id })
    if (!erased.declared) return yield* save({ ...erased, state: "erased" })
    const active: IntegrationState = { ...erased, state: "active" }
    yield* save(active)
    yield* discovered.discover([active])
    yield* startReading([active])
  })

  const eraseInBackground = IntegrationErasure.make(store, capture, {
    readers: options.readers,
    finish: (id) => lock.withPermit(finishErasing(id))
  })

  // ---- taking over

  const declared = new Map(options.declared.map((settings) => [settings.id, settings]))

  const isDeclaredNoLonger = (integration: IntegrationState) => integration.declared && !declared.has(integration.id)

  /** The integrations from now on: those in the store, with the changes that the configuration declares. */
  const combined = (before: ReadonlyMap<string, IntegrationState>): ReadonlyArray<IntegrationState> => {
    const stored = [...before.values()].map((integration): IntegrationState =>
      isDeclaredNoLonger(integration)
        ? { ...integration, declared: false, state: integration.state === "active" ? "removed" : integration.state }
        : integration
    )
    const current = [...declared.values()].map((settings) => stateOf(settings, before.get(settings.id), true))
    return [...new Map([...stored, ...current].map((integration) => [integration.id, integration])).values()]
  }

  const resume = Effect.fnUntraced(function*(isTaken: (integration: string) => boolean) {
    const before = new Map((yield* store.integrations).map((integration) => [integration.id, integration]))
    const taken = combined(before).filter(({ id }) => isTaken(id))
    const active = taken.filter(({ state }) => state === "active")
    const read = new Set(active.map(({ id }) => id))
    yield* discovered.discover(active)
    const changed = taken.filter((integration) => !Equal.equals(before.get(integration.id), integration))
    yield* Effect.forEach(changed, (integration) => save(integration), { discard: true })
    for (const { id } of changed.filter(({ id }) => before.get(id)?.state === "active" && !read.has(id))) {
      yield* Effect.annotateLogs(Effect.logWarning("integration is no longer declared, so it is not read"), {
        integration: id,
        hint: "its records are kept; if it should be read, declare it in the configuration of every process"
      })
    }
    const others = (yield* store.streams).filter(({ integration }) => isTaken(integration) && !read.has(integration))
    if (others.length > 0) yield* stopReading(new Set(others.map(({ integration }) => integration)))
    if (active.length > 0) yield* startReading(active)
    for (const { id, state } of taken) if (state === "erasing") yield* eraseInBackground(id)
  })

  // ---- adding and removing

  /** Carries out what the store has about an integration, once the store answers. */
  const resumeLater = (integration: string) =>
    retryWhileStoreUnavailable(lock.withPermit(resume((id) => id === integration))).pipe(
      Effect.catch(({ message }) =>
        Effect.annotateLogs(Effect.logError("command not carried out; the next start carries it out"), {
          integration,
          why: message
        })
      )
    )

  /** Saves a command and carries it out. If the store fails meanwhile, the command may be committed nevertheless. */
  const change = (after: IntegrationState, action: OperatorAction, carryOut: Effect.Effect<void, StoreError>) =>
    save(after, action).pipe(
      Effect.andThen(carryOut),
      Effect.tapError(({ reason }) => reason.retryable ? capture.runFor(after.id, resumeLater(after.id)) : Effect.void),
      Effect.uninterruptible
    )

  const add = Effect.fnUntraced(function*(settings: IntegrationSettings) {
    const before = yield* store.integration(settings.id)
    if (before?.state === "active") return yield* refuse(settings.id, before.declared ? "declared" : "present")
    if (before?.state === "erasing") return yield* refuse(settings.id, "erasing")
    const { models: chosen } = settings
    if (chosen !== "auto" && !chosen.every((model) => isModel(known, model))) {
      return yield* refuse(settings.id, "undefined")
    }
    yield* discovered.discover([settings])
    const after = stateOf(settings, before ?? undefined, false)
    const models = after.models === "auto" ? "auto" : after.models.join(", ")
    const detail =
      `account ${after.account}; models ${models}; backfill ${after.backfill}; generation ${after.generation}`
    const action = yield* operatorAction("integrations.add", after.id, detail)
    yield* change(after, action, startReading([after]))
    yield* Effect.annotateLogs(Effect.logInfo("integration added"), { integration: after.id, detail })
    return after
  })

  const remove = Effect.fnUntraced(function*(id: string, data: DataPolicy) {
    const before = yield* store.integration(id)
    if (before === null || before.state === "erased") return yield* refuse(id, "unknown")
    if (before.declared) return yield* refuse(id, "declared")
    if (before.state === "erasing") return data === "erase" ? before : yield* refuse(id, "erasing")
    if (before.state === "removed" && data === "keep") return before
    const after: IntegrationState = data === "keep"
      ? { ...before, state: "removed" }
      : { ...before, state: "erasing", generation: Math.max(before.generation, store.identity.generation) + 1 }
    const action = yield* operatorAction("integrations.remove", id, `data ${data}`)
    discovered.forget(id)
    yield* change(
      after,
      action,
      Effect.andThen(stopReading([id]), data === "erase" ? eraseInBackground(id) : Effect.void)
    )
    yield* Effect.annotateLogs(Effect.logInfo("integration removed"), { integration: id, data })
    return after
  })

  yield* resume(capture.owns)
  yield* Effect.forkScoped(discovered.complete(applyCatalog))

  return {
    /** Starts reading the integration's streams. An integration that was removed with its data kept continues where it stopped. */
    add: (settings: IntegrationSettings) => lock.withPermit(add(settings)),
    /** Stops reading the integration's streams before it returns. Erasing continues in the background. */
    remove: (id: string, data: DataPolicy) => lock.withPermit(remove(id, data)),
    /** Reads the integrations of these shards, which this process has taken, and resumes their erasures. */
    resume: (scopes: ReadonlySet<string>) => lock.withPermit(resume((id) => scopes.has(captureScopeOf(id))))
  }
})

export class Integrations extends Context.Service<Integrations, Effect.Success<ReturnType<typeof make>>>()(
  "rollcall/capture/Integrations"
) {}

/** Assigns capture the streams to read, from store and configuration, and resumes interrupted erasures. */
export const layer = (
  options: IntegrationsOptions
): Layer.Layer<Integrations, StoreError, Capture | Source | Store> => Layer.effect(Integrations, make(options))
