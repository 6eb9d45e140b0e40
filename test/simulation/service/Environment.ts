/** The surroundings of the processes of a world: the time, the API, the store, the sink, and the observer. */
import type { Plugin } from "../../../src/plugin/Plugin.ts"
import type { Deliveries } from "../../../src/store/Deliveries.ts"
import type { Processes } from "../../../src/store/Processes.ts"
import type { RequestLeases } from "../../../src/store/RequestLeases.ts"
import type { Store } from "../../../src/store/Store.ts"
import type { WorldSettings } from "../plan/Plan.ts"
import type { FaultyApi } from "../world/FaultyApi.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { ProcessObserver, RunningProcess } from "./ProcessObserver.ts"
import type { SimulatedPlacement } from "./SimulatedPlacement.ts"
import type { SimulatedSink } from "./SimulatedSink.ts"

export interface Environment {
  readonly time: VirtualTime
  readonly api: FaultyApi
  /** Returns the current store; a process keeps the one it started with. */
  readonly store: () => Store["Service"]
  /** Null if no plugin runs and no record is forgotten. */
  readonly deliveries: (() => Deliveries["Service"]) | null
  readonly plugins: ReadonlyArray<Plugin<{}>>
  /** Returns the leases of request slots in the current store, for a process with this name; null if it has all slots. */
  readonly leases: ((process: string) => RequestLeases["Service"]) | null
  /** Null if the store is not encrypted. */
  readonly keyed: {
    /** Opens the store with the keys that are configured now. */
    readonly open: () => KeyedStore
    /** Committed: a process has retired these keys. */
    readonly retired: (process: RunningProcess, keys: ReadonlyArray<string>) => void
  } | null
  /** Whether an operator forgets records. */
  readonly forgets: boolean
  readonly simulatedSink: SimulatedSink
  /** null: one process does all the work. */
  readonly simulatedPlacement: SimulatedPlacement | null
  readonly setting: WorldSettings
  /** Whether a process that starts now reads candidates as a list. */
  readonly listsCandidates: () => boolean
  readonly observer: ProcessObserver
  /** How long each statement of the capture takes to reach the store, in ms; absent for no time. */
  readonly storeDelay?: () => number
  /** The service's clock minus the API's clock, in ms. */
  readonly skew: () => number
  readonly onKilled: (process: RunningProcess) => void
}

/** The store as one process opens it with its keys. */
export interface KeyedStore {
  readonly store: Store["Service"]
  readonly deliveries: Deliveries["Service"]
  readonly processes: Processes["Service"]
  /** The ids of its keys, the current one first. */
  readonly keys: ReadonlyArray<string>
}
