/**
 * All durable state of deliveries: handlers and their positions, the dispatch of deliveries and ticks, claims and the results of attempts,
 * the journal, and the operators' commands, lists and switches. The operations are described where they are implemented, in `sql/delivery`;
 * the values are in `Delivery.ts`, `DeliveryClaims.ts` and `DeadLetters.ts`. `AttemptJournal.ts` is the part that a running attempt uses.
 *
 * Invariants
 * 1. The deliveries of a range of the log, and the handlers' positions after that range, are committed together   (I2)
 * 2. A log row that an unsettled delivery needs is not pruned
 *
 * Gotchas
 * - A settled delivery is deleted, but its journal stays. All stored deliveries are waiting, due, running or dead.
 * - Operators' commands need no owner, because they change only deliveries that are not claimed.
 * - The owner of `dispatchScope` creates deliveries; a shard's owner (`deliveryScopeOf`) runs them. These may be different processes.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as SqlDeliveries from "./sql/delivery/SqlDeliveries.ts"

// an interface, so that messages of the compiler stay short
export interface Operations extends Effect.Success<typeof SqlDeliveries.make> {}

export class Deliveries extends Context.Service<Deliveries, Operations>()("rollcall/store/Deliveries") {}
