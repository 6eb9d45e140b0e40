/** Processes that call each other through one database, in virtual time. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import { CallError, Calls, type Handler, handler, method } from "../../../src/fleet/Calls.ts"
import * as QueuedCalls from "../../../src/fleet/QueuedCalls.ts"
import { CallQueue } from "../../../src/store/CallQueue.ts"
import { Health } from "../../../src/store/sql/Health.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { Store, StoreError, Unavailable } from "../../../src/store/Store.ts"
import { StoreFault } from "../../../src/store/StoreFault.ts"
import * as MemoryStore from "../store/MemoryStore.ts"

export class Refused extends Schema.TaggedError<Refused>()("Refused", { what: Schema.String }) {}

export const greet = method("greet", {
  check: "rollcall streams list",
  payload: Schema.Struct({ name: Schema.String, every: Schema.Duration }),
  success: Schema.Struct({ text: Schema.String }),
  error: Schema.Union([Refused, StoreError])
})
export const scope = "capture/12"
export const hello = { name: "ann", every: Duration.minutes(2) }

/** How the statements of a process are answered. */
type Connection = "answers" | "fails" | "frozen"

export const gone = new StoreError({
  reason: new Unavailable({ operation: "calls", cause: new StoreFault("lost", "postgres://db/hr", "57P01") })
})

/** One database. Each `process` is one more process that has it open. */
export const setup = Effect.gen(function*() {
  const database = yield* Layer.build(MemoryStore.client())
  const client = Context.pick(SqlClient, Health)(database)
  const sql = Context.get(client, SqlClient)

  const process = Effect.gen(function*() {
    const own = yield* Scope.fork(yield* Effect.scope)
    const context = yield* Layer.buildWithScope(
      Layer.fresh(Layer.provide(Ports.layer, Layer.succeedContext(client))),
      own
    )
    let connection: Connection = "answers"
    const continues = yield* Latch.make(true)
    const statements: Array<string> = []
    /** Runs before the next statement of this name. */
    const hooks = new Map<string, Effect.Effect<unknown, StoreError>>()
    const through = <A>(name: string, operation: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
      Effect.suspend(() => {
        statements.push(name)
        const hook = hooks.get(name)
        hooks.delete(name)
        if (hook !== undefined) return Effect.andThen(hook, operation)
        if (connection === "answers") return operation
        if (connection === "fails") return Effect.fail(gone)
        // a frozen process runs the statement once it continues
        return Effect.andThen(continues.await, through(name, operation))
      })
    const queue = Context.get(context, CallQueue)
    const connected: CallQueue["Service"] = {
      submit: (call) => through("submit", queue.submit(call)),
      waiting: (scopes) => through("waiting", queue.waiting(scopes)),
      claim: (name) => through("claim", queue.claim(name)),
      beat: (ids) => through("beat", queue.beat(ids)),
      answer: (id, reply) => through("answer", queue.answer(id, reply)),
      look: (ids) => through("look", queue.look(ids)),
      remove: (ids, state) => through("remove", queue.remove(ids, state)),
      prune: through("prune", queue.prune)
    }
    const calls = Context.get(
      yield* Layer.buildWithScope(
        Layer.fresh(Layer.provide(QueuedCalls.layer, Layer.succeed(CallQueue)(connected))),
        own
      ),
      Calls
    )
    const store = Context.get(context, Store)
    const set = (next: Connection) =>
      Effect.suspend(() => {
        connection = next
        return next === "frozen" ? continues.close : continues.open
      })
    // before the end of the process, whose time limits do not pass in virtual time
    yield* Effect.addFinalizer(() => set("answers"))
    return {
      ...calls,
      statements,
      hooks,
      set,
      take: (name = scope) => store.takeOwnership(name),
      /** Takes the scope over and serves it; returns the end of serving. */
      own: Effect.fnUntraced(function*(...handlers: ReadonlyArray<Handler>) {
        yield* store.takeOwnership(scope)
        const serving = yield* Scope.fork(own)
        yield* Scope.provide(calls.serve(scope, handlers), serving)
        // its first look for calls is over
        yield* TestClock.adjust("1 millis")
        return Scope.close(serving, Exit.void)
      })
    }
  })
  return { process, sql, rows: Effect.map(sql`SELECT id FROM calls`, ({ length }) => length) }
})

/** A process that calls, and one that can own the scope. */
export const pair = Effect.gen(function*() {
  const { process, rows, sql } = yield* setup
  return { caller: yield* process, owner: yield* process, rows, sql }
})

/** A handler that notes its executions. */
export const noting = (
  execute: (payload: typeof greet.payload.Type) => Effect.Effect<{ readonly text: string }, Refused | StoreError> = (
    { name }
  ) => Effect.succeed({ text: `hello ${name}` })
) => {
  const executed: Array<string> = []
  const interrupted: Array<string> = []
  const handle = handler(greet, (payload) =>
    Effect.suspend(() => {
      executed.push(payload.name)
      return Effect.onInterrupt(execute(payload), () => Effect.sync(() => interrupted.push(payload.name)))
    }))
  return { executed, interrupted, handle }
}

const reasonOf = <A, E>(exit: Exit.Exit<A, E>): string => {
  if (Exit.isSuccess(exit)) return "success"
  const error = Cause.squash(exit.cause)
  return error instanceof CallError ? error.reason._tag : String(error)
}

/** Starts the call. `done`: its exit after this time. */
export const calling = (caller: Calls["Service"], payload: typeof greet.payload.Type = hello) =>
  Effect.map(
    Effect.forkChild(Effect.exit(caller.call(scope, greet, payload)), { startImmediately: true }),
    (fiber) => ({
      fiber,
      after: (time: Duration.Input) =>
        Effect.map(TestClock.adjust(time), () => {
          const exit = fiber.pollUnsafe()
          return exit === undefined ? "waits" : Exit.isSuccess(exit) ? reasonOf(exit.value) : "interrupted"
        })
    })
  )
