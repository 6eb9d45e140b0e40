/**
 * The side of a call that waits for the reply. One statement per interval checks all calls that wait. There is no statement if no call
 * waits.
 *
 * Gotchas
 * - Whether a process still executes a call is decided by its heartbeats and by the monotonic clock of this process, because the clocks
 *   of processes differ.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { CallQueue, type SeenCall } from "../store/CallQueue.ts"
import { CurrentActor } from "../store/Operators.ts"
import type { StoreError } from "../store/Store.ts"
import { type CallError, type Calls, type Method, notTaken, type Unanswered, unanswered } from "./Calls.ts"

const lookInterval = "250 millis"
/** If no process serves a scope for this long, the caller gets an error. A scope that moves is served again sooner. */
const patience = Duration.seconds(10)
/** A process that misses several heartbeats has ended or is frozen. Also the longest wait for a store that does not respond. */
const longestSilence = Duration.toMillis("15 seconds")
/** If the store did not respond for longer than this, heartbeats of that time may be missing. */
const outage = Duration.toMillis("5 seconds")
const longestWithdrawal = "2 seconds"

/** `reply`: null if it cannot be decrypted. */
type Outcome = { readonly reply: string | null } | "not taken" | Unanswered["reason"]

/** Times are those of the monotonic clock, in ms. */
interface Waiting {
  readonly since: number
  /** When the call was last seen in the store. */
  seenAt: number
  /** When the last heartbeat of the process that executes the call was seen, and the number of that heartbeat. */
  aliveAt: number
  beats: number | null
  readonly outcome: Deferred.Deferred<Outcome>
}

const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

export const make: Effect.Effect<Calls["Service"]["call"], never, CallQueue | Scope.Scope> = Effect.gen(function*() {
  const queue = yield* CallQueue
  const waiting = new Map<string, Waiting>()
  const isWaiting = yield* Latch.make(false)

  const remove = (id: string) => {
    waiting.delete(id)
    if (waiting.size === 0) isWaiting.closeUnsafe()
  }
  const settle = (id: string, outcome: Outcome) =>
    Effect.sync(() => {
      const one = waiting.get(id)
      if (one !== undefined) Deferred.doneUnsafe(one.outcome, Exit.succeed(outcome))
      remove(id)
    })
  const settleAll = (ids: ReadonlyArray<string>, outcome: Outcome) =>
    Effect.forEach(ids, (id) => settle(id, outcome), { discard: true })

  /** Whether the process that executes the call has ended, is frozen, or lost the scope. */
  const isLost = (one: Waiting, { beats, owned }: SeenCall, now: number): boolean => {
    if (beats !== one.beats) {
      one.beats = beats
      one.aliveAt = now
    }
    return !owned || now - one.aliveAt >= longestSilence
  }

  const look = Effect.gen(function*() {
    const ids = [...waiting.keys()]
    const found = new Map((yield* queue.look(ids)).map((call) => [call.id, call]))
    const now = yield* monotonic
    const replied: Array<string> = []
    const late: Array<string> = []
    const lost: Array<string> = []
    for (const id of ids) {
      const [one, call] = [waiting.get(id), found.get(id)]
      if (one === undefined) continue
      if (now - one.seenAt >= outage) one.aliveAt = now
      one.seenAt = now
      if (call === undefined) yield* settle(id, "ended")
      else if (call.state === "answered") {
        yield* settle(id, { reply: call.reply })
        replied.push(id)
      } else if (call.state === "running") {
        if (isLost(one, call, now)) lost.push(id)
      } else if (now - one.since >= Duration.toMillis(patience)) late.push(id)
    }
    // a call whose state has changed in the meantime is not removed, and is checked again
    if (late.length > 0) yield* settleAll(yield* queue.remove(late, "waiting"), "not taken")
    if (lost.length > 0) yield* settleAll(yield* queue.remove(lost, "running"), "ended")
    if (replied.length > 0) yield* queue.remove(replied)
  })

  const giveUp = Effect.fnUntraced(function*({ reason }: StoreError) {
    const now = yield* monotonic
    const ids = [...waiting].flatMap(([id, { seenAt }]) => now - seenAt >= longestSilence ? [id] : [])
    yield* settleAll(reason.retryable ? ids : [...waiting.keys()], "store")
  })

  yield* isWaiting.await.pipe(
    Effect.andThen(Effect.sleep(lookInterval)),
    Effect.andThen(Effect.catch(look, giveUp)),
    Effect.catchDefect((defect) =>
      Effect.logError("could not look for replies of other processes; trying again", defect)
    ),
    Effect.forever,
    Effect.forkScoped
  )

  const outcomeOf = Effect.fnUntraced(function*(id: string) {
    const since = yield* monotonic
    const outcome = yield* Deferred.make<Outcome>()
    waiting.set(id, { since, seenAt: since, aliveAt: since, beats: null, outcome })
    isWaiting.openUnsafe()
    return yield* Effect.ensuring(Deferred.await(outcome), Effect.sync(() => remove(id)))
  })

  const resultOf = Effect.fnUntraced(
    function*<P, A, E>(method: Method<P, A, E>, outcome: Outcome): Effect.fn.Return<A, E | CallError> {
      const { name, reply } = method
      if (outcome === "not taken") return yield* notTaken()
      if (typeof outcome === "string") return yield* unanswered(method, outcome)
      if (outcome.reply === null) {
        return yield* Effect.die(new Error(`the reply to ${name} cannot be decrypted: check \`encryptionKey\``))
      }
      const done = yield* Effect.orDie(Schema.decodeEffect(reply)(outcome.reply))
      if (done._tag === "Succeeded") return done.value
      if (done._tag === "Failed") return yield* Effect.fail(done.error)
      if (done._tag === "Unexecuted") return yield* notTaken()
      if (done._tag === "Interrupted") return yield* unanswered(method)
      return yield* Effect.die(new Error(`the process that executed ${name} failed: its log has the details`))
    }
  )

  return Effect.fnUntraced(function*(scope, method, payload) {
    const id = globalThis.crypto.randomUUID()
    const call = {
      id,
      scope,
      method: method.name,
      payload: yield* Effect.orDie(Schema.encodeEffect(method.payload)(payload)),
      actor: yield* CurrentActor,
      patience
    }
    const outcome = yield* queue.submit(call).pipe(
      Effect.andThen(outcomeOf(id)),
      // a call that cannot be removed now cannot be claimed after its `patience`
      Effect.onInterrupt(() => Effect.ignore(Effect.timeout(queue.remove([id]), longestWithdrawal)))
    )
    return yield* resultOf(method, outcome)
  })
})
