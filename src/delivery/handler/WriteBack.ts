/**
 * Performs the writes that a handler requests: records each one, sends it, and resolves writes whose outcome is unknown.
 *
 * Invariants
 * 1. A write is sent only after its intent is committed. The same transaction checks the attempt's claim and the write switch. So no
 *    replaced process writes (X16), and no write is sent without a trace (L5)
 * 2. A write that has a result is never sent again   (L4)
 * 3. A write whose outcome is unknown is sent again only in three cases: it is safe to repeat, the handler allows it, or the API shows that
 *    it had no effect   (L5)
 * 4. A write that certainly had no effect leaves no intent
 * 5. A write that waits for a request slot has no intent, so a process that dies during the wait has not sent it   (L4)
 * 6. While the outcome of a write that must not be repeated is unknown, no write with different content is sent in its place   (L5)
 * 7. A write that the plugin does not declare is not sent, and changes nothing in the journal
 *
 * Details
 * These steps decide whether a write is sent again:
 *
 * | step                    | what it does                                                                                    |
 * | ----------------------- | ----------------------------------------------------------------------------------------------- |
 * | `perform`               | asks the journal whether the write has a result, may not start, or has an unknown outcome       |
 * | `source/UnifiedApi.ts`  | waits for a request slot                                                                        |
 * | `source/SendAttempt.ts` | commits the intent (`before`), then sends the request within a time limit                       |
 * | `source/Failures.ts`    | decides whether a failure proves that the API did nothing (`hasNoEffect`): then the intent is   |
 * |                         | withdrawn, and the client may try again. Without the proof, the client tries again only if the  |
 * |                         | write is `safe` (`resolutionPolicy` in `api/Writes.ts`), and the intent stays. The failure that |
 * |                         | remains is `OutcomeUnknown`, or the API's rejection if the write is `safe`.                     |
 * | `resolveUnknown`        | In the next attempt, does what `onUnknownOf` says: it repeats the write, looks for its effect,  |
 * |                         | or leaves it to an operator.                                                                    |
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { WriteData, WriteName } from "../../api/Writes.ts"
import { createdIds } from "../../domain/Expectation.ts"
import { type HandlerError, RateLimited } from "../../plugin/Failure.ts"
import type { Invalid, WriteError, WriteRequest } from "../../source/Source.ts"
import type { BeginResult, Intent, StepKey } from "../../store/AttemptJournal.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import type { Attempt } from "./Attempt.ts"
import * as ErrorMapping from "./ErrorMapping.ts"
import { intentOf, isForOneRecord, onUnknownOf, scopedIdentityOf, stepNameOf } from "./WriteIntent.ts"
import type { RequestedWrite } from "./WriteVerification.ts"
import * as WriteVerification from "./WriteVerification.ts"

/** The services that a write needs. */
export interface Services extends WriteVerification.Services {
  /**
   * Locks for `replacePackages` among the attempts of this process, by integration. If an attempt in another process replaces the packages,
   * the store refuses `begin` with `Busy`.
   */
  readonly packageLocks: Map<string, Semaphore.Semaphore>
}

/** How long a delivery waits while all writes are stopped, unless they are resumed earlier. */
const writesStoppedDelay = Duration.minutes(1)
/** How long a delivery waits while an attempt in another process replaces the same packages. */
const packagesDelay = Duration.seconds(1)

/** The write had its request slot, but the store refused to start it. */
class NotBegun {
  readonly _tag = "NotBegun"
  readonly refusal: Exclude<BeginResult, { readonly _tag: "Begun" }>
  constructor(refusal: NotBegun["refusal"]) {
    this.refusal = refusal
  }
}

