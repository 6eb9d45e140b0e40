/** The slots in which a process counts its commits, when another process starts and deletes old ones. */
import { assert, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { onServer, open } from "./Opened.ts"
import * as Server from "./Server.ts"

const { emptyStore } = Server.ofFile()

/** Runs an effect at a time that is this much later. */
const later = (millis: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Clock.Clock, (clock) => {
    const moved = Object.assign(Object.create(clock) as Clock.Clock, {
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + millis)
    })
    return Effect.provideService(effect, Clock.Clock, moved)
  })

onServer("the slots of a process", () => {
  it.live("stay although it commits nothing for more than a month and another process starts (X14)", () =>
    Effect.gen(function*() {
      const url = yield* emptyStore
      const { sql, store } = yield* open(url)
      yield* store.takeOwnership("capture/0")
      yield* sql`UPDATE commit_counters SET updated_on = CURRENT_DATE - 40`
      yield* later(86_400_000)(sql`SELECT 1`)
      yield* open(url)
      // more transactions at once than the process has sessions, so that new ones are verified
      const reads = Array.from({ length: 8 }, () => sql.withTransaction(sql`SELECT pg_sleep(0.2)`))
      const exit = yield* Effect.exit(Effect.all(reads, { concurrency: "unbounded" }))
      assert.isTrue(Exit.isSuccess(exit), String(exit))
    }))
})
