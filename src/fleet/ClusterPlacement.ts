/**
 * Places singletons with `effect/cluster`, over a table of processes and a table of locks in the PostgreSQL database of the store.
 * Processes need no network between each other.
 *
 * Gotchas
 * - A lock is a row with an expiry, not an advisory lock: a pooler may share the sessions of the server.
 * - A process that cannot renew its locks stops its singletons before the locks expire. One that is frozen cannot: see `Placement`.
 * - `effect/cluster` derives the place of a singleton from its name, so we add a suffix that places the name in the wanted shard.
 */
import * as EntityId from "effect/cluster/EntityId"
import * as MessageStorage from "effect/cluster/MessageStorage"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as RunnerHealth from "effect/cluster/RunnerHealth"
import * as Runners from "effect/cluster/Runners"
import * as Sharding from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as SqlRunnerStorage from "effect/cluster/SqlRunnerStorage"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as References from "effect/References"
import type { SqlClient } from "effect/sql/SqlClient"
import { isSqlError } from "effect/sql/SqlError"
import { shardCount } from "../domain/Shard.ts"
import { storePause } from "../store/Recovery.ts"
import type { StoreError } from "../store/Store.ts"
import { faultOf } from "../store/StoreFault.ts"
import { PlacementEngine } from "./Placement.ts"

const group = "default"

const timing = {
  /** Longer times delay the takeover from a dead process; shorter ones take the shards of a process that is only slow. */
  shardLockExpiration: "5 seconds",
  shardLockRefreshInterval: "1500 millis",
  /** How soon a process notices that another one joined or left. */
  refreshAssignmentsInterval: "250 millis",
  /**
   * How long the set of processes must stay unchanged before processes that joined get shards. A burst of joins then moves each shard once.
   */
  runnerJoinDebounce: "500 millis",
  /** No messages are polled: this is the pause after a failed attempt to take shards. The default of `effect/cluster` is 10 seconds. */
  entityMessagePollInterval: "250 millis"
} as const

/** After this time, a process that got no shard is ready nevertheless: if there are more processes than shards, some stand by. */
const longestJoin = "10 seconds"

const tables = { prefix: "fleet" }
const migrations = { loader: SqlRunnerStorage.migrations(tables), table: `${tables.prefix}_runner_migrations` }

/** Runs the migrations that the database lacks. */
export type Migrate = (options: typeof migrations) => Effect.Effect<unknown, StoreError, SqlClient>

/** `process`: unique in the fleet. */
const sharding = (process: string, migrate: Migrate) =>
  Sharding.layer.pipe(
    Layer.provide(Runners.layerNoop),
    Layer.provide(RunnerHealth.layerNoop),
    Layer.provide(MessageStorage.layerNoop),
    Layer.provide(SqlRunnerStorage.layerStorage(tables)),
    Layer.provide(Layer.effectDiscard(migrate(migrations))),
    // the store logs its outages; `effect/cluster` would log each of its failures
    Layer.provide(Layer.succeed(References.MinimumLogLevel, "None")),
    Layer.provide(ShardingConfig.layer({
      // nothing listens there: the address only identifies the process
      runnerAddress: Option.some(new RunnerAddress.RunnerAddress({ host: process, port: 0 })),
      shardsPerGroup: shardCount,
      shardLockDisableAdvisory: true,
      ...timing
    }))
  )

/** `capture/12` → 12; null for a name without a shard. */
const shardOf = (name: string): number | null => {
  const [, number] = /\/(\d+)$/.exec(name) ?? []
  return number === undefined ? null : Number(number)
}

/** A name that is placed in this shard. */
const nameIn = ({ getShardId }: Sharding.Sharding["Service"], name: string, shard: number): string => {
  for (let suffix = 0;; suffix++) {
    const candidate = `${name}#${suffix}`
    // shards of the cluster are numbered from 1
    if (getShardId(EntityId.make(candidate), group).id === shard + 1) return candidate
  }
}

const logOnce = (error: { readonly message: string }, logged: Set<string>) =>
  Effect.suspend(() => {
    const why = faultOf(error)?.message ?? error.message
    if (logged.has(why)) return Effect.void
    logged.add(why)
    return Effect.annotateLogs(Effect.logWarning("joining the fleet failed, trying again"), { why })
  })

/**
 * Joins the fleet and runs the singletons that are placed in this process until interrupted; then hands them over. `process` is unique in
 * the fleet. `client`: a client of the store's database with at least two connections, of which one is kept. `migrate` creates the tables.
 */
export const run = (
  process: string,
  client: Layer.Layer<SqlClient, StoreError>,
  migrate: Migrate
): Effect.Effect<never, StoreError, PlacementEngine> =>
  Effect.suspend(() => joinWith(process, client, migrate, new Set()))

/** `logged`: the causes of failed attempts to join since the process was last part of the fleet. Each is logged once. */
const joinWith = (
  process: string,
  client: Layer.Layer<SqlClient, StoreError>,
  migrate: Migrate,
  logged: Set<string>
): Effect.Effect<never, StoreError, PlacementEngine> =>
  Effect.gen(function*() {
    const engine = yield* PlacementEngine
    const cluster = yield* Sharding.Sharding
    const level = yield* References.MinimumLogLevel
    yield* engine.attach((name, run) => {
      const shard = shardOf(name)
      return cluster.registerSingleton(
        shard === null ? name : nameIn(cluster, name, shard),
        Effect.provideService(Effect.andThen(engine.joined.open, run), References.MinimumLogLevel, level)
      )
    })
    yield* Effect.forkScoped(Effect.delay(engine.joined.open, longestJoin))
    if (logged.size > 0) yield* Effect.logInfo("joined the fleet")
    logged.clear()
    return yield* Effect.never
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.provide(sharding(process, migrate), client)),
    // `effect/cluster` makes an error of the database a defect while it takes its connection
    Effect.catchDefect((defect) => isSqlError(defect) ? Effect.fail(defect) : Effect.die(defect)),
    Effect.catch((error) =>
      error._tag === "StoreError" && !error.reason.retryable
        ? Effect.fail(error)
        : logOnce(error, logged).pipe(
          Effect.andThen(Effect.sleep(storePause)),
          Effect.andThen(joinWith(process, client, migrate, logged))
        )
    )
  )
