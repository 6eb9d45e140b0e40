/**
 * Two members of a fleet on a real database that refuses a step of the placement, or loses the connection during the step. A member runs a
 * few shards, and writes for each of them behind the fence of the store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import { SqlClient } from "effect/sql/SqlClient"
import { captureScopes } from "../../../src/domain/Shard.ts"
import * as ClusterPlacement from "../../../src/fleet/ClusterPlacement.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Fencing from "../../../src/store/sql/Fencing.ts"
import { runMissing } from "../../../src/store/sql/Migrations.ts"
import type { StoreError } from "../../../src/store/Store.ts"
import { until } from "../../fault/kill/Patience.ts"
import { type Cut, cuttable } from "../postgres/Cut.ts"
import * as Server from "../postgres/Server.ts"

const { missing } = Server
const { emptyStore } = Server.ofFile()

/** Every fourth shard, so that the members cost little. */
const scopes = captureScopes.filter((_, shard) => shard % 4 === 0)

/** A step of the placement, as a statement of `effect/cluster` about its table of locks. */
const steps = {
  takes: { operation: "INSERT", text: 'INSERT INTO "fleet_locks"' },
  releases: { operation: "DELETE", text: 'DELETE FROM "fleet_locks"' },
  renews: { operation: "UPDATE", text: 'UPDATE "fleet_locks"' }
} as const
type Step = keyof typeof steps

interface Member {
  readonly name: string
  /** The shards that it runs at this moment. */
  readonly running: Set<string>
  /** Writes that the fence refused. */
  readonly refused: Array<string>
  readonly cut: (how: Cut) => void
}

const fleet = Effect.gen(function*() {
  const url = yield* emptyStore
  const sql = Context.get(yield* Layer.build(Postgres.client({ url: Redacted.make(url), name: "store" })), SqlClient)
  yield* sql`CREATE TABLE effects (id bigserial PRIMARY KEY, scope text NOT NULL, epoch bigint NOT NULL)`
  const { fence } = Fencing.make(sql)
  const members: Array<Member> = []
  /** Shards that two members ran at once. */
  const doubles: Array<string> = []

  const write = (owner: { readonly scope: string; readonly epoch: number }): Effect.Effect<void, StoreError> =>
    sql.withTransaction(
      Effect.andThen(
        fence(owner),
        Effect.orDie(sql`INSERT INTO effects ${sql.insert({ scope: owner.scope, epoch: owner.epoch })}`)
      )
    ).pipe(Effect.catchTag("SqlError", Effect.die), Effect.asVoid)

  /** `cut`: from its first statement on. `lingers`: how long the member needs for the last write of this shard when it must give it up. */
  const join = Effect.fnUntraced(function*(
    name: string,
    { cut, lingers = {} }: {
      readonly cut?: Cut | undefined
      readonly lingers?: Readonly<Record<string, Duration.Input>>
    } = {}
  ) {
    const proxy = yield* cuttable(url)
    if (cut !== undefined) proxy.cut(cut)
    const placement = yield* Layer.build(Layer.fresh(Placement.layer))
    const { takeOwnership } = Fencing.makeTakeover(sql, name, () => 1)
    const running = new Set<string>()
    const refused: Array<string> = []
    for (const scope of scopes) {
      const run = Effect.gen(function*() {
        if (members.some((member) => member.running.has(scope))) doubles.push(scope)
        running.add(scope)
        const owner = yield* Effect.orDie(takeOwnership(scope))
        const lasting = lingers[scope]
        const written = Effect.catch(write(owner), () => Effect.sync(() => void refused.push(scope)))
        if (lasting !== undefined) {
          yield* Effect.onInterrupt(Effect.never, () => Effect.andThen(Effect.sleep(lasting), written))
        }
        return yield* Effect.forever(Effect.andThen(written, Effect.sleep("500 millis")))
      }).pipe(Effect.ensuring(Effect.sync(() => running.delete(scope))))
      yield* Context.get(placement, Placement).singleton(scope, run)
    }
    const client = Postgres.leaseClient({ url: Redacted.make(proxy.url), name })
    yield* Effect.forkScoped(Effect.provideContext(ClusterPlacement.run(name, client, runMissing), placement))
    const member: Member = { name, running, refused, cut: proxy.cut }
    members.push(member)
    return member
  })

  const shared = (...among: ReadonlyArray<Member>) =>
    until(
      `${among.map(({ name }) => name).join(" and ")} to run all shards`,
      Effect.sync(() => among.map(({ running }) => running.size)),
      (counts) => counts.reduce((sum, count) => sum + count, 0) === scopes.length && counts.every((count) => count > 0)
    )

  /** Every shard is written after the call, each by its newest owner, and no earlier owner wrote after a later one. */
  const judge = Effect.fnUntraced(function*(shardsThatOverlap: ReadonlyArray<string> = []) {
    const [{ newest = 0 } = {}] = yield* sql<{ newest: number }>`SELECT max(id) AS newest FROM effects`
    yield* until(
      "every shard to be written",
      sql<{ scope: string }>`SELECT DISTINCT scope FROM effects WHERE id > ${Number(newest)}`,
      (rows) => rows.length === scopes.length
    )
    const late = yield* sql`
      SELECT DISTINCT later.scope FROM effects earlier
      JOIN effects later ON later.scope = earlier.scope AND later.id > earlier.id AND later.epoch < earlier.epoch`
    assert.deepStrictEqual([late, doubles], [[], shardsThatOverlap])
  })

  /** The database refuses a step to a member from now on; `seen`: how often it has refused it. */
  const refusals = Effect.gen(function*() {
    yield* sql`CREATE SEQUENCE refusals`
    yield* sql`CREATE TABLE refused (operation text NOT NULL, address text NOT NULL)`
    yield* sql`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (
          SELECT 1 FROM rollcall.refused
          WHERE operation IN (CASE TG_TABLE_NAME WHEN 'fleet_locks' THEN TG_OP END, 'ALL')
            AND address = COALESCE(to_jsonb(NEW), to_jsonb(OLD)) ->> 'address'
        ) THEN
          PERFORM nextval('rollcall.refusals');
          RAISE EXCEPTION 'refused';
        END IF;
        RETURN COALESCE(NEW, OLD);
      END $$`
    for (const table of ["fleet_locks", "fleet_runners"]) {
      yield* sql`
        CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON ${sql(table)} FOR EACH ROW EXECUTE FUNCTION refuse()`
    }
    return {
      begin: (step: Step | "all", { name }: Pick<Member, "name">) =>
        sql`INSERT INTO refused VALUES (${step === "all" ? "ALL" : steps[step].operation}, ${`${name}:0`})`,
      end: sql`DELETE FROM refused`,
      seen: Effect.map(
        sql<{ seen: number }>`SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seen FROM refusals`,
        ([row]) => Number(row?.seen)
      )
    }
  })

  return { join, shared, judge, refusals }
})

