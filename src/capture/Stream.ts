/** A stream with its settings in this process, and the functions that every run needs: transactions, page requests and log annotations. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Forgotten } from "../domain/Forgotten.ts"
import type * as Guard from "../domain/Guard.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { Processing } from "../domain/Processing.ts"
import { captureScopeOf, captureScopes } from "../domain/Shard.ts"
import { type Page, type PageRequest, Source, type SourceError } from "../source/Source.ts"
import type { PageQuery } from "../store/Records.ts"
import type { Run } from "../store/Run.ts"
import type { Owner } from "../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../store/Store.ts"
import type * as Tracing from "../telemetry/Tracing.ts"
import type { RunAborted, StreamSettings } from "./StreamLifecycle.ts"

export type RunError = SourceError | RunAborted | StoreError

/** A stream with its configuration in this process. */
export interface Stream {
  readonly key: StreamKey
  readonly settings: StreamSettings
  readonly processing: Processing
  /** Processing of the model derived from the stream's records; null if no model is derived. */
  readonly derivedProcessing: Processing | null
  /** Minimum overlap of polls. The overlap in the stream's state may be longer. */
  readonly minOverlap: Duration.Duration
  /** Minimum time between the two confirmations that a record is absent. */
  readonly confirmInterval: Duration.Duration
  readonly guard: Guard.Thresholds
  readonly owner: Owner
  /** Receives the run in progress at its start and after each page, for the history of a run that fails. */
  readonly onProgress?: (run: Run) => void
}

/** True if the stream is never polled, and every run is a sweep. */
export const isSweepOnly = ({ processing: { model, models } }: Pick<Stream, "processing">): boolean =>
  models.listOf(model)?.sweepOnly === true

/** True if the API only returns the list as a whole, so that no record can be requested by its id. */
export const isUnpaged = ({ processing: { model, models } }: Pick<Stream, "processing">): boolean =>
  models.listOf(model)?.unpaged === true

/** Which integrations' streams this process owns. */
export interface Ownership {
  /**
   * The owner under which this process writes the state of an integration's streams. It is fenced if another process owns the streams
   * (I10).
   */
  readonly ownerOf: (integration: string) => Owner
  readonly owns: (integration: string) => boolean
}

/** Takes over the streams of all integrations; a process that owned them is fenced   (I10, X9). */
export const takeStreams: Effect.Effect<
  Ownership & { readonly owners: ReadonlyArray<Owner> },
  StoreError,
  Store
> = Effect.map(
  Effect.flatMap(Store, (store) => store.takeOwnerships(captureScopes)),
  (owners) => ({
    owners: [...owners.values()],
    ownerOf: (integration) => owners.get(captureScopeOf(integration))!,
    owns: () => true
  })
)

/** Runs one transaction on the stream. The body may run more than once. `pageOf`: see `Store.transact`. */
export const transact = <A, E>(
  { key, owner }: Pick<Stream, "key" | "owner">,
  body: (tx: StreamTx) => Effect.Effect<A, E>,
  pageOf?: (forgotten: Forgotten) => PageQuery
): Effect.Effect<A, E | StoreError, Store> => Effect.flatMap(Store, (store) => store.transact(owner, key, body, pageOf))

/** Runs transactions on a stream; returns `otherwise` if they fail because the integration was erased in the meantime. */
export const unlessErased = <A, R>(
  key: StreamKey,
  otherwise: A,
  transactions: Effect.Effect<A, StoreError, R>
): Effect.Effect<A, StoreError, R | Store> =>
  Effect.catch(transactions, (error) =>
    Effect.gen(function*() {
      const store = yield* Store
      return (yield* store.stream(key)) === null ? otherwise : yield* Effect.fail(error)
    }))

/** Requests one page of the stream's list. */
export const requestPage = (
  { key, settings }: Stream,
  request: Omit<PageRequest, "account" | "integration" | "model">
): Effect.Effect<Page, SourceError, Source> =>
  Effect.flatMap(
    Source,
    (source) => source.page({ account: settings.account, integration: key.integration, model: key.model, ...request })
  )

/** The attributes of a stream's spans. */
export const spanAttributes = (
  { integration, model }: StreamKey,
  details: Tracing.Attributes = {}
): Tracing.Attributes => ({
  "rollcall.integration": integration,
  "rollcall.model": model,
  ...details
})

/** Adds the stream and these details to log lines. */
export const annotate = ({ integration, model }: StreamKey, details: Readonly<Record<string, unknown>> = {}) =>
  Effect.annotateLogs({ integration, model, ...details })

/** Reads a list with `read`, `size` rows at a time in the order of their ids, and calls `each` for every part. */
export const forEachPart = Effect.fnUntraced(function*<A extends { readonly id: string }, E1, R1, E2, R2>(
  size: number,
  read: (after: string | null, limit: number) => Effect.Effect<ReadonlyArray<A>, E1, R1>,
  each: (rows: ReadonlyArray<A>) => Effect.Effect<void, E2, R2>
): Effect.fn.Return<void, E1 | E2, R1 | R2> {
  let after: string | null = null
  for (;;) {
    const rows: ReadonlyArray<A> = yield* read(after, size)
    if (rows.length > 0) yield* each(rows)
    if (rows.length < size) return
    after = rows.at(-1)!.id
  }
})
