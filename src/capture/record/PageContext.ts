/** The context in which the rows of one page become writes. It is the same for all rows of the page. */
import type { Origin } from "../../domain/ChangeEvent.ts"
import type * as Guard from "../../domain/Guard.ts"
import type { Processing } from "../../domain/Processing.ts"
import { type ClockSample, latestServerTime } from "../../domain/Watermark.ts"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import type { Stream } from "../Stream.ts"

export interface PageContext {
  readonly stream: StreamState
  readonly processing: Processing
  /** Processing of the model that is derived from the records; null if no model is derived. */
  readonly derivedProcessing: Processing | null
  readonly guard: Guard.Thresholds
  readonly runId: number
  readonly origin: Origin
  readonly backfill: boolean
  /** The rows are from a refetch by id. */
  readonly isRefetch: boolean
  /** Our clock, in ms. */
  readonly now: number
  /** When the API showed the rows, in ms of the server's clock; see `latestServerTime`. */
  readonly shownAt: number
}

/** `run`: the run that read the rows. `shownBy`: the response that showed them; by default they count as shown now. */
export const pageContext = (
  { derivedProcessing, guard, key, processing }: Stream,
  state: StreamState,
  run: Pick<Run, "id" | "backfill"> & { readonly kind: Origin },
  now: number,
  isRefetch = false,
  shownBy: ClockSample = { serverTime: null, requestedAt: now, duration: 0 }
): PageContext => ({
  stream: { ...state, model: key.model },
  processing,
  derivedProcessing,
  guard,
  runId: run.id,
  origin: run.kind,
  backfill: run.backfill,
  isRefetch,
  now,
  shownAt: latestServerTime(state.clockOffsets, shownBy)
})
