import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { storeFile } from "../../../test/support/TemporaryFolder.ts"
import * as Sqlite from "../../store/sqlite/Sqlite.ts"
import { misconfigured, Store } from "../../store/Store.ts"
import { StoredSessions } from "../../store/StoredSessions.ts"
import type { Scope } from "../request/Caller.ts"
import { cookieFor, Sessions } from "./Sessions.ts"
import { type Grant, Tokens } from "./Tokens.ts"

const address = "192.0.2.1"

/** The tokens of each right, in files: the test replaces them. */
const makeTokens = () => {
  const current: Record<Scope, ReadonlyArray<string>> = { operate: ["operate-token"], read: ["read-token"] }
  const source = (scope: Scope) => {
    const read = Effect.sync(() => current[scope].map((token) => Redacted.make(token)))
    return { initial: Effect.runSync(read), file: { variable: scope, read } }
  }
  return { current, layer: Tokens.layer({ token: source("operate"), readToken: source("read") }) }
}

const over = (tokens: ReturnType<typeof makeTokens>) =>
  Sessions.layer.pipe(Layer.provideMerge(tokens.layer), Layer.provideMerge(MemoryStore.layer()))
const inProcess = Effect.provide(Layer.unwrap(Effect.sync(() => over(makeTokens()))))

const grant = (scope: Scope): Effect.Effect<Grant, never, Tokens> =>
  Effect.map(Tokens, ({ check }) => check(`${scope}-token`)!)
const startWith = Effect.fnUntraced(function*(scope: Scope, from = address) {
  const { start } = yield* Sessions
  return yield* start(yield* grant(scope), from)
})
const action = (target: string) => (count: number) => ({
  at: 0,
  command: "sessions.end",
  target,
  detail: `${count} ended`
})

