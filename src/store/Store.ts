/**
 * The service of all durable state of capture and the event log. Its implementation, `sql/SqlStore.ts`, describes its operations and joins
 * those of the tables; `sql/stream/StreamTransaction.ts` has those of a transaction on one stream. Their values are in `State.ts`, `Run.ts`,
 * `Records.ts`, `EventLog.ts` and `Operators.ts`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as SqlStore from "./sql/SqlStore.ts"

export type { StreamTx } from "./sql/stream/StreamTransaction.ts"
export {
  Damaged,
  Fenced,
  Incompatible,
  incompatible,
  Misconfigured,
  misconfigured,
  MissingKey,
  missingKeys,
  OlderCopy,
  type Outage,
  StoreError,
  Unavailable
} from "./StoreError.ts"

type Made = Effect.Success<typeof SqlStore.make>["store"]
export interface Operations extends Made {}

export class Store extends Context.Service<Store, Operations>()("rollcall/store/Store") {}
