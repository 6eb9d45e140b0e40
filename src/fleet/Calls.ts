/**
 * Calls between the processes of a fleet: every process accepts commands of operators, and the process that owns a scope executes the
 * commands for it.
 *
 * Invariants
 * 1. A call is executed at most once, and only by the owner of its scope   (I10)
 * 2. A call that fails with `NotTaken` was not executed, and will not be
 *
 * Gotchas
 * - A caller that is interrupted withdraws its call. If the call is being executed, it is interrupted within seconds.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { StoreError } from "../store/Store.ts"

// ---- errors -------------------------------------------------------------------------------------------------------

/** No process took the call. */
export class NotTaken extends Schema.TaggedError<NotTaken>()("NotTaken", {}) {
  override get message(): string {
    return "no process is ready to execute the command, because its streams are moving to another process; nothing was changed"
  }
  get hint(): string {
    return "try again in a few seconds; if this lasts, check with `rollcall fleet` that the processes are running"
  }
}
/** A process took the call, and will send no reply. */
export class Unanswered extends Schema.TaggedError<Unanswered>()("Unanswered", {
  /** `store`: the database did not answer in time, so the caller does not know the outcome. */
  reason: Schema.Literals(["ended", "store"]),
  /** The command that shows whether the call took effect. */
  check: Schema.String
}) {
  override get message(): string {
    return this.reason === "ended"
      ? "the process that executed the command ended or lost its streams; whether the command took effect is unknown"
      : "the database did not answer while another process executed the command; whether the command took effect is unknown"
  }
  get hint(): string {
    return `check with \`${this.check}\`, then repeat the command if necessary`
  }
}
export class CallError extends Schema.TaggedError<CallError>()("CallError", {
  reason: Schema.Union([NotTaken, Unanswered])
}) {
  override get message(): string {
    return `${this.reason.message}: ${this.reason.hint}`
  }
}

export const notTaken = () => new CallError({ reason: new NotTaken() })
export const unanswered = ({ check }: Pick<Unanswered, "check">, reason: Unanswered["reason"] = "ended") =>
  new CallError({ reason: new Unanswered({ reason, check }) })

// ---- methods ------------------------------------------------------------------------------------------------------

/** `Interrupted`: the call may have taken effect. `Unexecuted`: it certainly did not. */
const ends = ["Interrupted", "Died", "Unexecuted"] as const
export type End = (typeof ends)[number]
export type Reply<A, E> =
  | { readonly _tag: "Succeeded"; readonly value: A }
  | { readonly _tag: "Failed"; readonly error: E }
  | { readonly _tag: End }

/** A kind of call with its parameters, result and errors, which are sent as JSON. */
export interface Method<P, A, E> {
  readonly name: string
  /** The command that shows whether a call took effect. */
  readonly check: string
  readonly payload: Schema.Codec<P, string>
  readonly reply: Schema.Codec<Reply<A, E>, string>
}

export const method = <P, PE, A, AE, E, EE>(
  name: string,
  { check, error, payload, success }: {
    readonly check: string
    readonly payload: Schema.Codec<P, PE>
    readonly success: Schema.Codec<A, AE>
    readonly error: Schema.Codec<E, EE>
  }
): Method<P, A, E> => ({
  name,
  check,
  payload: Schema.fromJsonString(Schema.toCodecJson(payload)),
  reply: Schema.fromJsonString(Schema.toCodecJson(Schema.Union([
    Schema.Struct({ _tag: Schema.tag("Succeeded"), value: success }),
    Schema.Struct({ _tag: Schema.tag("Failed"), error }),
    Schema.Struct({ _tag: Schema.Literals(ends) })
  ])))
})

/** Executes the calls of one method; payload and reply are JSON. */
export interface Handler {
  readonly name: string
  readonly run: (payload: string) => Effect.Effect<string>
}

export const handler = <P, A, E>(
  { name, payload, reply }: Method<P, A, E>,
  execute: (payload: P) => Effect.Effect<A, E>
): Handler => ({
  name,
  run: (text) =>
    Schema.decodeEffect(payload)(text).pipe(
      Effect.orDie,
      Effect.flatMap(execute),
      Effect.match({
        onSuccess: (value): Reply<A, E> => ({ _tag: "Succeeded", value }),
        onFailure: (error): Reply<A, E> => ({ _tag: "Failed", error })
      }),
      Effect.flatMap((done) => Effect.orDie(Schema.encodeEffect(reply)(done)))
    )
})

// ---- the port -----------------------------------------------------------------------------------------------------

export class Calls extends Context.Service<Calls, {
  /** Whether this process serves the scope, so that a command needs no call. */
  readonly isLocal: (scope: string) => boolean
  /**
   * Executes the calls of other processes for this scope until the surrounding `Scope` closes; calls that are being executed are then
   * interrupted. Call this after the ownership of the scope was taken and the reading of its streams has started.
   */
  readonly serve: (scope: string, handlers: ReadonlyArray<Handler>) => Effect.Effect<void, never, Scope.Scope>
  /**
   * Makes the owner of the scope execute the method, and waits for the result. A defect of the method is a defect of this effect. It
   * fails with `StoreError` if the call was not stored, or if the method failed with this error.
   */
  readonly call: <P, A, E>(
    scope: string,
    method: Method<P, A, E>,
    payload: P
  ) => Effect.Effect<A, E | CallError | StoreError>
}>()("rollcall/fleet/Calls") {
  /** For a process that owns all scopes. */
  static readonly local: Layer.Layer<Calls> = Layer.succeed(Calls)({
    isLocal: () => true,
    serve: () => Effect.void,
    call: () => Effect.fail(notTaken())
  })
}