describe("a session", () => {
  it.effect("ends after half an hour without a request, and a page that reloads itself is not a request", () =>
    Effect.gen(function*() {
      const { find } = yield* Sessions
      const { secret } = yield* startWith("operate")
      yield* TestClock.adjust("29 minutes")
      assert.isNotNull(yield* find(secret, true))
      yield* TestClock.adjust("29 minutes")
      assert.isNotNull(yield* find(secret, false))
      yield* TestClock.adjust("1 minute")
      assert.isNull(yield* find(secret, true))
    }).pipe(inProcess))

  it.effect("ends after twelve hours although it is used", () =>
    Effect.gen(function*() {
      const { find } = yield* Sessions
      const { secret } = yield* startWith("read")
      for (let minutes = 0; minutes < 12 * 60; minutes += 20) {
        const caller = yield* find(secret, true)
        assert.deepStrictEqual([caller?.scope, caller?.authenticatedBy], ["read", "session"])
        yield* TestClock.adjust("20 minutes")
      }
      assert.isNull(yield* find(secret, true))
    }).pipe(inProcess))

  it.effect("ends when the user signs out, and no other secret finds it", () =>
    Effect.gen(function*() {
      const { end, find } = yield* Sessions
      const { secret: one } = yield* startWith("operate")
      const { secret: two } = yield* startWith("operate")
      assert.notStrictEqual(one, two)
      assert.lengthOf(Buffer.from(one.split(".")[0] ?? "", "base64url"), 32)
      for (const wrong of [undefined, "", "x", one.slice(1), `${one} `]) assert.isNull(yield* find(wrong, true))
      yield* end(one)
      assert.isNull(yield* find(one, true))
      assert.isNotNull(yield* find(two, true))
    }).pipe(inProcess))

  it.effect("ends when the token that it began with is replaced", () => {
    const tokens = makeTokens()
    return Effect.gen(function*() {
      const { end, endSelected, find, list } = yield* Sessions
      const { secret } = yield* startWith("operate")
      const { secret: other } = yield* startWith("read")
      tokens.current.operate = ["new-token", "operate-token"]
      yield* TestClock.adjust("1 minute")
      assert.isNotNull(yield* find(secret, false))
      tokens.current.operate = ["new-token"]
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual((yield* list).map(({ scope }) => scope), ["read"])
      assert.isNull(yield* find(secret, false))
      assert.isNotNull(yield* find(other, false))
      yield* end(secret)
      assert.strictEqual(yield* endSelected({ scope: "operate" }, action("all")), 0)
      assert.isEmpty(yield* Effect.flatMap(Store, ({ auditLog }) => auditLog(10)))
    }).pipe(Effect.provide(over(tokens)))
  })

  it.effect("of the user who was idle longest ends if there are more than a hundred with the same right", () =>
    Effect.gen(function*() {
      const { find } = yield* Sessions
      const started = yield* Effect.forEach(
        Array.from({ length: 100 }),
        () => Effect.andThen(TestClock.adjust("1 milli"), startWith("operate"))
      )
      const secrets = started.map(({ secret }) => secret)
      yield* find(secrets[0], true)
      yield* startWith("operate")
      assert.isNotNull(yield* find(secrets[0], false))
      assert.isNull(yield* find(secrets[1], false))
      assert.isNotNull(yield* find(secrets[2], false))
    }).pipe(inProcess))

  it.effect("of an operator does not end because of sessions with the read token", () =>
    Effect.gen(function*() {
      const { find, list } = yield* Sessions
      const { secret } = yield* startWith("operate")
      for (let count = 0; count < 101; count++) yield* startWith("read")
      assert.isNotNull(yield* find(secret, false))
      assert.lengthOf(yield* list, 101)
    }).pipe(inProcess))

  it.effect("is listed with its times, by an id that is not its secret", () =>
    Effect.gen(function*() {
      const { endSelected, find, list } = yield* Sessions
      const { secret } = yield* startWith("read")
      yield* TestClock.adjust("20 minutes")
      const { secret: other } = yield* startWith("operate", "192.0.2.2")
      yield* TestClock.adjust("5 minutes")
      const caller = yield* find(secret, true)
      const [operating, reading, ...none] = yield* list
      assert.isEmpty(none)
      const minutes = (count: number) => count * 60_000
      assert.match(reading?.seal ?? "", /^[\w-]{43}$/)
      assert.deepStrictEqual(reading, {
        id: caller?.session ?? "",
        scope: "read",
        seal: reading?.seal ?? "",
        address,
        startedAt: 0,
        lastRequestAt: minutes(25),
        expiresAt: minutes(55),
        left: minutes(30)
      })
      assert.strictEqual(operating?.address, "192.0.2.2")
      for (const part of [secret, ...secret.split(".")]) assert.notInclude(JSON.stringify(yield* list), part)
      assert.isNull(yield* find(reading?.id, true))
      const which = { id: reading?.id ?? "" }
      assert.strictEqual(yield* endSelected(which, action("one")), 1)
      assert.isNull(yield* find(secret, true))
      assert.isNotNull(yield* find(other, true))
      assert.strictEqual(yield* endSelected(which, action("one again")), 0)
      const log = yield* Effect.flatMap(Store, ({ auditLog }) => auditLog(10))
      assert.deepStrictEqual(log.map(({ detail, target }) => [target, detail]), [["one", "1 ended"]])
    }).pipe(inProcess))

  it("has a cookie that scripts cannot read and other sites do not send, over TLS only for TLS", () => {
    const options = { httpOnly: true, path: "/", sameSite: "strict" }
    assert.deepStrictEqual(cookieFor({ origin: "http://localhost:8477", isSecure: false }), {
      name: "rollcall_8477",
      options: { ...options, secure: false }
    } as never)
    assert.deepStrictEqual(cookieFor({ origin: "https://rollcall.example", isSecure: true }), {
      name: "__Host-rollcall",
      options: { ...options, secure: true }
    } as never)
  })
})

/** A process: its sessions, how often they use the store, and whether the store answers. */
const startProcess = Effect.fnUntraced(function*(store: Layer.Layer<StoredSessions, unknown>) {
  const use = { finds: 0, writes: 0, answers: Effect.void as Effect.Effect<void, ReturnType<typeof misconfigured>> }
  const observed = Layer.effect(
    StoredSessions,
    Effect.map(StoredSessions, (stored) =>
      StoredSessions.of({
        ...stored,
        find: (key, isActivity) =>
          Effect.suspend(() => {
            use.finds++
            if (isActivity) use.writes++
            return Effect.andThen(use.answers, stored.find(key, isActivity))
          }),
        end: (which, toAction) => Effect.andThen(use.answers, stored.end(which, toAction))
      }))
  ).pipe(Layer.provide(Layer.orDie(store)))
  const layer = Sessions.layer.pipe(Layer.provideMerge(makeTokens().layer), Layer.provide(observed))
  const context = yield* Layer.build(Layer.fresh(layer))
  return { use, context, sessions: Context.get(context, Sessions) }
})

const file = Effect.map(storeFile, (file) => Sqlite.layer({ file }))

