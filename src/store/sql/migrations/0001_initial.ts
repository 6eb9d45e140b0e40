/** The schema. */
import * as Effect from "effect/Effect"
import { deliveries } from "./initial/Deliveries.ts"
import { eventLog } from "./initial/EventLog.ts"
import { installation } from "./initial/Installation.ts"
import { records } from "./initial/Records.ts"

export const initial = Effect.all([installation, records, eventLog, deliveries], { discard: true })
