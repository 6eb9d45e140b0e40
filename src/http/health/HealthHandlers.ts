/**
 * Handlers for `/health/live` and `/health/ready`, and the readiness checks: the store, the streams, then other dependencies.
 *
 * Invariants
 * 1. A caller without a token gets the status of each part, but no ids of integrations and no reasons, because reasons may contain text
 *    of other systems   (I11)
 *
 * Gotchas
 * - Each process reports its own readiness: streams that another process reads do not affect it.
 * - A blocked stream is treated as started, because the broken connection of one customer must not fail a rollout.
 *
 * Details
 * A process is ready if its store responds, if each of its streams has had a first response of the API (or is blocked or paused), and if it has its
 * share of the fleet's work. A relay or a plugins' engine that waits or is stopped makes the process unready. `serverDependencies` in
 * `app/Composition.ts` lists the share, the relay and the engine. If one of these conditions is no longer true, the process is unready
 * again; a failing stream does not make the process unready. If most streams of the installation are not read, a ready process is `degraded`:
 * a process cannot mend that, and the console must stay reachable.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Result from "effect/Result"
import { Processes } from "../../store/Processes.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import { NotReady, type ReadinessCheck } from "../contract/Problem.ts"
import { headlineOf, mattersOf } from "../matters/Matters.ts"
import { type Condition, conditionBy } from "../matters/StreamConditions.ts"
import { CurrentCaller } from "../request/Caller.ts"
import { type Cached, OverviewCache } from "../status/OverviewCache.ts"
import * as Share from "../status/Share.ts"
import { outageText, type StoreOverview } from "../status/StoreOverview.ts"

/** A part of the process that `/health/ready` lists: it may make the process unready, or only add a remark. */
export interface Dependency {
  readonly name: string
  /** Why this part makes the process unready; null if it does not. Absent if it never does. */
  readonly problem?: Effect.Effect<string | null>
  /**
   * A remark for operators while there is no problem; null if there is none. `overview`: the last overview that was read; null if none
   * was read yet.
   */
  readonly remark?: (overview: StoreOverview | null) => Effect.Effect<string | null>
}

/** Why a stream is not read, or is not read yet; null if it is neither blocked nor without a first response. */
const problemOf = ({ hasStarted, stream }: Condition): string | null => {
  if (stream.blocked !== null) return `blocked (${stream.blocked.reason}): ${stream.blocked.message}`
  if (hasStarted) return null
  return stream.failing === null
    ? `${stream.stream} waits for its first response from the API`
    : `${stream.stream} failed ${stream.failing.count} times since ${stream.failing.since}: ${stream.failing.message}`
}

interface Input {
  /** The overview, or the last one that was read if the store does not answer. */
  readonly overview: Effect.Effect<Pick<Cached<StoreOverview>, "value" | "stale">, StoreError>
  /** Whether this process is responsible for the streams of an integration. */
  readonly isOwn: (integration: string) => boolean
  readonly dependencies: ReadonlyArray<Dependency>
}

/**
 * Checks the store, this process's streams and then the given dependencies. A slow read (a large store, a slow disk) does not make the
 * store unready: only `Store.outage` decides whether the store answers.
 */
export const checkReadiness = Effect.fnUntraced(function*({ dependencies, isOwn, overview }: Input) {
  const { outage } = yield* Store
  const storeIs = Effect.fnUntraced(function*(fault: StoreError | null) {
    const reason = outageText(yield* outage) ?? (fault === null ? null : fault.reason.hint)
    return { name: "store", ok: reason === null, reason }
  })
  const read = yield* Effect.result(overview)
  const checks: Array<typeof ReadinessCheck.Type> = []
  if (Result.isFailure(read)) checks.push(yield* storeIs(read.failure))
  else {
    const { stale, value } = read.success
    checks.push(
      yield* storeIs(stale?.reason._tag === "Unavailable" ? null : stale),
      ...value.streams.filter(({ integration }) => isOwn(integration)).map(conditionBy(value.integrations))
        .flatMap((condition) => {
          const reason = problemOf(condition)
          return reason === null ? [] : [
            { name: `stream ${condition.stream.stream}`, ok: condition.hasStarted, reason }
          ]
        })
    )
  }
  const known = Result.isSuccess(read) ? read.success.value : null
  for (const { name, problem = Effect.succeed(null), remark = () => Effect.succeed(null) } of dependencies) {
    const reason = yield* problem
    checks.push({ name, ok: reason === null, reason: reason ?? (yield* remark(known)) })
  }
  return checks
})

type Checks = ReadonlyArray<typeof ReadinessCheck.Type>

/** One check for all streams, and no reasons. */
const summarize = (checks: Checks): Checks => {
  const isOfStream = ({ name }: Checks[number]) => name.startsWith("stream ")
  const streams = checks.filter(isOfStream)
  const others = checks.filter((check) => !isOfStream(check)).map((check) => ({ ...check, reason: null }))
  return streams.length === 0
    ? others
    : [...others, { name: "streams", ok: streams.every(({ ok }) => ok), reason: null }]
}

/** Why most streams of the installation are not read; null if they are. */
const degradationOf = ({ integrations, streams }: StoreOverview): string | null => {
  const headline = headlineOf(mattersOf({ streams: streams.map(conditionBy(integrations)) }))
  return headline && `${headline.title}: ${headline.cause}`
}

const respond = (all: Checks, degradation: string | null, isKnown: boolean) => {
  const checks = isKnown ? all : summarize(all)
  const failed = checks.filter((check) => !check.ok)
  if (failed.length === 0) {
    const status = degradation === null ? "ready" as const : "degraded" as const
    return Effect.succeed({ status, cause: isKnown ? degradation : null, checks })
  }
  const detail = isKnown
    ? failed.map((check) => check.reason).join("; ")
    : `not ready: ${failed.map(({ name }) => name).join(", ")}; send a token to see the reasons`
  return Effect.fail(new NotReady({ detail, checks }))
}

export const layer = (dependencies: ReadonlyArray<Dependency>) =>
  HttpApiBuilder.group(Api, "health", (handlers) =>
    handlers
      .handle("live", () => Effect.succeed({ status: "live" as const }))
      .handle("ready", () =>
        Effect.gen(function*() {
          const { overview, processes } = yield* OverviewCache
          const { self } = yield* Processes
          const [read, listed] = yield* Effect.all([Effect.result(overview), Effect.result(processes)], {
            concurrency: "unbounded"
          })
          const { ofIntegration: isOwn } = Share.make(self, Result.isSuccess(listed) ? listed.success.value : [])
          const checks = yield* checkReadiness({ overview: Effect.fromResult(read), isOwn, dependencies })
          const degradation = Result.isSuccess(read) ? degradationOf(read.success.value) : null
          return yield* respond(checks, degradation, (yield* CurrentCaller) !== null)
        })))
