/** A program in which one of two handlers leaks memory. It prints the annotations of the log line about the leak, and ends. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Watchdog from "../../../src/delivery/engine/Watchdog.ts"

const kept: Array<Array<number>> = []

await Effect.runPromise(
  Effect.gen(function*() {
    const logged = yield* Deferred.make<Readonly<Record<string, unknown>>>()
    const logger = Logger.make<unknown, void>(({ fiber }) => {
      Deferred.doneUnsafe(logged, Effect.succeed(fiber.getRef(References.CurrentLogAnnotations)))
    })
    yield* Effect.gen(function*() {
      const { watched } = yield* Watchdog.make
      const tidy = watched({ plugin: "tidy", handler: "h" })(
        Effect.sync(() => Array.from({ length: 20_000 }, Math.random))
      )
      const leaky = watched({ plugin: "leaky", handler: "h" })(
        Effect.sync(() => kept.push(Array.from({ length: 10_000 }, Math.random)))
      )
      const work = Effect.gen(function*() {
        for (let turn = 0;; turn++) {
          for (let times = (turn * 7) % 5; times > 0; times--) yield* tidy
          for (let times = (turn * 3) % 7; times > 0; times--) yield* leaky
          yield* Effect.sleep(1)
        }
      })
      const found = yield* Effect.raceFirst(Deferred.await(logged), work)
      process.stdout.write(JSON.stringify(found))
    }).pipe(Effect.scoped, Effect.provide(Logger.layer([logger])))
  })
)
process.exit(0)
