/** The result of inspecting a store: an inspection writes nothing and takes no ownership. */
import type { LogIdentity } from "../../domain/ChangeEvent.ts"
import type { HandlerName } from "../Delivery.ts"
import { publishingStart } from "../EventLog.ts"
import type { FleetInspection } from "../Processes.ts"

export interface Inspection {
  /** True if there is a store; false if a store can be created there. */
  readonly exists: boolean
  /** Whether another program holds the write lock. */
  readonly locked: boolean
  /** Null if there is no store. */
  readonly log: StoredLog | null
  /** Null if the store is not in PostgreSQL. */
  readonly fleet: FleetInspection | null
  /** Configured handlers whose circuit is open. */
  readonly openCircuits: ReadonlyArray<HandlerName>
  /** Ids of the keys that a process must have to open the store. */
  readonly keys: ReadonlyArray<string>
}

export interface StoredLog extends LogIdentity {
  /** Saved position of the relay; 0 if no position is saved. */
  readonly saved: number
  /** Position after which publishing starts (`publishingStart`). */
  readonly start: number
  /** The oldest position that readers can read, and the newest. */
  readonly oldest: number
  readonly newest: number
  /** How many of the first hundred streams were last read from another world of the sandbox than before. */
  readonly otherWorlds: number
}

/** SQL for the one `StoredLog` of a store. */
export const logQuery = `
  SELECT m.store, m.generation, c.pruned + 1 AS oldest, c.position AS newest,
    (SELECT count(*) FROM (SELECT state FROM streams LIMIT 100) s WHERE s.state LIKE '%"otherWorld":"%') AS "otherWorlds",
    coalesce((SELECT position FROM readers WHERE name = 'relay'), 0) AS saved,
    coalesce((SELECT position FROM readers WHERE name = '${publishingStart}'), 0) AS start
  FROM meta m CROSS JOIN log_counter c`

/** SQL for the `keys` of a store. */
export const keysQuery = "SELECT id FROM encryption_keys ORDER BY id"

/** SQL for the chain of a log at a position, with the same meaning as in `Store.chains`. */
export const chainQuery = (position: number): string => `
  SELECT CASE ${position} WHEN c.position THEN c.chain WHEN c.pruned THEN c.pruned_chain ELSE
    (SELECT e.chain FROM events e WHERE e.position = ${position} AND e.position > c.pruned) END AS chain
  FROM log_counter c`

/** SQL for the `openCircuits` of a store. */
export const openCircuitsQuery = `
  SELECT h.plugin, h.handler FROM handler_circuits c JOIN handlers h ON h.key = c.handler
  WHERE c.open_until IS NOT NULL AND h.active = 1 ORDER BY h.key`