const quietly = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provideService(effect, References.MinimumLogLevel, "None")

describe.skipIf(missing !== null)(
  `a step of the placement that fails${missing === null ? "" : `, skipped: ${missing}`}`,
  () => {
    for (const step of ["takes", "releases", "renews"] as const) {
      for (const delivered of [false, true]) {
        it.live(
          `a member whose connection is cut ${
            delivered ? "after" : "before"
          } the database gets the statement that ${step} shards continues, and no shard has two owners (X9)`,
          () =>
            Effect.gen(function*() {
              const { join, judge, shared } = yield* fleet
              const one = yield* join("one")
              yield* shared(one)
              let isCut = false
              const cut = { nth: 1, containing: steps[step].text, delivered, meanwhile: () => void (isCut = true) }
              // the locks that a member renews are in the text of its statement, which it sends again when they change
              if (step !== "takes") one.cut(cut)
              const two = yield* join("two", step === "takes" ? { cut } : {})
              yield* until("the cut", Effect.sync(() => isCut), (is) => is)
              yield* shared(one, two)
              yield* judge()
            }).pipe(Effect.scoped, quietly)
        )
      }

      it.live(
        `a member whose statement that ${step} shards is refused continues once it is not, and no shard has two owners (X9)`,
        () =>
          Effect.gen(function*() {
            const { join, judge, refusals, shared } = yield* fleet
            const one = yield* join("one")
            yield* shared(one)
            const { begin, end, seen } = yield* refusals
            const victim = step === "takes" ? { name: "two" } : one
            if (step !== "renews") yield* begin(step, victim)
            const two = yield* join("two")
            if (step === "renews") {
              yield* shared(one, two)
              yield* begin(step, victim)
            }
            yield* until("two refusals", seen, (count) => count >= 2)
            yield* end
            yield* shared(one, two)
            yield* judge()
          }).pipe(Effect.scoped, quietly)
      )
    }

    it.live(
      "a member that cannot renew its locks loses its shards to another one, and the fence refuses a write that it ends too late (X9, I10)",
      () =>
        Effect.gen(function*() {
          const { join, judge, refusals, shared } = yield* fleet
          const late = scopes[3]!
          const one = yield* join("one", { lingers: { [late]: "9 seconds" } })
          yield* shared(one)
          const { begin, end } = yield* refusals
          yield* begin("all", one)
          const two = yield* join("two")
          yield* until(
            "the other one to run all shards",
            Effect.sync(() => two.running.size),
            (count) => count === scopes.length
          )
          yield* until("the late write to end", Effect.sync(() => one.running.size), (count) => count === 0)
          assert.deepStrictEqual(one.refused, [late])
          yield* end
          yield* shared(one, two)
          yield* judge([late])
        }).pipe(Effect.scoped, quietly)
    )
  }
)
