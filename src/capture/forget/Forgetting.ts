/**
 * Forgets a record for good, on an operator's request: the record is removed from the whole store, and no run stores it again until an
 * operator allows it. `StoreRemoval.ts` finds the rows of the record and removes them.
 *
 * Invariants
 * 1. The request is committed before anything is removed; a request that was interrupted continues at the next start
 * 2. A record is reported as forgotten once the store has none of its content, and no handler that has it in memory is running
 *
 * Gotchas
 * - Only ids are recorded for the request. An id that belongs to no stored record is refused, because it could be a name or an address.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { createHash } from "node:crypto"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { forgettableModels, type ForgettableRecord } from "../../domain/Forgotten.ts"
import { type Model, ModelName, type StreamKey } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { captureScopeOf } from "../../domain/Shard.ts"
import { formatTime } from "../../domain/Watermark.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import type { ForgottenRecord } from "../../store/Operators.ts"
import { failOnDefect, retryWhileStoreUnavailable } from "../../store/Recovery.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { Capture } from "../schedule/Capture.ts"
import * as StoreRemoval from "./StoreRemoval.ts"

/** Records of a model. `ids`: the first hundred. */
const Records = Schema.Struct({ model: ModelName, records: Schema.Number, ids: Schema.Array(Schema.String) })
const toRecords = ({ ids, key }: { readonly key: StreamKey; readonly ids: ReadonlyArray<string> }) => ({
  model: key.model,
  records: ids.length,
  ids: ids.slice(0, StoreRemoval.maxListedIds)
})

/** The effects of forgetting a record, as counts per place. */
export const Plan = Schema.Struct({
  /** Identifies the record and these counts. */
  hash: Schema.String,
  /** Whether the record is published as live. */
  live: Schema.Boolean,
  /** Rows of the event log. */
  versions: Schema.Number,
  pending: Schema.Number,
  /** Unsettled deliveries and dead letters of its events. */
  deliveries: Schema.Number,
  /** Journaled steps of handlers. */
  steps: Schema.Number,
  /** Records that repeat its content now, or that repeated it in an earlier version. */
  copies: Schema.Array(Records),
  /** Records that contain an object with its id where no entry of a model says that they repeat others. They are not changed. */
  mentions: Schema.Array(Records),
  /**
   * Rows of records that may repeat it, which cannot be decrypted and are not removed; the first hundred. `position` is null for a
   * pending row.
   */
  unreadable: Schema.Array(
    Schema.Struct({ model: ModelName, id: Schema.String, position: Schema.NullOr(Schema.Number) })
  )
})
type Plan = typeof Plan.Type

/** The command was refused; nothing was changed. */
export class ForgettingRefused extends Schema.TaggedError<ForgettingRefused>()("ForgettingRefused", {
  reason: Schema.Literals(["unknown", "known", "outdated", "erasing"]),
  message: Schema.String,
  hint: Schema.String
}) {}

const runningCheckInterval = "1 second"
const longestWait = "10 seconds"

const isSame = (a: ForgettableRecord | ForgottenRecord, b: ForgettableRecord): boolean =>
  a.integration === b.integration && a.model === b.model && a.id === b.id
const nameOf = ({ id, integration, model }: ForgettableRecord): string => `${integration}/${model}/${id}`

