/** Appends the events of published records to the event log, with their causes and with the changes of derived candidates. */
import * as Effect from "effect/Effect"
import type { StreamKey } from "../../domain/Model.ts"
import type { RecordWrite } from "../../store/Records.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import { applicationChangesOf, candidateModel, shownCandidates, sourceModel } from "../derived/ApplicationChanges.ts"
import { deriveCandidates } from "../derived/Candidates.ts"
import type { DetectedEvent } from "../Metrics.ts"
import type { PageContext } from "../record/PageContext.ts"
import { withProcessing } from "../record/StoredContent.ts"
import { attributeWrites } from "./Attribution.ts"

/** Leaves out the contents, so that the events of a large wave fit into memory (I9). */
const detectedEventsIn = ({ model }: StreamKey, writes: ReadonlyArray<RecordWrite>): ReadonlyArray<DetectedEvent> =>
  writes.flatMap(({ events }) =>
    events.map(({ changedAt, detectedAt, kind, origin, restored }) => ({
      model,
      kind,
      restored,
      origin,
      changedAt,
      detectedAt
    }))
  )

/**
 * Writes the records of a stream and of the model derived from it, each event with its cause. Call it late in a transaction, because
 * `tx.write` locks the log's position counter until the commit.
 */
export const appendEvents = Effect.fnUntraced(function*(
  tx: StreamTx,
  records: ReadonlyArray<RecordWrite>,
  context: PageContext
): Effect.fn.Return<ReadonlyArray<DetectedEvent>, StoreError> {
  const { derivedProcessing, processing: { model, models } } = context
  const writes = yield* attributeWrites(tx, records)
  const applicationChanges = derivedProcessing === null ? [] : applicationChangesOf(writes, derivedProcessing, context)
  const events = detectedEventsIn(context.stream, writes)
  if (model === sourceModel && models.listOf(candidateModel) !== undefined) {
    yield* tx.setDerivedIds(shownCandidates(writes))
  }
  if (derivedProcessing === null || applicationChanges.length === 0) return yield* Effect.as(tx.write(writes), events)
  const derivation = yield* deriveCandidates(tx, applicationChanges, derivedProcessing, context)
  const derived = yield* attributeWrites(derivation.derived, derivation.writes)
  const { state } = derivation.derived
  const known = withProcessing(state, derivedProcessing)
  if (known !== state) yield* derivation.derived.saveState(known)
  yield* tx.write(writes, derived)
  return [...events, ...detectedEventsIn(derivation.derived.state, derived)]
})
