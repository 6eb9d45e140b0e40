import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import {
  calling,
  gone,
  greet,
  hello,
  noting,
  pair,
  Refused,
  scope,
  setup
} from "../../test/support/fleet/CallingProcesses.ts"
import { CurrentActor } from "../store/Operators.ts"
import { Damaged, StoreError, Unavailable } from "../store/Store.ts"
import { handler, method } from "./Calls.ts"

describe("a call", () => {
  it.effect("is executed by the process that owns the scope, in the name of the operator, and leaves nothing behind", () =>
    Effect.gen(function*() {
      const { caller, owner, rows } = yield* pair
      const actors: Array<unknown> = []
      yield* owner.own(handler(greet, ({ every, name }) =>
        Effect.map(CurrentActor, (actor) => {
          actors.push(actor)
          return { text: `${name} every ${Duration.toSeconds(every)} s` }
        })))
      const actor = { actor: "operate token", address: "192.0.2.1" }
      const call = yield* Effect.forkChild(Effect.provideService(caller.call(scope, greet, hello), CurrentActor, actor))
      yield* TestClock.adjust("750 millis")
      assert.deepStrictEqual(yield* Fiber.join(call), { text: "ann every 120 s" })
      assert.deepStrictEqual(actors, [actor])
      assert.deepStrictEqual([caller.isLocal(scope), owner.isLocal(scope)], [false, true])
      assert.strictEqual(yield* rows, 0)
    }))

  it.effect.each([
    { name: "a refusal", error: new Refused({ what: "paused" }) },
    { name: "a damaged store", error: new StoreError({ reason: new Damaged({ message: "row 1" }) }) },
    { name: "a store that is unavailable", error: gone },
    { name: "a conflict", error: new StoreError({ reason: new Unavailable({ operation: "x", cause: null }) }) }
  ])("fails with the error of the method: $name", ({ error }) =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      yield* owner.own(noting(() => Effect.fail(error)).handle)
      const call = yield* Effect.forkChild(Effect.flip(caller.call(scope, greet, hello)))
      yield* TestClock.adjust("1 second")
      const found = yield* Fiber.join(call)
      assert.strictEqual(found._tag, error._tag)
      assert.strictEqual(found.message, error.message)
    }))

  it.effect("is a defect if the method has one, if the owner does not know the method, and if it cannot read the parameters", () => {
    const logged: Array<string> = []
    return Effect.gen(function*() {
      const { caller, owner } = yield* pair
      const failed = /Error: the process that executed greet failed: its log has the details/
      const other = method("greet", { ...greet, payload: Schema.Number, success: Schema.Void, error: Schema.Never })
      for (
        const known of [[noting(() => Effect.die(new Error("bug"))).handle], [], [handler(other, () => Effect.void)]]
      ) {
        const release = yield* owner.own(...known)
        const call = yield* calling(caller)
        assert.match(yield* call.after("1 second"), failed)
        yield* release
      }
      assert.lengthOf(logged, 3)
      assert.notInclude(logged.join(), "ann")
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ cause, message }) => {
      logged.push(`${String(message)} ${Cause.pretty(cause)}`)
    })])))
  })

  it.effect("is withdrawn if no process serves the scope within ten seconds, and is not executed afterwards", () =>
    Effect.gen(function*() {
      const { caller, owner, rows } = yield* pair
      const call = yield* calling(caller)
      assert.strictEqual(yield* call.after("9900 millis"), "waits")
      assert.strictEqual(yield* call.after("400 millis"), "NotTaken")
      const { executed, handle } = noting()
      yield* owner.own(handle)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([executed, yield* rows], [[], 0])
    }))

  it.effect("is not reported as not taken if a process claims it at the moment of its withdrawal", () =>
    Effect.gen(function*() {
      const { caller, owner, sql } = yield* pair
      yield* owner.take()
      caller.hooks.set("remove", Effect.orDie(sql`UPDATE calls SET state = 'running', epoch = 1`))
      const call = yield* calling(caller)
      assert.strictEqual(yield* call.after("11 seconds"), "waits")
      assert.isFalse(caller.hooks.has("remove"))
      assert.strictEqual(yield* call.after("15 seconds"), "Unanswered")
    }))

  it.effect("that is answered at the moment when its owner counts as lost succeeds", () =>
    Effect.gen(function*() {
      const { process, sql } = yield* setup
      const [caller, dead, owner] = [yield* process, yield* process, yield* process]
      yield* dead.own(noting(() => Effect.never).handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      const reply = `{"_tag":"Succeeded","value":{"text":"hello"}}`
      caller.hooks.set("remove", Effect.orDie(sql`UPDATE calls SET state = 'answered', reply = ${reply}`))
      yield* owner.take()
      assert.strictEqual(yield* call.after("1 second"), "success")
    }))

  it.effect("whose caller died is not executed after ten seconds", () =>
    Effect.gen(function*() {
      const { caller, owner, rows } = yield* pair
      yield* calling(caller)
      yield* caller.set("frozen")
      yield* TestClock.adjust("10 seconds")
      const { executed, handle } = noting()
      yield* owner.own(handle)
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual([executed, yield* rows], [[], 0])
    }))

  it.effect("waits while its scope moves to another process, which executes it once", () =>
    Effect.gen(function*() {
      const { process } = yield* setup
      const [caller, first, second] = [yield* process, yield* process, yield* process]
      const { executed, handle } = noting()
      yield* yield* first.own(handle)
      const call = yield* calling(caller)
      assert.strictEqual(yield* call.after("5 seconds"), "waits")
      yield* second.own(handle)
      assert.strictEqual(yield* call.after("1 second"), "success")
      assert.deepStrictEqual(executed, ["ann"])
    }))

  it.effect("is not executed by a frozen owner that continues after another process took over (X9)", () =>
    Effect.gen(function*() {
      const { process } = yield* setup
      const [caller, frozen, owner] = [yield* process, yield* process, yield* process]
      const [stale, current] = [noting(), noting()]
      yield* frozen.own(stale.handle)
      const call = yield* calling(caller)
      // it is about to claim the call
      yield* frozen.set("frozen")
      yield* TestClock.adjust("600 millis")
      yield* owner.take()
      yield* frozen.set("answers")
      assert.strictEqual(yield* call.after("5 seconds"), "waits")
      assert.include(frozen.statements, "claim")
      yield* owner.own(current.handle)
      assert.strictEqual(yield* call.after("1 second"), "success")
      assert.deepStrictEqual([stale.executed, current.executed], [[], ["ann"]])
    }))

  it.effect("fails soon after another process took over from an owner that died while it executed the call, and is not repeated", () =>
    Effect.gen(function*() {
      const { process, rows } = yield* setup
      const [caller, dead, owner] = [yield* process, yield* process, yield* process]
      const { executed, handle } = noting(() => Effect.never)
      yield* dead.own(handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      yield* dead.set("frozen")
      assert.strictEqual(yield* call.after("8 seconds"), "waits")
      const next = noting()
      yield* owner.own(next.handle)
      assert.strictEqual(yield* call.after("250 millis"), "Unanswered")
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([executed, next.executed, yield* rows], [["ann"], [], 0])
    }))

  it.effect("fails after 15 seconds if its owner is frozen, which is interrupted when it continues", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      const { executed, handle, interrupted } = noting(() => Effect.never)
      yield* owner.own(handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      yield* owner.set("frozen")
      assert.strictEqual(yield* call.after("13 seconds"), "waits")
      assert.strictEqual(yield* call.after("2500 millis"), "Unanswered")
      yield* owner.set("answers")
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual([executed, interrupted], [["ann"], ["ann"]])
    }))

  it.effect("may last for ten minutes", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      yield* owner.own(noting(() => Effect.delay(Effect.succeed({ text: "late" }), "10 minutes")).handle)
      const call = yield* calling(caller)
      assert.strictEqual(yield* call.after("9 minutes"), "waits")
      assert.strictEqual(yield* call.after("2 minutes"), "success")
    }))

  it.effect("is interrupted if its scope moves while it is executed, and the caller knows at once", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      const { handle, interrupted } = noting(() => Effect.never)
      const release = yield* owner.own(handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      yield* release
      assert.isFalse(owner.isLocal(scope))
      assert.deepStrictEqual(interrupted, ["ann"])
      assert.strictEqual(yield* call.after("250 millis"), "Unanswered")
    }))

  it.effect("whose owner released the scope while it claimed the call is not executed, and the caller may repeat it", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      const { executed, handle } = noting()
      const release = yield* owner.own(handle)
      const call = yield* calling(caller)
      yield* owner.set("frozen")
      yield* TestClock.adjust("600 millis")
      yield* release
      yield* owner.set("answers")
      assert.strictEqual(yield* call.after("500 millis"), "NotTaken")
      assert.deepStrictEqual(executed, [])
    }))

  it.effect("is withdrawn if its caller is interrupted before it is executed", () =>
    Effect.gen(function*() {
      const { caller, owner, rows } = yield* pair
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(call.fiber)
      assert.strictEqual(yield* rows, 0)
      const { executed, handle } = noting()
      yield* owner.own(handle)
      yield* TestClock.adjust("1 second")
      assert.isEmpty(executed)
    }))

  it.effect("is interrupted within seconds if its caller is", () =>
    Effect.gen(function*() {
      const { caller, owner, rows } = yield* pair
      const { handle, interrupted } = noting(() => Effect.never)
      yield* owner.own(handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(call.fiber)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual([interrupted, yield* rows], [["ann"], 0])
    }))

  it.effect("outlasts an outage of the store that ends within seconds", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      yield* owner.own(noting(() => Effect.delay(Effect.succeed({ text: "late" }), "3 seconds")).handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      for (const one of [caller, owner]) yield* one.set("fails")
      assert.strictEqual(yield* call.after("10 seconds"), "waits")
      for (const one of [caller, owner]) yield* one.set("answers")
      assert.strictEqual(yield* call.after("3 seconds"), "success")
    }))

  it.effect("is not reported as ended although its heartbeats failed during an outage", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      yield* owner.own(noting(() => Effect.delay(Effect.succeed({ text: "late" }), "40 seconds")).handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      for (const one of [caller, owner]) yield* one.set("fails")
      yield* TestClock.adjust("14500 millis")
      yield* caller.set("answers")
      assert.strictEqual(yield* call.after("2 seconds"), "waits")
      yield* owner.set("answers")
      assert.strictEqual(yield* call.after("30 seconds"), "success")
    }))

  it.effect("fails if the store does not answer for 15 seconds, and says that the outcome is unknown", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      yield* owner.own(noting(() => Effect.never).handle)
      const call = yield* calling(caller)
      yield* TestClock.adjust("1 second")
      yield* caller.set("fails")
      assert.strictEqual(yield* call.after("14 seconds"), "waits")
      assert.strictEqual(yield* call.after("2 seconds"), "Unanswered")
      assert.match(
        yield* Effect.map(Effect.flatMap(Fiber.join(call.fiber), Effect.flip), (error) => error.message),
        /the database did not answer .* check with `rollcall streams list`, then repeat the command if necessary/
      )
    }))

  it.effect("succeeds although looking for it and after it had a defect once", () =>
    Effect.gen(function*() {
      const { caller, owner } = yield* pair
      yield* owner.own(noting(() => Effect.delay(Effect.succeed({ text: "late" }), "20 seconds")).handle)
      const bug = Effect.die(new Error("bug"))
      for (const name of ["look", "remove"]) caller.hooks.set(name, bug)
      for (const name of ["waiting", "beat"]) owner.hooks.set(name, bug)
      const call = yield* calling(caller)
      assert.strictEqual(yield* call.after("22 seconds"), "success")
      assert.strictEqual(owner.hooks.size, 0)
    }).pipe(Effect.provide(Logger.layer([]))))

  it.effect("fails at once if it cannot be stored", () =>
    Effect.gen(function*() {
      const { process } = yield* setup
      const caller = yield* process
      yield* caller.set("fails")
      const error = yield* Effect.flip(caller.call(scope, greet, hello))
      assert.strictEqual(error.message, gone.message)
    }))
})