export const make = (services: Services, attempt: Attempt) => {
  const { accounts, journal, packageLocks, source } = services
  /** Identities of writes of this attempt that must not be repeated and whose outcome is unknown. */
  const unknownWrites = new Set<string>()

  const stored = <A>(effect: Effect.Effect<A, Parameters<typeof ErrorMapping.fromStore>[0]>) =>
    Effect.mapError(effect, ErrorMapping.fromStore)

  /** Packages are replaced as a whole, so after two concurrent writes it would be uncertain which list remains. */
  const oneAtATime = (write: WriteName, integration: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) => {
    if (write !== "replacePackages") return effect
    const lock = packageLocks.get(integration) ?? Semaphore.makeUnsafe(1)
    packageLocks.set(integration, lock)
    // the handler's timer is paused while this write waits: the write that holds the lock may be waiting for a request slot
    return attempt.timer.whilePaused((resume) => lock.withPermits(1)(Effect.andThen(resume, effect)))
  }

  /**
   * Runs the transaction that must be committed before a write is sent. It checks the claim, the write switch and the budget, and saves
   * the intent and the expected changes.
   */
  const begin = (intent: Intent): Effect.Effect<BeginResult, HandlerError> =>
    Effect.andThen(attempt.ensureRunning, stored(journal.begin(attempt.fence, intent)))

  const finish = <W extends WriteName>(key: StepKey, write: W, data: WriteData<W>) =>
    stored(journal.finish(attempt.fence, key, JSON.stringify(data), createdIds(write, data)))

  /** Reads the form that `createEmployee` is checked against, unless the handler has passed it. */
  const withForm = <W extends WriteName>(account: string, wanted: RequestedWrite<W>) => {
    const { body, integration, options, write } = wanted
    if (write !== "createEmployee" || "form" in options) return Effect.succeed(options)
    const entity = "staffing_entity_id" in body && typeof body.staffing_entity_id === "string"
      ? { staffing_entity_id: body.staffing_entity_id }
      : {}
    return Effect.map(
      source.read({ account, integration, read: "employeeForm", params: entity, priority: "write" }),
      (form) => ({ ...options, form })
    )
  }

  const request = <W extends WriteName>(wanted: RequestedWrite<W>) => {
    const { body, integration, params, write } = wanted
    return Effect.flatMap(accounts.of(integration), (account) =>
      Effect.map(
        Effect.mapError(withForm(account, wanted), (error) =>
          ErrorMapping.fromApi(`the form for ${write}`, error, account)),
        // the options belong to this write: a form for `createEmployee`, a scale for a skill
        (options) =>
          ({ ...options, account, integration, write, params, body }) as WriteRequest<W>
      ))
  }

  /** Commits the intent each time the write is about to be sent, and withdraws it if the request had no effect. */
  const hooksOf = <W extends WriteName>(key: StepKey, wanted: RequestedWrite<W>, allowRepeat: boolean) => {
    const withdraw = stored(journal.withdraw(attempt.fence, key))
    let hasIntent = false
    let isSending = false
    const setSending = (now: boolean) => {
      if (now !== isSending) attempt.timer.trackSent(now ? 1 : -1)
      isSending = now
    }
    return {
      onEnd: Effect.sync(() => setSending(false)),
      before: Effect.gen(function*() {
        // If this fails, the store may still have committed the intent. The write was not sent, so the intent is withdrawn.
        const intent = intentOf(attempt, key, wanted, { allowRepeat: allowRepeat || hasIntent, counted: hasIntent })
        const outcome = yield* Effect.tapError(begin(intent), () => Effect.ignore(withdraw))
        if (outcome._tag !== "Begun") return yield* Effect.fail(new NotBegun(outcome))
        // The attempt may have ended while its transaction was waiting. Then nothing may be sent.
        yield* Effect.tapError(attempt.ensureRunning, () => Effect.ignore(withdraw))
        hasIntent = true
        setSending(true)
      }),
      onNoEffect: Effect.tap(withdraw, () =>
        Effect.sync(() => {
          hasIntent = false
          setSending(false)
        }))
    }
  }

  /** Waits for a request slot, commits the intent and sends the write. The result is stored before the handler continues. */
  const send = <W extends WriteName>(
    key: StepKey,
    wanted: RequestedWrite<W>,
    allowRepeat: boolean
  ): Effect.Effect<WriteData<W>, HandlerError | NotBegun> => {
    const { integration, write } = wanted
    const failed = (outcome: "refused" | "unknown", error: HandlerError) =>
      Effect.andThen(attempt.recordRequest(write, integration, outcome), Effect.fail(error))
    const hooks = hooksOf(key, wanted, allowRepeat)
    const sendFailed =
      (account: string) =>
      (error: WriteError | Invalid | HandlerError | NotBegun): Effect.Effect<never, HandlerError | NotBegun> => {
        if (error._tag === "NotBegun") return Effect.fail(error)
        if (error._tag !== "WriteError" && error._tag !== "Invalid") return failed("refused", error)
        const isUnknown = error._tag === "WriteError" && error.reason._tag === "OutcomeUnknown"
        if (isUnknown && isForOneRecord(attempt) && onUnknownOf(wanted) === "deadLetter") {
          unknownWrites.add(scopedIdentityOf(key, wanted))
        }
        return failed(isUnknown ? "unknown" : "refused", ErrorMapping.fromApi(write, error, account))
      }
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const prepared = yield* Effect.catch(restore(request(wanted)), (error) => failed("refused", error))
        const sent = Effect.ensuring(restore(source.write(prepared, hooks)), hooks.onEnd)
        const data = yield* Effect.catch(sent, sendFailed(prepared.account))
        yield* finish(key, write, data)
        yield* attempt.recordRequest(write, integration, "done")
        return data
      })
    )
  }

  const perform = Effect.fnUntraced(function*<W extends WriteName>(
    key: StepKey,
    wanted: RequestedWrite<W>,
    allowRepeat: boolean
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    if (onUnknownOf(wanted) === "deadLetter" && unknownWrites.has(scopedIdentityOf(key, wanted))) {
      return yield* ErrorMapping.unresolved(wanted.write)
    }
    // if the result or the refusal is already known, do not wait for a request slot
    const intent = intentOf(attempt, key, wanted, { allowRepeat, counted: false })
    const refusal = yield* Effect.andThen(attempt.ensureRunning, stored(journal.checkBegin(attempt.fence, intent)))
    return refusal === null
      ? yield* Effect.catch(
        send(key, wanted, allowRepeat),
        (error) => error._tag === "NotBegun" ? resolveNotBegun(key, wanted, error.refusal) : Effect.fail(error)
      )
      : yield* resolveNotBegun(key, wanted, refusal)
  })

  /** The result of a write that the store refused to start. */
  const resolveNotBegun = Effect.fnUntraced(function*<W extends WriteName>(
    key: StepKey,
    wanted: RequestedWrite<W>,
    refusal: NotBegun["refusal"]
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    switch (refusal._tag) {
      case "Done":
        return JSON.parse(refusal.result)
      case "Stopped":
        attempt.noteWritesStopped()
        return yield* new RateLimited({ retryAfter: writesStoppedDelay })
      case "Removed":
        return yield* wanted.integration === attempt.integration
          ? new RateLimited({ retryAfter: ErrorMapping.removedRetryDelay })
          : ErrorMapping.integrationRemoved(wanted.integration)
      case "Busy":
        return yield* new RateLimited({ retryAfter: packagesDelay })
      case "BudgetExhausted": {
        const now = yield* Clock.currentTimeMillis
        return yield* new RateLimited({ retryAfter: Duration.millis(Math.max(0, refusal.until - now)) })
      }
      case "Unknown":
        return yield* resolveUnknown(key, wanted, refusal.begunAt)
      case "NeedsReport":
        return yield* ErrorMapping.reportNeeded(wanted.write)
    }
  })

  /** Resolves a write that an earlier attempt may have sent: repeats it, reads whether it took effect, or leaves it to an operator. */
  const resolveUnknown = Effect.fnUntraced(function*<W extends WriteName>(
    key: StepKey,
    wanted: RequestedWrite<W>,
    begunAt: number
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    const { integration, write } = wanted
    const onUnknown = onUnknownOf(wanted)
    if (onUnknown === "repeat") return yield* perform(key, wanted, true)
    if (onUnknown === "deadLetter") return yield* ErrorMapping.unresolved(write)
    yield* attempt.ensureClaimed
    const verification = yield* WriteVerification.verifyWrite(services, wanted, begunAt)
    yield* attempt.recordRequest(`check whether ${write} took effect`, integration, "done")
    switch (verification._tag) {
      case "Undetermined":
        return yield* ErrorMapping.unresolved(write)
      case "NotYet":
        return yield* new RateLimited({ retryAfter: verification.retryAfter })
      case "NotDone":
        return yield* perform(key, wanted, true)
      case "Done": {
        // Only the attempt that committed the intent last may store the result. So this attempt commits the intent again, and sends nothing.
        const outcome = yield* begin(intentOf(attempt, key, wanted, { allowRepeat: true, counted: false }))
        if (outcome._tag === "Begun") yield* finish(key, write, verification.data)
        return verification.data
      }
    }
  })

  return Effect.fn("Plugin.write")(
    function*<W extends WriteName>(wanted: RequestedWrite<W>): Effect.fn.Return<WriteData<W>, HandlerError> {
      const { integration, write } = wanted
      const { plugin } = attempt.subscription
      if (plugin.definition.needs?.writes?.includes(write) !== true) {
        return yield* ErrorMapping.undeclared(plugin, write)
      }
      const { keepForever, dedupKeys, path } = yield* attempt.stepContext
      const name = stepNameOf(path, wanted)
      const key = (number: number): StepKey => ({
        handler: attempt.subscription.key,
        dedupKeys,
        keepForever,
        step: number === 0 ? name : `${name}#${number}`
      })
      return yield* attempt.withRequestNumber(
        `${dedupKeys[0]} ${name}`,
        (number) => oneAtATime(write, integration)(perform(key(number), wanted, false))
      )
    },
    (effect, { integration, write }) =>
      Tracing.inSpan("write", { "rollcall.integration": integration, "rollcall.write": write })(effect)
  )
}
