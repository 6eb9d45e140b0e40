import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { captureScopeOf } from "../../domain/Shard.ts"
import { Calls, type Handler, type Method, notTaken, type Reply, unanswered } from "../../fleet/Calls.ts"
import { SourceError, Transient } from "../../source/Source.ts"
import { Damaged, Fenced, Incompatible, Misconfigured, OlderCopy, StoreError, Unavailable } from "../../store/Store.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import { Forgetting, ForgettingRefused } from "../forget/Forgetting.ts"
import { Capture, UnknownStream } from "../schedule/Capture.ts"
import { IntegrationRefused, Integrations } from "../schedule/Integrations.ts"
import { CommandRefused } from "../schedule/StreamCommands.ts"
import { RunAborted } from "../StreamLifecycle.ts"
import * as Commands from "./Commands.ts"

const key = { integration: "greenhouse:acme", model: "ats.tag" } as const
const shard = captureScopeOf(key.integration)
const settings = {
  id: key.integration,
  account: "default",
  models: "auto",
  backfill: "publish",
  interval: Duration.minutes(1),
  sweepInterval: Duration.hours(1)
} as const
const integration = {
  ...settings,
  interval: 60_000,
  sweepInterval: 3_600_000,
  declared: false,
  generation: 1,
  state: "active"
} as const
const record = { ...key, id: "8Xi6" }
const plan = {
  hash: "5c1f",
  live: true,
  versions: 1,
  pending: 0,
  deliveries: 0,
  steps: 0,
  copies: [{ model: "ats.application", records: 1, ids: ["a"] }],
  mentions: [{ model: "hris.shift", records: 1, ids: ["s"] }],
  unreadable: [{ model: "ats.application", id: "b", position: null }]
} as const
const forgotten = { ...record, state: "erasing", requestedAt: 7, doneAt: null, progress: null } as const
const report = {
  read: 3,
  pending: { held: 2 },
  quarantined: 0,
  differing: 1,
  differences: [{ id: "a", what: "content", paths: ["/name"] }]
} as const

/** The commands of a process with these calls, and what it executes itself. */
const setup = (
  calls: Pick<Calls["Service"], "isLocal"> & Partial<Calls["Service"]>,
  audit: Effect.Effect<typeof report, UnknownStream> = Effect.succeed(report)
) => {
  const executed: Array<unknown> = []
  const note = <A>(name: string, result: A) => (...args: ReadonlyArray<unknown>) =>
    Effect.sync(() => {
      executed.push([name, ...args])
      return result
    })
  const services = Layer.mergeAll(
    Layer.mock(Capture)({
      ownerOf: () => ({ scope: shard, epoch: 1 }),
      owns: () => true,
      execute: note("execute", null!),
      audit: () => audit
    }),
    Layer.mock(Integrations)({ add: note("add", integration), remove: note("remove", integration) }),
    Layer.mock(Forgetting)({
      plan: note("plan", plan),
      forget: note("forget", forgotten),
      allow: note("allow", forgotten)
    }),
    Layer.mock(Calls)(calls)
  )
  return {
    executed,
    run: <A, E>(body: (commands: Commands.Commands["Service"]) => Effect.Effect<A, E>) =>
      Effect.flatMap(Commands.Commands, body).pipe(Effect.provide(Layer.provide(Commands.layer, services)))
  }
}

const everyCommand = ({ add, allow, audit, execute, forget, plan, remove }: Commands.Commands["Service"]) =>
  Effect.all([
    Effect.asVoid(execute({ key, command: { kind: "pause" } })),
    execute({ key, command: { kind: "rewind", to: 7 } }),
    audit(key),
    add(settings),
    remove({ id: key.integration, data: "erase" }),
    plan(record),
    forget({ record, plan: "5c1f" }),
    allow(record)
  ])
const everyResult = [undefined, undefined, report, integration, integration, plan, forgotten, forgotten]
const everyExecution = [
  ["execute", key, { kind: "pause" }],
  ["execute", key, { kind: "rewind", to: 7 }],
  ["add", settings],
  ["remove", key.integration, "erase"],
  ["plan", record],
  ["forget", record, "5c1f"],
  ["allow", record]
]

