/** Tests that the leases of request slots of every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { CurrentTransformer } from "effect/sql/Statement"
import { type LeaseClaim, RequestLeases } from "../../src/store/RequestLeases.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import type { StoreError } from "../../src/store/Store.ts"
import { testsIn } from "./StoreSamples.ts"

/** A database: each build of the layer acts as one more process that opens it. */
type Place = Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>

const duration = Duration.minutes(1)
const claimOf = (wanted: number, keep = 0, more: Partial<LeaseClaim> = {}): LeaseClaim => ({
  account: "default",
  duration,
  concurrency: 8,
  wanted,
  keep,
  pause: Duration.zero,
  ...more
})

/** The result, and how many statements it took; the begin and the commit of a transaction are not counted. */
const counted = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let statements = 0
    const count = <S>(statement: S) => {
      statements++
      return Effect.succeed(statement)
    }
    return Effect.map(Effect.provideService(effect, CurrentTransformer, count), (result) => ({ result, statements }))
  })

export const requestLeaseSuite = (name: string, place: Place) =>
  describe(`the leases of request slots (${name})`, () => {
    const open = Effect.fnUntraced(function*(client: Layer.Layer<SqlClient | Health, StoreError>) {
      const layer = RequestLeases.layer.pipe(Layer.provideMerge(Ports.layer), Layer.provideMerge(client))
      const context = yield* Layer.build(Layer.fresh(layer))
      const sql = Context.get(context, SqlClient)
      const { claim, leasesOf } = Context.get(context, RequestLeases)
      return {
        sql,
        claims: claim,
        leasesOf: Effect.map(leasesOf("default"), ({ leases, pauseLeft }) => ({
          leases: leases.map(({ concurrency, slots, wanted }) => `${slots} of ${concurrency}, wants ${wanted}`)
            .toSorted(),
          pauseLeft: Duration.toMillis(pauseLeft)
        })),
        claim: (claimed: LeaseClaim) => Effect.map(claim([claimed]), (answers) => answers.get(claimed.account)!),
        /** Lets the database's time pass for all that was written. */
        forward: (millis: number) =>
          Effect.andThen(
            sql`UPDATE request_leases SET turn_at = turn_at - ${millis}, renewed_at = renewed_at - ${millis},
              expires_at = expires_at - ${millis}`,
            sql`UPDATE request_accounts SET paused_until = paused_until - ${millis}`
          ),
        rows: Effect.map(sql`SELECT account FROM request_leases`, (rows) => rows.length)
      }
    })
    type Process = Effect.Success<ReturnType<typeof open>>
    /** Claims until the process has what it wants or cannot get more. */
    const grow = Effect.fnUntraced(function*(process: Process, wanted: number) {
      let slots = 0
      for (let time = 0; time < 5; time++) slots = (yield* process.claim(claimOf(wanted, slots))).slots
      return slots
    })
    const three = Effect.flatMap(place, (client) => Effect.all([open(client), open(client), open(client)]))
    const test = testsIn(Layer.empty, three, it.live)

    test("have no more slots than the account, and one for each process that wants one", function*([one, two, three]) {
      assert.strictEqual(yield* grow(one, 8), 7)
      assert.strictEqual(yield* grow(two, 8), 1)
      const answer = yield* three.claim(claimOf(8))
      assert.deepStrictEqual([answer.slots, answer.isContended], [0, true])
      assert.deepStrictEqual(Duration.toMillis(answer.left), 0)
      assert.oneOf((yield* one.claim(claimOf(8, 7))).goal, [2, 3])
      assert.strictEqual((yield* one.claim(claimOf(3, 3))).slots, 3)
      assert.strictEqual(yield* grow(three, 2), 2)
    })

    test("of processes that claim at the same time never have more slots than the account", function*([...processes]) {
      for (let round = 0; round < 20; round++) {
        const claimAll = (wanted: number) =>
          Effect.forEach(processes, (process) => process.claim(claimOf(wanted, 0, { concurrency: 1 })), {
            concurrency: "unbounded"
          })
        assert.deepStrictEqual((yield* claimAll(1)).map(({ slots }) => slots).sort(), [0, 0, 1])
        yield* claimAll(0)
      }
    })

    test("expire by the time of the database, not earlier (X9)", function*([dead, heir]) {
      yield* grow(dead, 8)
      // the time of the database passes during the test too
      yield* dead.forward(50_000)
      assert.strictEqual(yield* grow(heir, 8), 1)
      yield* dead.forward(10_000)
      assert.strictEqual(yield* grow(heir, 8), 7)
    })

    test("that expired are not renewed: the process gets the slots that are free (X9)", function*([frozen, heir]) {
      yield* grow(frozen, 8)
      yield* frozen.forward(60_000)
      yield* grow(heir, 8)
      assert.strictEqual((yield* frozen.claim(claimOf(8, 7))).slots, 1)
    })

    test("are renewed when they are older than a second and a half, and else only read", function*([one]) {
      const left = Effect.map(one.claim(claimOf(1, 1)), (answer) => Duration.toMillis(answer.left))
      assert.strictEqual(yield* left, 60_000)
      yield* one.forward(100)
      assert.isAtMost(yield* left, 59_900)
      yield* one.forward(1_400)
      assert.strictEqual(yield* left, 60_000)
    })

    test(
      "are written again after a transaction whose outcome is unknown, because it may still be committed (X10)",
      function*([one, other]) {
        yield* one.claim(claimOf(1, 1))
        const unanswered = one.claim(claimOf(2, 1)).pipe(Effect.timeoutOption("1 second"))
        const found = yield* other.sql`UPDATE request_accounts SET paused_until = 0 RETURNING account`.pipe(
          Effect.andThen(unanswered),
          other.sql.withTransaction
        )
        assert.isTrue(Option.isNone(found))
        yield* one.forward(500)
        assert.strictEqual(Duration.toMillis((yield* one.claim(claimOf(1, 1))).left), 60_000)
      }
    )

    test(
      "without slots and demand are removed, and those of dead processes with the next change",
      function*([one, two]) {
        yield* grow(one, 3)
        yield* two.claim(claimOf(1))
        assert.strictEqual(yield* one.rows, 2)
        assert.strictEqual((yield* two.claim(claimOf(0))).slots, 0)
        assert.strictEqual(yield* one.rows, 1)
        yield* one.forward(61_000)
        yield* two.claim(claimOf(1))
        assert.strictEqual(yield* one.rows, 1)
      }
    )

    test("belong to an account: one statement claims those of several", function*([one, two]) {
      yield* one.claims([claimOf(1, 0, { account: "us" }), claimOf(1, 0, { account: "eu", concurrency: 1 })])
      const answers = yield* two.claims([
        claimOf(1, 0, { account: "eu", concurrency: 1 }),
        claimOf(1, 0, { account: "us", pause: Duration.seconds(5) })
      ])
      assert.deepStrictEqual([answers.get("eu")?.slots, answers.get("us")?.slots], [0, 1])
      const paused = [...answers].map(([account, { pauseLeft }]) => [account, Duration.toMillis(pauseLeft)] as const)
      assert.strictEqual(new Map(paused).get("eu"), 0)
      assert.isAtLeast(new Map(paused).get("us") ?? 0, 4_000)
    })

    test(
      "of many accounts take as many statements as those of one, and each has its own slots and its own pause",
      function*([one, two]) {
        for (const count of [1, 5, 20, 70]) {
          // not in the order of their names
          const accounts = Array.from({ length: count }, (_, index) => `${count - index} of ${count}`)
          const claims = (wanted: number, keep: number, pause = 0) =>
            accounts.map((account, index) =>
              claimOf(wanted, keep, { account, concurrency: 2 + index, pause: Duration.seconds(pause * index) })
            )
          const first = yield* counted(one.claims(claims(1, 0, 100)))
          const unchanged = yield* counted(one.claims(claims(1, 1)))
          yield* one.forward(2_000)
          const renewed = yield* counted(one.claims(claims(1, 1)))
          const stored = yield* one.sql<{ account: string; concurrency: number }>`
              SELECT account, concurrency FROM request_leases WHERE slots = 1 AND wanted = 1 ORDER BY concurrency`
          const returned = yield* counted(one.claims(claims(0, 0)))
          assert.strictEqual(yield* one.rows, 0)
          const ofOther = yield* two.claims(claims(0, 0))

          const statements = [first, unchanged, renewed, returned].map((each) => each.statements)
          assert.deepStrictEqual(statements, [5, 1, 5, 4], `${count} accounts`)
          assert.deepStrictEqual(
            stored.map(({ account, concurrency }) => [account, concurrency]),
            accounts.map((account, index) => [account, 2 + index])
          )
          for (const [index, account] of accounts.entries()) {
            const slots = [first, unchanged, renewed, returned].map(({ result }) => result.get(account)?.slots)
            assert.deepStrictEqual(slots, [1, 1, 1, 0], account)
            assert.strictEqual(Duration.toMillis(renewed.result.get(account)!.left), 60_000, account)
            const left = Duration.toMillis(ofOther.get(account)!.pauseLeft) / 1000
            assert.isTrue(left <= Math.max(0, 100 * index - 2) && left > 100 * index - 60, `${account}: ${left}`)
          }
        }
      }
    )

    test("carry the pauses of the account to every process; a pause is never shortened (R1)", function*([one, two]) {
      const pauseLeft = (process: Process, pause: Duration.Input) =>
        Effect.map(
          process.claim(claimOf(0, 0, { pause: Duration.fromInputUnsafe(pause) })),
          (answer) => Duration.toMillis(answer.pauseLeft)
        )
      assert.isAtLeast(yield* pauseLeft(one, "30 seconds"), 30_000)
      yield* two.claim(claimOf(1, 0, { pause: Duration.seconds(5) }))
      yield* one.forward(10_000)
      const left = yield* pauseLeft(two, "0 seconds")
      assert.isTrue(15_000 < left && left <= 20_000, String(left))
      yield* one.forward(20_000)
      assert.strictEqual(yield* pauseLeft(one, "0 seconds"), 0)
      assert.strictEqual(yield* one.rows, 0)
    })

    test(
      "are read by every process: those of all processes until they expire, and the pause",
      function*([one, two, idle]) {
        assert.deepStrictEqual(yield* idle.leasesOf, { leases: [], pauseLeft: 0 })
        yield* one.claims([claimOf(2, 0, { account: "eu" })])
        yield* grow(one, 3)
        yield* two.claim(claimOf(1, 0, { concurrency: 6, pause: Duration.seconds(30) }))
        for (const process of [one, two, idle]) {
          const { leases, pauseLeft } = yield* process.leasesOf
          assert.deepStrictEqual(leases, ["1 of 6, wants 1", "3 of 8, wants 3"])
          assert.isTrue(20_000 < pauseLeft && pauseLeft <= 30_000, String(pauseLeft))
        }
        yield* one.forward(60_000)
        assert.deepStrictEqual(yield* idle.leasesOf, { leases: [], pauseLeft: 0 })
      }
    )

    test("are not counted among the commits that a database must have (X14)", function*([one]) {
      const counted = one.sql.onDialectOrElse({
        pg: () =>
          Effect.map(one.sql`SELECT counter FROM commit_counters ORDER BY slot`, (rows) => JSON.stringify(rows)),
        orElse: () => Effect.succeed("[]")
      })
      const before = yield* counted
      yield* grow(one, 8)
      assert.strictEqual(yield* counted, before)
    })
  })