const make = Effect.fnUntraced(function*({ processing }: { readonly processing: (model: Model) => Processing }) {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const capture = yield* Capture
  const models = yield* CurrentModels
  const lock = yield* Semaphore.make(1)
  const { findCopies, findMentions, findOwn, remove, streamsOf } = StoreRemoval.make({
    store,
    deliveries,
    capture,
    processing,
    models
  })

  const knownAs = (record: ForgettableRecord) =>
    Effect.map(store.forgotten, (all) => all.find((one) => isSame(one, record)))

  /** Counts what `forget` would remove. Changes nothing. */
  const plan = Effect.fn("Forgetting.plan")(function*(
    record: ForgettableRecord
  ): Effect.fn.Return<Plan, ForgettingRefused | StoreError> {
    const known = yield* knownAs(record)
    if (known !== undefined) {
      return yield* new ForgettingRefused({
        reason: "known",
        message: `${nameOf(record)} is ${known.state === "erasing" ? "being forgotten" : "already forgotten"}, since ${
          formatTime(known.requestedAt)
        }`,
        hint: "`rollcall forget --list` shows all forgotten records; `--allow` lets Rollcall store one again"
      })
    }
    const { all, embedding, others, own } = yield* streamsOf(record)
    const { copies, unreadable } = yield* findCopies(record, embedding)
    const counted = own === undefined
      ? { rows: 0, deliveries: 0, steps: 0 }
      : yield* deliveries.countForgettable(own, record.id)
    const live = own !== undefined && (yield* store.liveIds(own, [record.id])).has(record.id)
    const rows = own === undefined ? [] : yield* findOwn(record, own)
    const pending = rows.filter(({ position }) => position === null)
    const counts = {
      live,
      versions: counted.rows,
      pending: pending.length,
      deliveries: counted.deliveries,
      steps: counted.steps,
      copies: copies.map(toRecords),
      mentions: (yield* findMentions(record, others)).map(toRecords),
      unreadable: unreadable.slice(0, StoreRemoval.maxListedIds).map(({ id, model, position }) => ({
        model,
        id,
        position
      }))
    }
    if (counted.rows + pending.length + copies.length + counted.deliveries === 0) {
      const forgettable = forgettableModels(models)
      const mentioning = counts.mentions.map(({ model }) => model)
      return yield* new ForgettingRefused({
        reason: "unknown",
        message: `nothing is stored about ${record.model} with this id in ${record.integration}`,
        hint: all.length === 0
          ? "no stream has this integration: `rollcall integrations list` shows all of them"
          : own === undefined && !forgettable.includes(record.model)
          ? `the models are ${forgettable.join(", ")}`
          : mentioning.length > 0
          ? `records of ${
            mentioning.join(", ")
          } have an object with this id: forget them, or name the place in \`references\``
          : "pass the id of the unified API, as events and `GET /v1/records` show it"
      })
    }
    const hash = createHash("sha256").update(JSON.stringify([nameOf(record), counts])).digest("hex").slice(0, 16)
    return { hash, ...counts }
  })

  /** Does nothing if the request is not committed, or if another operator's request has removed the record already. */
  const removeAll = Effect.fnUntraced(function*(record: ForgettableRecord) {
    if ((yield* knownAs(record))?.state !== "erasing") return
    for (const one of yield* remove(record)) {
      while ((yield* one) > 0) yield* Effect.sleep(runningCheckInterval)
    }
    // While another process reads the store, this may free no space. The next retention run then frees it.
    yield* store.reclaim
    yield* store.endForgetting(capture.ownerOf(record.integration), record, yield* Clock.currentTimeMillis)
    yield* Effect.annotateLogs(Effect.logInfo("record forgotten"), {
      integration: record.integration,
      model: record.model
    })
  }, lock.withPermit)

  /** If this process loses the shard or the store, the next owner continues the removal. */
  const removeInBackground = (record: ForgettableRecord, done: Deferred.Deferred<void>) =>
    removeAll(record).pipe(
      retryWhileStoreUnavailable,
      failOnDefect,
      Effect.catch((error) =>
        Effect.annotateLogs(Effect.logError("record not forgotten; this is resumed at the next start"), {
          integration: record.integration,
          model: record.model,
          why: error.message
        })
      ),
      Effect.ensuring(Deferred.succeed(done, undefined)),
      (removal) => capture.runFor(record.integration, removal)
    )

  const actionOf = (command: string, record: ForgettableRecord, at: number) => ({
    at,
    command,
    target: nameOf(record),
    detail: ""
  })

  /**
   * Commits the request, and removes the record in the background. `hash`: that of a plan, which is refused if its counts have changed.
   * Returns when the removal is complete, or after ten seconds.
   */
  const forget = Effect.fn("Forgetting.forget")(function*(record: ForgettableRecord, hash: string) {
    const planned = yield* plan(record)
    if (planned.hash !== hash) {
      return yield* new ForgettingRefused({
        reason: "outdated",
        message: "the plan is outdated: other counts apply now",
        hint: "plan again, check the numbers, and pass the new plan"
      })
    }
    const now = yield* Clock.currentTimeMillis
    const requested: ForgottenRecord = { ...record, state: "erasing", requestedAt: now, doneAt: null, progress: null }
    const done = yield* Deferred.make<void>()
    yield* store.requestForgetting(capture.ownerOf(record.integration), requested, actionOf("forget", record, now))
      .pipe(
        // the request may be committed although its response was lost
        Effect.tapError(({ reason }) => reason.retryable ? removeInBackground(record, done) : Effect.void),
        Effect.andThen(removeInBackground(record, done)),
        Effect.uninterruptible
      )
    yield* Effect.timeoutOption(Deferred.await(done), longestWait)
    return (yield* knownAs(record)) ?? requested
  })

  /** Allows runs to store the record again. Its next change or the next sweep then stores it. */
  const allow = Effect.fn("Forgetting.allow")(function*(record: ForgettableRecord) {
    const known = yield* knownAs(record)
    if (known === undefined) {
      return yield* new ForgettingRefused({
        reason: "unknown",
        message: `${record.model} with this id is not forgotten in ${record.integration}`,
        hint: "`rollcall forget --list` shows all forgotten records"
      })
    }
    if (known.state === "erasing") {
      return yield* new ForgettingRefused({
        reason: "erasing",
        message: `${nameOf(record)} is still being forgotten`,
        hint: "wait until `rollcall forget --list` shows it as forgotten"
      })
    }
    const now = yield* Clock.currentTimeMillis
    yield* store.allowForgotten(capture.ownerOf(record.integration), record, actionOf("forget.allow", record, now))
    return known
  })

  const resume = Effect.fnUntraced(function*(isTaken: (integration: string) => boolean) {
    for (const record of yield* store.forgotten) {
      if (record.state !== "erasing" || !isTaken(record.integration)) continue
      yield* removeInBackground(record as ForgettableRecord, yield* Deferred.make<void>())
    }
  })

  yield* resume(capture.owns)

  return {
    plan,
    forget,
    allow,
    /** Resumes the interrupted requests of these shards, which this process has taken. */
    resume: (scopes: ReadonlySet<string>) => resume((integration) => scopes.has(captureScopeOf(integration)))
  }
})

export class Forgetting extends Context.Service<Forgetting, Effect.Success<ReturnType<typeof make>>>()(
  "rollcall/capture/Forgetting"
) {}

/** Resumes interrupted requests. */
export const layer = (
  options: { readonly processing: (model: Model) => Processing }
): Layer.Layer<Forgetting, StoreError, Capture | Store | Deliveries> => Layer.effect(Forgetting, make(options))
