/**
 * The side of a call that executes it: claims the calls for the scopes that this process serves, and stores their replies.
 *
 * Details
 * One statement per interval looks for calls, however many scopes are served. Each call that is being executed has a heartbeat, which
 * also shows whether its caller still waits.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Scope from "effect/Scope"
import { CallQueue, type ClaimedCall } from "../store/CallQueue.ts"
import { CurrentActor } from "../store/Operators.ts"
import { retryWhileStoreUnavailable } from "../store/Recovery.ts"
import type { Calls, End, Handler } from "./Calls.ts"

const checkInterval = "500 millis"
const beatInterval = "2 seconds"
/** Maximum number of scopes whose calls are claimed at the same time. */
const claims = 4
/** For how long storing a reply is retried during an outage of the store. The caller does not wait longer either. */
const longestReplyRetry = "1 minute"
/** How long the handover of a scope waits for the replies of interrupted calls. */
const longestHandover = "1 second"

interface Served {
  readonly handlers: ReadonlyArray<Handler>
  /** The `Scope` in which calls are executed. They are interrupted when it closes, and later calls are interrupted at once. */
  readonly executions: Scope.Closeable
}

interface Running {
  readonly served: Served
  readonly execution: Fiber.Fiber<string>
  replying: Fiber.Fiber<void> | null
}

const withoutValue = (_tag: End) => JSON.stringify({ _tag })

const replyOf = (method: string, exit: Exit.Exit<string>): Effect.Effect<string> => {
  if (Exit.isSuccess(exit)) return Effect.succeed(exit.value)
  if (Cause.hasInterruptsOnly(exit.cause)) return Effect.succeed(withoutValue("Interrupted"))
  return Effect.logError("a command from another process failed", exit.cause).pipe(
    Effect.annotateLogs({ command: method }),
    Effect.as(withoutValue("Died"))
  )
}

export const make: Effect.Effect<Pick<Calls["Service"], "isLocal" | "serve">, never, CallQueue | Scope.Scope> = Effect
  .gen(function*() {
    const queue = yield* CallQueue
    const scope = yield* Effect.scope
    const served = new Map<string, Served>()
    const running = new Map<string, Running>()
    const isServing = yield* Latch.make(false)

    const storeReply = (id: string, reply: string) =>
      retryWhileStoreUnavailable(queue.answer(id, reply)).pipe(
        Effect.timeout(longestReplyRetry),
        Effect.catch((error) =>
          Effect.annotateLogs(Effect.logWarning("the reply to a command from another process was not stored"), {
            why: error.message
          })
        )
      )

    const execute = ({ handlers }: Served, { actor, method, payload }: ClaimedCall): Effect.Effect<string> => {
      if (payload === null) return Effect.die(new Error("the parameters cannot be decrypted: check `encryptionKey`"))
      const handler = handlers.find(({ name }) => name === method)
      return handler === undefined
        ? Effect.die(new Error("this version does not know the command"))
        : Effect.provideService(handler.run(payload), CurrentActor, actor)
    }

    const start = Effect.fnUntraced(function*(current: Served, call: ClaimedCall) {
      const execution = yield* Effect.forkIn(execute(current, call), current.executions)
      const one: Running = { served: current, execution, replying: null }
      running.set(call.id, one)
      one.replying = yield* Fiber.await(execution).pipe(
        Effect.flatMap((exit) => replyOf(call.method, exit)),
        Effect.flatMap((reply) => storeReply(call.id, reply)),
        Effect.ensuring(Effect.sync(() => running.delete(call.id))),
        Effect.forkIn(scope)
      )
    })

    const claim = Effect.fnUntraced(function*(name: string) {
      const calls = yield* queue.claim(name)
      const current = served.get(name)
      yield* Effect.forEach(
        calls,
        (call) => current === undefined ? storeReply(call.id, withoutValue("Unexecuted")) : start(current, call),
        { discard: true }
      )
    })

    const check = Effect.suspend(() => queue.waiting([...served.keys()])).pipe(
      Effect.flatMap(Effect.forEach((name) => Effect.ignore(claim(name)), { concurrency: claims, discard: true })),
      // `Health` logs outages; the next check tries again
      Effect.ignore,
      Effect.catchDefect((defect) =>
        Effect.logError("could not look for commands from other processes; trying again", defect)
      )
    )
    yield* isServing.await.pipe(
      Effect.andThen(check),
      Effect.andThen(Effect.sleep(checkInterval)),
      Effect.forever,
      Effect.forkScoped
    )

    const beat = Effect.gen(function*() {
      const ids = [...running.keys()]
      if (ids.length === 0) return
      const wanted = new Set(yield* queue.beat(ids))
      for (const id of ids) if (!wanted.has(id)) running.get(id)?.execution.interruptUnsafe()
    })
    yield* Effect.ignore(beat).pipe(
      Effect.catchDefect((defect) =>
        Effect.logError("could not report that commands from other processes are running; trying again", defect)
      ),
      Effect.delay(beatInterval),
      Effect.forever,
      Effect.forkScoped
    )

    const stop = Effect.fnUntraced(function*(name: string, current: Served) {
      if (served.get(name) === current) served.delete(name)
      if (served.size === 0) isServing.closeUnsafe()
      yield* Scope.close(current.executions, Exit.void)
      const replying = [...running.values()].flatMap((one) => one.served === current ? one.replying ?? [] : [])
      yield* Effect.timeoutOption(Fiber.awaitAll(replying), longestHandover)
    })

    return {
      isLocal: (name) => served.has(name),
      serve: (name, handlers) =>
        Effect.acquireRelease(
          Effect.map(Scope.make(), (executions) => {
            const current: Served = { handlers, executions }
            served.set(name, current)
            isServing.openUnsafe()
            return current
          }),
          (current) => stop(name, current)
        ).pipe(Effect.asVoid)
    }
  })
