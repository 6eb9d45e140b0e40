/** The response to a request that the store does not answer. */
import * as Effect from "effect/Effect"
import type { StoreError } from "../store/Store.ts"
import { StoreUnavailable } from "./Problem.ts"

/** Answers 503. An outage of the store is logged once, where it is detected. Other store errors are logged here. */
export const toStoreUnavailable = (error: StoreError) =>
  Effect.fail(new StoreUnavailable({ detail: error.reason.hint })).pipe(
    error.reason.retryable ?
      (response) => response :
      Effect.tapError(() =>
        Effect.annotateLogs(Effect.logError("request failed: store error"), { error: error.message })
      )
  )