describe("a session of several processes", () => {
  it.effect("holds in each of them, and ends in each of them within a second", () =>
    Effect.gen(function*() {
      const store = yield* file
      const [one, two] = [yield* startProcess(store), yield* startProcess(store)]
      const { id, secret } = yield* Effect.provideContext(startWith("operate"), one.context)
      assert.deepStrictEqual(yield* two.sessions.find(secret, true), {
        scope: "operate",
        authenticatedBy: "session",
        session: id
      })
      assert.deepStrictEqual((yield* two.sessions.list).map((session) => session.id), [id])
      assert.isNotNull(yield* one.sessions.find(secret, true))
      yield* two.sessions.endSelected({ id }, action(id))
      assert.isNull(yield* two.sessions.find(secret, true))
      yield* TestClock.adjust("1 second")
      assert.isNull(yield* one.sessions.find(secret, true))
    }))

  it.effect("is activity in one process, and does not expire in another", () =>
    Effect.gen(function*() {
      const store = yield* file
      const [one, two] = [yield* startProcess(store), yield* startProcess(store)]
      const { secret } = yield* Effect.provideContext(startWith("operate"), one.context)
      for (let minutes = 0; minutes < 60; minutes += 20) {
        yield* TestClock.adjust("20 minutes")
        assert.isNotNull(yield* two.sessions.find(secret, true))
      }
      assert.isNotNull(yield* one.sessions.find(secret, false))
    }))

  it.effect("costs at most one read per second and one write per ten seconds", () =>
    Effect.gen(function*() {
      const { context, sessions: { find }, use } = yield* startProcess(yield* file)
      const { secret } = yield* Effect.provideContext(startWith("operate"), context)
      for (let tenths = 0; tenths < 100; tenths++) {
        assert.isNotNull(yield* find(secret, true))
        yield* TestClock.adjust("100 millis")
      }
      assert.deepStrictEqual([use.finds, use.writes], [10, 1])
      yield* Effect.all(Array.from({ length: 20 }, () => find(secret, true)), { concurrency: "unbounded" })
      assert.deepStrictEqual([use.finds, use.writes], [11, 2])
    }))

  it.effect("is not searched in the store if no token sealed its secret", () =>
    Effect.gen(function*() {
      const { context, sessions, use } = yield* startProcess(yield* file)
      const { secret } = yield* Effect.provideContext(startWith("operate"), context)
      const [text = "", seal = ""] = secret.split(".")
      const forged = [
        text,
        seal,
        `${text}.`,
        `${text}.${text}`,
        `${seal}.${text}`,
        `x${text}.${seal}`,
        `${text}.${seal.slice(1)}`
      ]
      for (const wrong of forged) {
        assert.isNull(yield* sessions.find(wrong, true))
        yield* sessions.end(wrong)
      }
      assert.strictEqual(use.finds, 0)
      assert.isNotNull(yield* sessions.find(secret, true))
    }))

  it.effect("stays valid while the store does not answer, until it expires, where it was confirmed before", () =>
    Effect.gen(function*() {
      const store = yield* file
      const [one, two] = [yield* startProcess(store), yield* startProcess(store)]
      const { secret } = yield* Effect.provideContext(startWith("operate"), one.context)
      assert.isNotNull(yield* one.sessions.find(secret, true))
      for (const { use } of [one, two]) use.answers = Effect.fail(misconfigured("gone"))
      yield* TestClock.adjust("29 minutes")
      assert.isNotNull(yield* one.sessions.find(secret, true))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(two.sessions.find(secret, true))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(one.sessions.endSelected({}, action("all")))))
      assert.isNotNull(yield* one.sessions.find(secret, true))
      yield* TestClock.adjust("1 minute")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(one.sessions.find(secret, true))))
    }))

  it.effect("that was ended is refused as soon as a slow store answers", () =>
    Effect.gen(function*() {
      const store = yield* file
      const [one, two] = [yield* startProcess(store), yield* startProcess(store)]
      const { secret } = yield* Effect.provideContext(startWith("operate"), one.context)
      assert.isNotNull(yield* one.sessions.find(secret, true))
      yield* two.sessions.endSelected({}, action("all"))
      one.use.answers = Effect.sleep("3 seconds")
      yield* TestClock.adjust("1 second")
      const slow = yield* Effect.forkChild(one.sessions.find(secret, false))
      yield* TestClock.adjust("200 millis")
      assert.isNotNull(yield* Fiber.join(slow))
      yield* TestClock.adjust("3 seconds")
      one.use.answers = Effect.fail(misconfigured("gone"))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(one.sessions.find(secret, false))))
      one.use.answers = Effect.void
      assert.isNull(yield* one.sessions.find(secret, false))
    }))
})
