/**
 * The state of the streams as gauges, added up for each model.
 *
 * Invariants
 * 1. The number of series does not depend on the number of integrations   (I9)
 *
 * Gotchas
 * - The gauges are computed for each scrape, so a stream or an integration that is gone leaves no value behind. The pass over many
 *   streams lets other requests run in between.
 */
import * as Effect from "effect/Effect"
import type { Model } from "../../domain/Model.ts"
import { blockReasonNames } from "../../store/State.ts"
import { streamStates } from "../contract/OverviewApi.ts"
import { type Condition, conditionBy } from "../matters/StreamConditions.ts"
import { streamsAtATime } from "../status/InParts.ts"
import type { StoreOverview } from "../status/StoreOverview.ts"
import { type Exposition, gauge } from "./Exposition.ts"

const streams = gauge("rollcall_streams", "Streams by model and state: ok, late, backfilling, failing, blocked, paused")
const freshness = gauge(
  "rollcall_stream_freshness_max_seconds",
  "The highest freshness of the streams of a model that are neither paused nor backfilling"
)
const lateness = gauge(
  "rollcall_stream_lateness_max_ratio",
  "The highest ratio of freshness to its target, of the same streams as the freshness; above 1, a stream is late"
)
const sweepLateness = gauge(
  "rollcall_stream_sweep_lateness_max_ratio",
  "The highest ratio of the age of the last complete sweep to twice the sweep interval (at least two minutes), of the same streams without "
    + "blocked ones; above 1, deletes may be found late"
)
const integrations = gauge("rollcall_integrations", "Integrations that are read")
const blocked = gauge("rollcall_integrations_blocked", "Integrations with a blocked stream, by reason")
const live = gauge("rollcall_records_live", "Published records that are not deleted, by model")
const pending = gauge("rollcall_pending_changes", "Observed changes that are not published yet, by model and reason")
const quarantined = gauge(
  "rollcall_quarantined_records",
  "Records that could not be read and are kept in the quarantine, by model"
)
const stale = gauge(
  "rollcall_stale_records",
  "Records that must be read again because content that they repeat changed in another record, by model"
)
const holds = gauge("rollcall_holds_open", "Waves of changes that the guard holds until an operator decides, by model")
const unredacted = gauge(
  "rollcall_redaction_remaining_streams",
  "Streams whose stored content is still to be redacted or encrypted, by model"
)

interface Sums {
  readonly states: Map<string, number>
  readonly pending: Map<string, number>
  freshness: number
  lateness: number
  sweepLateness: number
  live: number
  quarantined: number
  stale: number
}

const emptySums = (): Sums => ({
  states: new Map(streamStates.map((state) => [state, 0])),
  pending: new Map(),
  freshness: 0,
  lateness: 0,
  sweepLateness: 0,
  live: 0,
  quarantined: 0,
  stale: 0
})

const increase = (map: Map<string, number>, key: string, by = 1): void => void map.set(key, (map.get(key) ?? 0) + by)

const add = (sums: Sums, { state, stream: view, sweepLateness, target }: Condition): void => {
  increase(sums.states, state)
  if (view.freshness_seconds !== null && state !== "paused" && state !== "backfilling") {
    sums.freshness = Math.max(sums.freshness, view.freshness_seconds)
    sums.lateness = Math.max(sums.lateness, view.freshness_seconds / target)
  }
  sums.sweepLateness = Math.max(sums.sweepLateness, sweepLateness ?? 0)
  sums.live += view.records_live
  sums.quarantined += view.quarantined
  sums.stale += view.stale_records
  for (const [reason, rows] of Object.entries(view.pending)) increase(sums.pending, reason, rows)
}

/** `isOwn`: whether this process exports the gauges of an integration. */
export const writeStreamMetrics = Effect.fnUntraced(
  function*(
    out: Exposition,
    overview: Pick<StoreOverview, "streams" | "integrations" | "holds" | "redacting">,
    isOwn: (integration: string) => boolean
  ) {
    const conditionOf = conditionBy(overview.integrations)
    const models = new Map<Model, Sums>()
    const read = new Set<string>()
    const blockedBy = new Map<string, Set<string>>(blockReasonNames.map((reason) => [reason, new Set()]))
    for (const [index, view] of overview.streams.entries()) {
      if (index % streamsAtATime === streamsAtATime - 1) yield* Effect.yieldNow
      const { blocked, integration, model } = view
      if (!isOwn(integration)) continue
      read.add(integration)
      const sums = models.get(model) ?? emptySums()
      models.set(model, sums)
      add(sums, conditionOf(view))
      if (blocked !== null) blockedBy.get(blocked.reason)?.add(integration)
    }
    const held = Map.groupBy(overview.holds.filter(({ integration }) => isOwn(integration)), ({ model }) => model)
    out.set(integrations, read.size)
    for (const [reason, some] of blockedBy) out.set(blocked, some.size, { reason })
    for (const [model, sums] of models) {
      for (const [state, count] of sums.states) out.set(streams, count, { model, state })
      out.set(freshness, sums.freshness, { model })
      out.set(lateness, sums.lateness, { model })
      out.set(sweepLateness, sums.sweepLateness, { model })
      out.set(live, sums.live, { model })
      out.set(quarantined, sums.quarantined, { model })
      out.set(stale, sums.stale, { model })
      out.set(holds, held.get(model)?.length ?? 0, { model })
      for (const [reason, rows] of sums.pending) out.set(pending, rows, { model, reason })
    }
    const redacting = overview.redacting.filter(({ integration }) => isOwn(integration))
    const byModel = Map.groupBy(redacting, ({ model }) => model)
    // streams that are not read are redacted too
    for (const model of new Set([...models.keys(), ...byModel.keys()])) {
      out.set(unredacted, byModel.get(model)?.length ?? 0, { model })
    }
  }
)
