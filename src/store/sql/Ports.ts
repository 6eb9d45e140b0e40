/** The services of one database, over its `SqlClient`. The store creates all tables first. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SqlClient } from "effect/sql/SqlClient"
import { CallQueue } from "../CallQueue.ts"
import { Deliveries } from "../Deliveries.ts"
import { Processes } from "../Processes.ts"
import { RequestLeases } from "../RequestLeases.ts"
import { Store } from "../Store.ts"
import { StoredSessions } from "../StoredSessions.ts"
import type { StoreError } from "../StoreError.ts"
import * as SqlDeliveries from "./delivery/SqlDeliveries.ts"
import type { Health } from "./Health.ts"
import { Signals } from "./Signals.ts"
import * as SqlStore from "./SqlStore.ts"

export type Ports = Store | Deliveries | Processes | RequestLeases | StoredSessions | CallQueue

const store = Layer.effectContext(
  Effect.map(SqlStore.make, ({ signals, store }) => Context.make(Store, store).pipe(Context.add(Signals, signals)))
)

/** Requires the store, because opening the store migrates the database. */
const deliveries = Layer.effect(Deliveries, SqlDeliveries.make)

export const layer: Layer.Layer<Ports, StoreError, SqlClient | Health> = Layer.mergeAll(
  deliveries,
  CallQueue.layer,
  RequestLeases.layer
).pipe(
  Layer.provideMerge(store),
  Layer.provideMerge(Layer.merge(Processes.layer, StoredSessions.layer))
)
