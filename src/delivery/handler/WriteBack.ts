/**
 * The twelve writes in the name of an attempt. Hides when a write is sent, and that it may have been sent before.
 *
 * Invariants
 * 1. Nothing is sent before its intent is committed; that very transaction checks the attempt's fence and the switch, and runs
 *    each time the request has its turn and is about to leave   (X16, L5)
 * 2. What has a result is never sent again; what has an intent and no result only if that is safe, was declared so, or the
 *    API shows that it did not take effect   (L4, L5)
 * 3. Of what is known not to have been done no intent is left
 * 4. What waits for its turn, also between two tries, has no intent: whoever dies or is stopped then has sent nothing   (L4)
 * 5. While it is unknown whether a write took effect that must not be repeated, none is sent in its place that says something else   (L5)
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { hash } from "node:crypto"
import { type WriteBody, type WriteData, type WriteName, writes, writeSchemas } from "../../api/Writes.ts"
import { createdIds, expectationsOf } from "../../domain/Expectation.ts"
import type { OnUnknown } from "../../plugin/Capabilities.ts"
import { type HandlerError, RateLimited } from "../../plugin/Failure.ts"
import type { WriteRequest } from "../../source/Source.ts"
import type { BeginResult, Intent, StepKey } from "../../store/Deliveries.ts"
import type { Attempt } from "./Attempt.ts"
import * as ErrorMapping from "./ErrorMapping.ts"
import * as WriteVerification from "./WriteVerification.ts"

/** What a write needs of the engine. */
export interface Services extends WriteVerification.Services {
  /** By integration. */
  readonly packageLocks: Map<string, Semaphore.Semaphore>
}

const defaultOnUnknown: Readonly<Record<(typeof writes)[WriteName]["resendPolicy"], OnUnknown>> = {
  safe: "repeat",
  look: "verify",
  find: "verify",
  never: "deadLetter"
}

const usualBudget = 1_000
/** While all writes are stopped: how soon it is tried again, unless they are resumed before. */
const writesStoppedDelay = Duration.minutes(1)

/** The write had its turn, and was not begun. */
class NotBegun {
  readonly _tag = "NotBegun"
  readonly begun: Exclude<BeginResult, { readonly _tag: "Begun" }>
  constructor(begun: NotBegun["begun"]) {
    this.begun = begun
  }
}

/** What does not fit is refused before it is sent: nothing is to be seen of it. */
const isValidBody = <W extends WriteName>(write: W, body: unknown): body is WriteBody<W> =>
  Schema.is(writeSchemas[write].body)(body)

const digest = (content: unknown): string => hash("sha256", JSON.stringify(content), "base64url").slice(0, 22)

const onUnknownOf = <W extends WriteName>({ options, write }: WriteVerification.RequestedWrite<W>): OnUnknown =>
  options.onUnknown ?? defaultOnUnknown[writes[write].resendPolicy]

/** What is asked for where; with what is said, a request's name. */
const requestIdentityOf = <W extends WriteName>(
  { integration, params, write }: WriteVerification.RequestedWrite<W>
): string => `${write}:${digest([integration, params])}:`

