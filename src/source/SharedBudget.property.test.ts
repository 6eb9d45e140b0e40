/**
 * Random histories of a fleet: processes are killed, frozen, cut off from the database and set to another time, and the API limits its
 * rate. There are never more requests in flight than the account's concurrency, even while the setting changes, and in the end every
 * process is served.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { runs } from "../../test/support/Runs.ts"
import * as Fleet from "../../test/support/source/Fleet.ts"

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const process = upTo(3)
const Step = Schema.Union([
  Schema.TaggedStruct("demand", { process, requests: upTo(12) }),
  Schema.TaggedStruct("freeze", { process }),
  Schema.TaggedStruct("resume", { process }),
  Schema.TaggedStruct("kill", { process }),
  Schema.TaggedStruct("cut", { process, where: Schema.Literals(["none", "before", "after"]) }),
  Schema.TaggedStruct("slow", { process, before: upTo(6_000), after: upTo(6_000) }),
  Schema.TaggedStruct("jump", {
    process,
    millis: Schema.Int.check(Schema.isBetween({ minimum: -60_000, maximum: 60_000 }))
  }),
  Schema.TaggedStruct("refuse", { pause: upTo(10_000) })
])
/** Steps, each with the time until the next one, in ms. */
const Steps = Schema.Array(Schema.Tuple([Step, upTo(8_000)]))

const now = Effect.clockWith((clock) => clock.currentTimeMillis)

/** The concurrency that a process is configured with. While the setting changes, a fleet has processes of both kinds. */
const Concurrency = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 20 }))

/** Four processes live through the steps; a process that is killed is replaced. The processes have these two concurrencies in turn. */
const play = Effect.fnUntraced(function*(
  seed: number,
  [even, odd]: readonly [number, number],
  steps: typeof Steps.Type
) {
  const fleet = yield* Fleet.make(seed)
  let started = 0
  const start = (requests: number) =>
    Effect.tap(
      fleet.start(`process ${++started}`, started % 2 === 0 ? even : odd, (random) =>
        random.boolean(0.1) ? random.int(0, 4_000) : 0),
      (one) =>
        one.demand(requests)
    )
  const processes = yield* Effect.forEach([0, 3, 6, 9], start)
  const demands = [0, 3, 6, 9]
  /** By name: since when the process may neither report a pause nor learn of one in time. */
  const troubledSince = new Map<string, number>()
  for (const [step, wait] of steps) {
    if (step._tag === "refuse") fleet.refuse(step.pause)
    else {
      const one = processes[step.process]!
      if (!troubledSince.has(one.name) && !/demand|jump/.test(step._tag)) troubledSince.set(one.name, yield* now)
      if (step._tag === "demand") yield* one.demand(demands[step.process] = step.requests)
      else if (step._tag === "resume") yield* one.resume
      else if (step._tag === "cut") one.network.cut = step.where
      else if (step._tag === "slow") Object.assign(one.network, { before: step.before, after: step.after })
      else if (step._tag === "jump") one.jump(step.millis)
      else yield* one.freeze
      if (step._tag === "kill") processes[step.process] = yield* start(demands[step.process]!)
    }
    yield* TestClock.adjust(wait)
  }
  return { fleet, processes, troubledSince }
})

describe("the request budget that processes share", () => {
  it.effect.prop(
    "is never exceeded, pauses reach all processes within a second, and no process starves, whatever happens to the others (R1, X9, X10, W4)",
    [upTo(1_000_000), Schema.Tuple([Concurrency, Concurrency]), Steps],
    ([seed, concurrencies, steps]) =>
      Effect.gen(function*() {
        const { fleet, processes, troubledSince } = yield* play(seed, concurrencies, steps)
        for (const one of processes) {
          Object.assign(one.network, { before: 0, after: 0, cut: "none" })
          yield* one.resume
          yield* one.demand(3)
        }
        // every lease of a dead process expires, and every pause ends
        yield* TestClock.adjust(Fleet.leaseMillis + 15_000)
        const from = yield* now
        // the longest requests of all others, one after another, and the time until the slot is passed on
        yield* TestClock.adjust("40 seconds")
        for (const one of processes) yield* one.freeze

        assert.isAtMost(fleet.mostInFlight(), Math.max(...concurrencies))
        // once every process has demand, the smallest concurrency of the processes applies to all
        assert.isAtMost(fleet.mostInFlight(from), Math.min(...processes.map(({ concurrency }) => concurrency)))
        const isHealthyAt = (name: string, at: number) => at < (troubledSince.get(name) ?? Infinity)
        const hasty = fleet.sent.filter(({ at, by }) =>
          fleet.pauses.some((pause) =>
            at > pause.at + 1_000 && at < pause.until && isHealthyAt(pause.by, pause.at + 1_000) && isHealthyAt(by, at)
          )
        )
        assert.deepStrictEqual(hasty, [])
        const served = new Set(fleet.sent.flatMap(({ at, by }) => at >= from ? [by] : []))
        assert.deepStrictEqual(processes.filter(({ name }) => !served.has(name)).map(({ name }) => name), [])
      }).pipe(Effect.scoped, Effect.provideService(References.MinimumLogLevel, "None")),
    { arbitrary: { runs: runs(8), size: 30 } }
  )
})
