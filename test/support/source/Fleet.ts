/**
 * A fleet in virtual time: processes with clocks of their own share the request budget of one account over one database, and send their
 * requests to one API, which counts those in flight. A process can be frozen, killed and cut off from the database.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import * as RequestScheduler from "../../../src/source/RequestScheduler.ts"
import * as SharedBudget from "../../../src/source/SharedBudget.ts"
import { Processes } from "../../../src/store/Processes.ts"
import { RequestLeases } from "../../../src/store/RequestLeases.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { StoreError, Unavailable } from "../../../src/store/Store.ts"
import * as MemoryStore from "../store/MemoryStore.ts"

/** The longest response of the API. */
export const timeout = Duration.seconds(5)
/** How long a dead process keeps its slots at most. */
export const leaseMillis = 20_000

const unavailable = new StoreError({ reason: new Unavailable({ operation: "claim", cause: null }) })

/** A clock that shows another time, and whose sleeps end only while the process runs. */
const clockOf = (
  base: Clock.Clock,
  skew: () => number,
  origin: () => bigint,
  awake: Effect.Effect<void>
): Clock.Clock => {
  const millis = () => base.currentTimeMillisUnsafe() + skew()
  const nanos = () => base.currentTimeNanosUnsafe() + BigInt(skew()) * 1_000_000n
  const monotonic = () => base.monotonicTimeNanosUnsafe() + origin()
  return {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: monotonic,
    monotonicTimeNanos: Effect.sync(monotonic),
    sleep: (duration) => Effect.andThen(base.sleep(duration), awake)
  }
}

export interface Sent {
  readonly by: string
  readonly at: number
  /** Requests in flight from then on. */
  readonly inFlight: number
}

export const make = Effect.fnUntraced(function*(seed: number) {
  const base = yield* Clock.Clock
  const now = () => base.currentTimeMillisUnsafe()
  const random = new SeededRandom(seed)
  const database = yield* Layer.build(Layer.provideMerge(Ports.layer, MemoryStore.client()))
  const databaseClock = clockOf(base, () => 1_800_000_000_000, () => 0n, Effect.void)

  const sent: Array<Sent> = []
  /** When the process got the rate-limit response, and until when nothing may be sent. */
  const pauses: Array<{ readonly by: string; readonly at: number; readonly until: number }> = []
  let inFlight = 0
  let refusal: number | null = null
  let claims = 0

  /** How long a response takes, in ms. */
  const responseTime = () => random.boolean(0.1) ? random.int(1_000, Duration.toMillis(timeout)) : random.int(20, 800)

  /** The API gets a request. It responds even if the process has died; the response is how long to pause, or null. */
  const send = Effect.fnUntraced(function*(by: string) {
    sent.push({ by, at: now(), inFlight: ++inFlight })
    const response = yield* Deferred.make<number | null>()
    const pause = refusal
    refusal = null
    const respond = Effect.gen(function*() {
      yield* base.sleep(Duration.millis(responseTime()))
      inFlight--
      yield* Deferred.succeed(response, pause)
    })
    yield* Effect.forkDetach(respond)
    return response
  })

  /** `preparation`: how long the preparation of a request takes that has its slot, in ms. */
  const start = Effect.fnUntraced(function*(
    name: string,
    concurrency: number,
    preparation: (random: SeededRandom) => number = () => 0
  ) {
    const gate = Latch.makeUnsafe(true)
    const network = { before: 0, after: 0, cut: "none" as "none" | "before" | "after" }
    let skew = random.int(-30_000, 30_000)
    let origin = BigInt(random.int(0, 1_000_000)) * 1_000_000n
    const clock = clockOf(base, () => skew, () => origin, gate.await)
    const processes = { ...Context.get(database, Processes), self: name }
    const scope = yield* Scope.make()
    const table = yield* Layer.buildWithScope(Layer.fresh(RequestLeases.layer), scope).pipe(
      Effect.provide(Context.add(Context.pick(SqlClient)(database), Processes, Processes.of(processes)))
    )
    const overNetwork = RequestLeases.of({
      leasesOf: (account) =>
        Effect.provideService(Context.get(table, RequestLeases).leasesOf(account), Clock.Clock, databaseClock),
      claim: Effect.fnUntraced(function*(wanted) {
        claims++
        yield* base.sleep(Duration.millis(network.before))
        const isCut = network.cut
        if (isCut === "before") yield* clock.sleep(Duration.seconds(1))
        if (isCut === "before") return yield* unavailable
        const answers = yield* Context.get(table, RequestLeases).claim(wanted).pipe(
          Effect.provideService(Clock.Clock, databaseClock)
        )
        yield* base.sleep(Duration.millis(network.after))
        yield* gate.await
        return network.cut === "after" ? yield* unavailable : answers
      })
    })
    const { scheduler } = yield* Effect.gen(function*() {
      const budget = yield* Layer.buildWithScope(
        Layer.fresh(Layer.provide(SharedBudget.layer, Layer.succeed(RequestLeases)(overNetwork))),
        scope
      )
      const scheduler = yield* RequestScheduler.make({
        account: "default",
        concurrency,
        timeout,
        retryBase: Duration.seconds(1)
      }).pipe(Effect.provide(budget), Scope.provide(scope))
      return { scheduler }
    }).pipe(Effect.provideService(Clock.Clock, clock))

    /** Gets a slot, prepares the request, sends it unless the slot has expired, and waits for the response. */
    const request = (integration: string) =>
      Effect.gen(function*() {
        yield* clock.sleep(Duration.millis(preparation(random)))
        if ((yield* scheduler.obstacle) !== null) return
        const response = yield* send(name)
        const pause = yield* Effect.tap(Deferred.await(response), () => gate.await)
        if (pause === null) return
        pauses.push({ by: name, at: now(), until: now() + pause })
        yield* scheduler.onRateLimited(Duration.millis(pause))
      }).pipe(scheduler.run(integration, "poll"))

    /** By index. A worker that is no longer needed may still wait for the slot of its last request. */
    const workers = new Set<number>()
    let demand = 0
    const work = Effect.fnUntraced(function*(index: number) {
      while (index < demand) yield* request(`a:${index}`)
      workers.delete(index)
    })
    return {
      name,
      concurrency,
      network,
      scheduler,
      /** Sends this many requests at a time, one after another. */
      demand: (requests: number) =>
        Effect.gen(function*() {
          demand = requests
          for (let index = 0; index < demand; index++) {
            if (workers.has(index)) continue
            workers.add(index)
            yield* Effect.forkDetach(Effect.provideService(work(index), Clock.Clock, clock))
          }
        }),
      jump: (millis: number) => void (skew += millis),
      /** Notes that its machine was suspended: the monotonic clock stood still meanwhile. */
      wasSuspended: (millis: number) => void (origin -= BigInt(millis) * 1_000_000n),
      freeze: Effect.sync(() => gate.closeUnsafe()),
      resume: Effect.sync(() => gate.openUnsafe()),
      /** Ends in order: without requests in flight. */
      end: Scope.close(scope, Exit.void)
    }
  })

  return {
    start,
    sent,
    pauses,
    inFlight: () => inFlight,
    mostInFlight: (from = 0) => Math.max(0, ...sent.flatMap(({ at, inFlight }) => at >= from ? [inFlight] : [])),
    claims: () => claims,
    /** The next request gets a rate-limit response. */
    refuse: (pause: number) => void (refusal = pause)
  }
})

export type Fleet = Effect.Success<ReturnType<typeof make>>
