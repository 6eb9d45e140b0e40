/** The parts on which readiness depends, with their problems and with remarks for operators. `Composition.ts` lists the parts. */
import * as Effect from "effect/Effect"
import { describePause } from "../capture/schedule/Backpressure.ts"
import type { KeyWatch } from "../fleet/KeyWatch.ts"
import type { PlacementEngine } from "../fleet/Placement.ts"
import type { Dependency } from "../http/health/HealthHandlers.ts"
import { mattersOf } from "../http/matters/Matters.ts"
import { conditionBy } from "../http/matters/StreamConditions.ts"
import type { StoreOverview } from "../http/status/StoreOverview.ts"
import type { ProcessProblem } from "../store/Processes.ts"

interface Status {
  readonly state: string
  readonly reason: { readonly message: string; readonly hint: string } | null
}

export const problemOf = (status: Effect.Effect<Status>) =>
  Effect.map(status, ({ reason }) => reason && `${reason.message}; ${reason.hint}`)

export const kafkaDependency = ({ status }: { readonly status: Effect.Effect<Status> }) =>
  ({
    name: "kafka",
    problem: problemOf(status),
    remark: (overview: StoreOverview | null) =>
      Effect.map(status, ({ state }) => {
        if (state !== "standby" || overview === null) return null
        const { newestPosition, published } = overview.log
        return `standby: another process publishes; ${
          newestPosition - published
        } events of the log are not in Kafka yet`
      })
  }) satisfies Dependency

const noShare =
  "this process waits for its share of the work, for at most 10 seconds; `rollcall fleet` shows the shares"

export const fleetDependency = (
  { joined }: Pick<PlacementEngine["Service"], "joined">,
  keys: Pick<KeyWatch["Service"], "problem">
) =>
  ({
    name: "fleet",
    problem: Effect.map(keys.problem, (problem) => problem ?? (joined.isOpen() ? null : noShare))
  }) satisfies Dependency

/** `limit`: the number of unpublished events at which reading pauses; null without Kafka. */
export const readingDependency = (limit: number | null) =>
  ({
    name: "reading",
    remark: (overview: StoreOverview | null) =>
      Effect.succeed(
        limit === null || overview === null
          ? null
          : describePause(overview.log.newestPosition - overview.log.published, { limit })
      )
  }) satisfies Dependency

/** Streams whose last complete sweep is too old: the first one, and how many others. */
export const sweepsDependency: Dependency = {
  name: "sweeps",
  remark: (overview) =>
    Effect.sync(() => {
      const streams = overview?.streams.map(conditionBy(overview.integrations)) ?? []
      const late = mattersOf({ streams }).flatMap((matter) =>
        matter.cause === "late_sweep" ? matter.streams.map(({ lateSweep }) => lateSweep) : []
      )
      const [first = null] = late
      return late.length < 2 ? first : `${first} ${late.length} streams are not swept in time.`
    })
}

/** The problems of the dependencies, for the list of processes. */
export const problemsOf = (dependencies: ReadonlyArray<Dependency>): Effect.Effect<ReadonlyArray<ProcessProblem>> =>
  Effect.map(
    Effect.forEach(
      dependencies,
      ({ name, problem = Effect.succeed(null) }) => Effect.map(problem, (reason) => ({ name, reason }))
    ),
    (found) => found.flatMap(({ name, reason }) => reason === null ? [] : [{ name, reason }])
  )