describe("a command", () => {
  it.effect("is executed directly by the process that owns the integration's shard", () => {
    const { executed, run } = setup({ isLocal: (scope) => scope === shard })
    return run((commands) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* everyCommand(commands), everyResult as never)
        assert.deepStrictEqual(executed, everyExecution)
      })
    )
  })

  it.effect("is passed on as JSON to the process that owns the integration's shard", () => {
    let handlers: ReadonlyArray<Handler> = []
    const { executed, run } = setup({
      isLocal: () => false,
      serve: (scope: string, own: ReadonlyArray<Handler>) =>
        Effect.sync(() => {
          assert.strictEqual(scope, shard)
          handlers = own
        }),
      call: <P, A, E>(scope: string, { name, payload, reply }: Method<P, A, E>, value: P) =>
        Effect.gen(function*() {
          assert.strictEqual(scope, shard)
          const handler = handlers.find((one) => one.name === name)
          const text = yield* handler!.run(yield* Effect.orDie(Schema.encodeEffect(payload)(value)))
          const done = yield* Effect.orDie(Schema.decodeEffect(reply)(text))
          return done._tag === "Succeeded" ? done.value : yield* Effect.die(done)
        })
    })
    return run((commands) =>
      Effect.gen(function*() {
        yield* Effect.scoped(commands.serve(shard))
        assert.deepStrictEqual(yield* everyCommand(commands), everyResult as never)
        assert.deepStrictEqual(executed, everyExecution)
      })
    )
  })

  it.effect("for a stream whose shard moves at this moment was not executed, but a stream may also be unknown", () => {
    let local = true
    const unknown = Effect.suspend(() => {
      local = false
      return Effect.fail(new UnknownStream({ stream: "x" }))
    })
    const audit = (isLocal: () => boolean) =>
      Effect.flip(setup({ isLocal }, unknown).run((commands) => commands.audit(key)))
    return Effect.gen(function*() {
      assert.deepStrictEqual(yield* audit(() => local), notTaken())
      assert.instanceOf(yield* audit(() => true), UnknownStream)
    })
  })

  it.effect.each([true, false])(
    "whose owner was replaced meanwhile has an unknown outcome; executed here: %s",
    (local) => {
      const fenced = Effect.fail(new StoreError({ reason: new Fenced({ scope: shard, epoch: 1 }) }))
      const { run } = setup({ isLocal: () => local, call: () => fenced as never }, fenced as never)
      return Effect.gen(function*() {
        const error = yield* Effect.flip(run((commands) => commands.audit(key)))
        assert.deepStrictEqual(error, unanswered({ check: "rollcall streams list" }))
      })
    }
  )

  const fault = new StoreFault("lost", "postgres://db/hr", "57P01", new Error("ann@people.example"))
  const store = [
    new Fenced({ scope: shard, epoch: 3 }),
    new Unavailable({ operation: "transact", cause: fault }),
    new Unavailable({ operation: "transact", cause: null }),
    new OlderCopy({ missing: 2 }),
    new Misconfigured({ message: "m" }),
    new Incompatible({ message: "i" }),
    new Damaged({ message: "d" })
  ].map((reason) => new StoreError({ reason }))
  const hint = "resume it"
  const errors: ReadonlyArray<readonly [Method<never, never, never>, Error]> = [
    ...store.map((error) => [Commands.methods.execute, error] as const),
    [Commands.methods.execute, new CommandRefused({ message: "paused", hint })],
    [Commands.methods.execute, new UnknownStream({ stream: "greenhouse:acme/ats.tag" })],
    [Commands.methods.audit, new SourceError({ reason: new Transient({ code: null, message: "503", retryAfter: 2 }) })],
    [Commands.methods.audit, new RunAborted({ message: "unreadable", blocks: "unreadable" })],
    [Commands.methods.remove, new IntegrationRefused({ id: key.integration, reason: "declared" })],
    [Commands.methods.forget, new ForgettingRefused({ reason: "outdated", message: "outdated", hint })]
  ] as never
  it.effect.each(errors.map(([method, error]) => ({ name: `${error.name}: ${error.message}`, method, error })))(
    "fails in another process with the same error: $name",
    ({ error, method }) =>
      Effect.gen(function*() {
        const text = yield* Schema.encodeEffect(method.reply)({ _tag: "Failed", error: error as never })
        assert.notInclude(text, "ann@")
        const reply: Reply<never, Error> = yield* Schema.decodeEffect(method.reply)(text)
        assert.isTrue(reply._tag === "Failed")
        if (reply._tag !== "Failed") return
        assert.strictEqual(reply.error.constructor, error.constructor)
        assert.strictEqual(reply.error.message, error.message)
      })
  )
})