describe("two hundred calls at the same time", () => {
  it.effect("are each executed once, and cost as many statements of the caller as one", () =>
    Effect.gen(function*() {
      const { caller, owner, rows } = yield* pair
      const { executed, handle } = noting(({ name }) => Effect.delay(Effect.succeed({ text: name }), "1 second"))
      yield* owner.own(handle)
      const names = Array.from({ length: 200 }, (_, index) => `n${String(index).padStart(3, "0")}`)
      const call = yield* Effect.forkChild(Effect.forEach(
        names,
        (name) => caller.call(scope, greet, { ...hello, name }),
        { concurrency: "unbounded" }
      ))
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual((yield* Fiber.join(call)).map(({ text }) => text), names)
      assert.deepStrictEqual(executed.toSorted(), names)
      assert.strictEqual(yield* rows, 0)
      assert.isBelow(caller.statements.filter((name) => name === "look").length, 15)
      assert.lengthOf(owner.statements.filter((name) => name === "claim"), 1)
    }))
})

describe("a process", () => {
  it.effect("that serves 64 scopes looks for calls with one statement twice a second, and not at all without scopes", () =>
    Effect.gen(function*() {
      const { process } = yield* setup
      const [idle, owner] = [yield* process, yield* process]
      yield* Effect.forEach(
        Array.from({ length: 64 }, (_, index) => `capture/${index}`),
        (name) => owner.serve(name, [noting().handle])
      )
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(idle.statements, ["prune"])
      assert.lengthOf(owner.statements.filter((name) => name === "waiting"), 21)
      assert.lengthOf(owner.statements, 22)
    }))
})