export const make = (services: Services, attempt: Attempt) => {
  const { accounts, deliveries, packageLocks, source } = services
  const { plugin } = attempt.subscription
  /** Where this attempt itself sent something, for one record, that must not be repeated, and heard nothing. */
  const unansweredWrites = new Set<string>()
  const unansweredKeyOf = <W extends WriteName>(
    { dedupKeys: [occasion] }: StepKey,
    wanted: WriteVerification.RequestedWrite<W>
  ) => `${occasion} ${requestIdentityOf(wanted)}`

  const stored = <A>(effect: Effect.Effect<A, Parameters<typeof ErrorMapping.fromStore>[0]>) =>
    Effect.mapError(effect, ErrorMapping.fromStore)

  /** Packages are replaced as a whole: of two at once nobody knows which one it will have been. */
  const oneAtATime = (write: WriteName, integration: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) => {
    if (write !== "replacePackages") return effect
    const lock = packageLocks.get(integration) ?? Semaphore.makeUnsafe(1)
    packageLocks.set(integration, lock)
    // the one before may wait for its turn at the API
    return attempt.timer.whilePaused((go) => lock.withPermits(1)(Effect.andThen(go, effect)))
  }

  /** In a named step for one record, a write of the same kind to the same target is the same one, whatever it says. */
  const restates = ({ keepForever, dedupKeys: [occasion], step }: StepKey, name: string): boolean =>
    !step.startsWith(name) && attempt.record !== null && attempt.record !== "tick" &&
    (keepForever || occasion.startsWith("e"))

  const intentOf = <W extends WriteName>(
    key: StepKey,
    wanted: WriteVerification.RequestedWrite<W>,
    { allowRepeat, counted }: { readonly allowRepeat: boolean; readonly counted: boolean }
  ): Intent => {
    const { body, integration, params, write } = wanted
    const onUnknown = onUnknownOf(wanted)
    return {
      ...key,
      ...(onUnknown === "deadLetter" && {
        sameRequestPrefix: key.step.slice(0, key.step.lastIndexOf(":") + 1),
        isSameRequest: restates(key, requestIdentityOf(wanted))
      }),
      onUnknown,
      integration,
      write: {
        name: write,
        // typed where it is called, checked only when it is sent
        params: Object.fromEntries(
          Object.entries<unknown>(params).flatMap(([name, id]) => typeof id === "string" ? [[name, id]] : [])
        ),
        plugin: plugin.name,
        perHour: counted ? null : plugin.definition.writesPerHour ?? usualBudget,
        depth: attempt.depth,
        expected: isValidBody(write, body) ? expectationsOf(write, params, body) : []
      },
      allowRepeat
    }
  }

  /** The transaction before a write goes out: fence, switch, budget, intent, and what is to be seen of it. */
  const begin = (intent: Intent): Effect.Effect<BeginResult, HandlerError> =>
    Effect.andThen(attempt.ensureRunning, stored(deliveries.begin(attempt.fence, intent)))

  /** The form an employee is checked against is read if the handler did not. */
  const withForm = <W extends WriteName>(
    account: string,
    { body, integration, options, write }: WriteVerification.RequestedWrite<W>
  ) => {
    if (write !== "createEmployee" || "form" in options) return Effect.succeed(options)
    const entity = "staffing_entity_id" in body && typeof body.staffing_entity_id === "string"
      ? { staffing_entity_id: body.staffing_entity_id }
      : {}
    return Effect.map(
      source.read({ account, integration, read: "employeeForm", params: entity, priority: "write" }),
      (form) => ({ ...options, form })
    )
  }

  const request = <W extends WriteName>(wanted: WriteVerification.RequestedWrite<W>) => {
    const { body, integration, params, write } = wanted
    return Effect.flatMap(accounts.of(integration), (account) =>
      Effect.map(
        Effect.mapError(withForm(account, wanted), (error) => ErrorMapping.fromApi(`the form for ${write}`, error)),
        // the options are those of this write: a form for an employee, perhaps a scale for a skill
        (options) => ({ ...options, account, integration, write, params, body }) as WriteRequest<W>
      ))
  }

  /** Begins a write each time it is about to leave, and withdraws what came to nothing before it waits again. */
  const hooksOf = <W extends WriteName>(key: StepKey, wanted: WriteVerification.RequestedWrite<W>, again: boolean) => {
    const withdraw = stored(deliveries.withdraw(attempt.fence, key))
    let begun = false
    let counted = false
    let leaving = false
    const leaves = (is: boolean) => {
      if (is !== leaving) attempt.timer.trackSent(is ? 1 : -1)
      leaving = is
    }
    return {
      over: Effect.sync(() => leaves(false)),
      before: Effect.gen(function*() {
        // a store that does not answer may have committed it: nothing was sent, so nothing is to be left of it
        const outcome = yield* begin(intentOf(key, wanted, { allowRepeat: again || begun, counted })).pipe(
          Effect.tapError(() => Effect.ignore(withdraw))
        )
        if (outcome._tag !== "Begun") return yield* Effect.fail(new NotBegun(outcome))
        begun = counted = true
        leaves(true)
      }),
      onNoEffect: Effect.tap(withdraw, () =>
        Effect.sync(() => {
          begun = false
          leaves(false)
        }))
    }
  }

  /** Waits for the write's turn, begins and sends it. What comes back is written down before anything else may happen. */
  const send = <W extends WriteName>(
    key: StepKey,
    wanted: WriteVerification.RequestedWrite<W>,
    again: boolean
  ): Effect.Effect<WriteData<W>, HandlerError | NotBegun> => {
    const { integration, write } = wanted
    const failed = (outcome: "refused" | "unknown", error: HandlerError) =>
      Effect.andThen(attempt.recordRequest(write, integration, outcome), Effect.fail(error))
    const hooks = hooksOf(key, wanted, again)
    return Effect.uninterruptibleMask((restore) =>
      restore(request(wanted)).pipe(
        Effect.matchEffect({
          onFailure: (error) => failed("refused", error),
          onSuccess: (request) =>
            Effect.matchEffect(Effect.ensuring(restore(source.write(request, hooks)), hooks.over), {
              onFailure: (error): Effect.Effect<never, HandlerError | NotBegun> => {
                if (error._tag === "NotBegun") return Effect.fail(error)
                if (error._tag !== "WriteError" && error._tag !== "Invalid") return failed("refused", error)
                const isUnknown = error._tag === "WriteError" && error.reason._tag === "OutcomeUnknown"
                const isOfOne = attempt.record !== null && attempt.record !== "tick"
                if (isUnknown && isOfOne && onUnknownOf(wanted) === "deadLetter") {
                  unansweredWrites.add(unansweredKeyOf(key, wanted))
                }
                return failed(isUnknown ? "unknown" : "refused", ErrorMapping.fromApi(write, error))
              },
              onSuccess: (data) =>
                stored(deliveries.finish(attempt.fence, key, JSON.stringify(data), createdIds(write, data))).pipe(
                  Effect.andThen(attempt.recordRequest(write, integration, "done")),
                  Effect.as(data)
                )
            })
        })
      )
    )
  }

  const perform = Effect.fnUntraced(function*<W extends WriteName>(
    key: StepKey,
    wanted: WriteVerification.RequestedWrite<W>,
    again: boolean
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    if (onUnknownOf(wanted) === "deadLetter" && unansweredWrites.has(unansweredKeyOf(key, wanted))) {
      return yield* ErrorMapping.outcomeUnknown(wanted.write)
    }
    // what is known already is not waited for
    const intent = intentOf(key, wanted, { allowRepeat: again, counted: false })
    const refused = yield* Effect.andThen(attempt.ensureRunning, stored(deliveries.checkBegin(attempt.fence, intent)))
    return refused === null
      ? yield* Effect.catch(
        send(key, wanted, again),
        (error) => error._tag === "NotBegun" ? resolveNotBegun(key, wanted, error.begun) : Effect.fail(error)
      )
      : yield* resolveNotBegun(key, wanted, refused)
  })

  /** What becomes of a write that is not begun. */
  const resolveNotBegun = Effect.fnUntraced(function*<W extends WriteName>(
    key: StepKey,
    wanted: WriteVerification.RequestedWrite<W>,
    begun: NotBegun["begun"]
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    switch (begun._tag) {
      case "Done":
        return JSON.parse(begun.result)
      case "Stopped":
        attempt.noteWritesStopped()
        return yield* new RateLimited({ retryAfter: writesStoppedDelay })
      case "Removed":
        return yield* wanted.integration === attempt.integration
          ? new RateLimited({ retryAfter: ErrorMapping.removedRetryDelay })
          : ErrorMapping.integrationRemoved(wanted.integration)
      case "BudgetExhausted": {
        const now = yield* Clock.currentTimeMillis
        return yield* new RateLimited({ retryAfter: Duration.millis(Math.max(0, begun.until - now)) })
      }
      case "Unknown":
        return yield* resolveUnknown(key, wanted, begun.begunAt)
      case "Unclear":
        return yield* ErrorMapping.outcomeUnclear(wanted.write)
    }
  })

  /** An earlier attempt may have sent it. */
  const resolveUnknown = Effect.fnUntraced(function*<W extends WriteName>(
    key: StepKey,
    wanted: WriteVerification.RequestedWrite<W>,
    begunAt: number
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    const { integration, write } = wanted
    const onUnknown = onUnknownOf(wanted)
    if (onUnknown === "repeat") return yield* perform(key, wanted, true)
    if (onUnknown === "deadLetter") return yield* ErrorMapping.outcomeUnknown(write)
    yield* attempt.ensureClaimed
    const answer = yield* WriteVerification.verifyWrite(services, wanted, begunAt)
    yield* attempt.recordRequest(`whether ${write} took effect`, integration, "done")
    switch (answer._tag) {
      case "CannotTell":
        return yield* ErrorMapping.outcomeUnknown(write)
      case "NotYet":
        return yield* new RateLimited({ retryAfter: answer.retryAfter })
      case "NotDone":
        return yield* perform(key, wanted, true)
      case "Done": {
        // ours from here on, so that its result is
        const begun = yield* begin(intentOf(key, wanted, { allowRepeat: true, counted: false }))
        if (begun._tag === "Begun") {
          yield* stored(
            deliveries.finish(attempt.fence, key, JSON.stringify(answer.data), createdIds(write, answer.data))
          )
        }
        return answer.data
      }
    }
  })

  return Effect.fn("Plugin.write")(function*<W extends WriteName>(
    wanted: WriteVerification.RequestedWrite<W>
  ): Effect.fn.Return<WriteData<W>, HandlerError> {
    const { body, integration, write } = wanted
    const { keepForever, dedupKeys, path } = yield* attempt.stepContext
    const name = path + requestIdentityOf(wanted) + digest(body)
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
  })
}
