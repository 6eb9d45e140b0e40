/**
 * Redrives and discards dead letters in bulk. A plan counts and hashes the letters that match a filter; a redrive or discard
 * then applies to exactly these letters.
 *
 * Invariants
 * 1. A dead letter that is not in the plan, or that was redriven and failed again since, is left unchanged. So a repeated or concurrent
 *    redrive does nothing (`DeliveryCommands.ts`)
 * 2. If a redrive is interrupted, the dead letters that it has not reached stay dead letters; another plan counts them
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import { toMillis } from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { type IdRange, rangesOf } from "../../domain/DeliveryProgress.ts"
import type { DeadLetter, DeadLetterQuery } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import type { Failure, HandlerName } from "../../store/Delivery.ts"
import type { StoreError } from "../../store/Store.ts"
import { longestWait } from "../engine/Retry.ts"
import * as UnknownOutcomes from "./UnknownOutcomes.ts"

export interface Filter extends Omit<DeadLetterQuery, "after" | "limit"> {
  /** Only the letters with these ids. */
  readonly ids?: ReadonlyArray<number> | undefined
}

/** How many dead letters one handler has for one reason. */
export interface Share extends HandlerName, Pick<Failure, "reason" | "refusal"> {
  readonly count: number
}

export interface Plan {
  /** Identifies exactly these letters. */
  readonly hash: string
  readonly count: number
  /** Deliveries that wait behind these letters. */
  readonly parked: number
  /** How many of them have a write or step of unknown outcome. If they are redriven unresolved, most become dead letters again. */
  readonly unknown: number
  /** Some of these. */
  readonly unknownIds: ReadonlyArray<number>
  readonly shares: ReadonlyArray<Share>
}

/** Some of the requested ids are not dead letters, or do not match the filter. */
export class DeadLettersNotFound
  extends Schema.TaggedError<DeadLettersNotFound>()("DeadLettersNotFound", { message: Schema.String })
{
  readonly hint =
    "`rollcall deadletters list` and GET /v1/deadletters list the dead letters; redriven and discarded ones are gone"
}

const counted = (count: number): string => count === 1 ? "1 dead letter" : `${count} dead letters`

/** The matching dead letters have changed since the plan. Nothing was changed. */
export class PlanOutdated extends Schema.TaggedError<PlanOutdated>()("PlanOutdated", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** A redrive with a fresh journal could repeat a write or step whose outcome is unknown. Nothing was changed. */
export class Unresolved extends Schema.TaggedError<Unresolved>()("Unresolved", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** Letters per query and per transaction. */
const pageSize = 500
/**
 * A redrive spreads its deliveries over at most this many points in time, about a second apart or more. It uses more points only if each of
 * them would have more than `pageSize` deliveries.
 */
const maxMoments = 100

const lettersOf = Effect.fnUntraced(function*({ ids, ...filter }: Filter) {
  const { deadLetters } = yield* Deliveries
  const wanted = ids === undefined ? null : new Set(ids)
  const letters: Array<DeadLetter> = []
  for (let after = 0;;) {
    const some = yield* deadLetters({ ...filter, after, limit: pageSize })
    letters.push(...some.filter(({ id }) => wanted === null || wanted.has(id)))
    if (some.length < pageSize) return letters
    after = some.at(-1)!.id
  }
})

const mostUnknownIds = 10

const planOf = (letters: ReadonlyArray<DeadLetter>): Plan => {
  const unknown = letters.filter(({ failure }) => failure.refusal === "OutcomeUnknown")
  return {
    hash: createHash("sha256")
      .update(letters.map(({ failure, id }) => `${id} ${failure.at}`).join("\n"))
      .digest("hex")
      .slice(0, 16),
    count: letters.length,
    parked: letters.reduce((sum, { parked }) => sum + parked, 0),
    unknown: unknown.length,
    unknownIds: unknown.slice(0, mostUnknownIds).map(({ id }) => id),
    shares: [
      ...Map.groupBy(
        letters,
        ({ failure: { reason, refusal }, handler, plugin }) => `${plugin} ${handler} ${reason} ${refusal}`
      ).values()
    ]
      .map((group) => {
        const { failure: { reason, refusal }, handler, plugin } = group[0]!
        return { plugin, handler, reason, refusal, count: group.length }
      })
  }
}

/** Counts the dead letters that match a filter. */
export const plan = Effect.fn("DeadLetters.plan")(function*(
  filter: Filter
): Effect.fn.Return<Plan, DeadLettersNotFound | StoreError, Deliveries> {
  const letters = yield* lettersOf(filter)
  const found = new Set(letters.map(({ id }) => id))
  const unknown = (filter.ids ?? []).filter((id) => !found.has(id))
  if (unknown.length > 0) {
    return yield* new DeadLettersNotFound({ message: `no dead letter matches ${unknown.join(", ")}` })
  }
  return planOf(letters)
})

const planned = Effect.fnUntraced(function*(filter: Filter, hash: string) {
  const letters = yield* lettersOf(filter)
  const found = planOf(letters)
  if (found.hash !== hash) {
    return yield* new PlanOutdated({
      message: `the plan is outdated: ${found.count} dead letters match now`,
      hint: "plan again with the same filter, check the numbers, and pass the new plan"
    })
  }
  return { letters, found }
})

const diedAtById = (letters: ReadonlyArray<DeadLetter>) =>
  new Map(letters.map(({ failure, id }): [number, number] => [id, failure.at]))

const described = ({ ids, ...filter }: Filter): string =>
  Object.entries({ ...filter, ids: ids?.length }).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name} ${value}`]
  ).join(", ")

const logCommand = (
  command: string,
  filter: Filter,
  plan: Pick<Plan, "hash" | "count">,
  more: Readonly<Record<string, string | boolean>> = {}
) =>
  Effect.logInfo("operator acted").pipe(
    Effect.annotateLogs({ command, plan: plan.hash, letters: plan.count, filter: described(filter), ...more })
  )

export interface Redriven {
  readonly count: number
  /** The ids of the deliveries that are tried again. */
  readonly ranges: ReadonlyArray<IdRange>
  /** When the first and the last delivery are tried again, our clock, in ms. */
  readonly from: number
  readonly to: number
}

/** Fails if one of these letters has a write or step of unknown outcome. */
const ensureResolved = Effect.fnUntraced(function*(letters: ReadonlyArray<DeadLetter>) {
  const unknown: Array<number> = []
  for (const letter of letters) {
    if ((yield* UnknownOutcomes.openStepsOf(letter)).some(({ state }) => state !== "answered")) unknown.push(letter.id)
  }
  const [first] = unknown
  if (first === undefined) return
  return yield* new Unresolved({
    message:
      `${unknown.length} of these dead letters have a write or step of unknown outcome, which a redrive with --fresh ` +
      `might do twice: ${unknown.slice(0, 20).join(", ")}${unknown.length > 20 ? ", …" : ""}`,
    hint: `\`rollcall deadletters show ${first}\` shows the write or step; report its outcome with ` +
      `\`rollcall deadletters resolve ${first} --happened\` or \`--did-not-happen\`, or redrive without --fresh`
  })
})

/** Redrives the planned letters, spread evenly `over` a duration of at most a week from now on. */
export const redrive = Effect.fn("DeadLetters.redrive")(function*(
  filter: Filter,
  hash: string,
  { fresh, over }: { readonly over: Duration.Duration; readonly fresh: boolean }
): Effect.fn.Return<Redriven, PlanOutdated | Unresolved | StoreError, Deliveries> {
  const { redrive } = yield* Deliveries
  const { found, letters } = yield* planned(filter, hash)
  if (fresh) yield* ensureResolved(letters)
  const from = yield* Clock.currentTimeMillis
  const length = Math.min(toMillis(over), longestWait)
  const moments = Math.max(1, Math.min(maxMoments, Math.ceil(length / 1000), letters.length))
  const size = Math.min(pageSize, Math.ceil(letters.length / moments))
  const parts = letters.length === 0 ? [] : Arr.chunksOf(letters, size)
  const dueAt = (part: number) => from + Math.round(length * part / Math.max(1, parts.length))
  let count = 0
  for (const [part, some] of parts.entries()) {
    count += yield* redrive(some.map(({ id }) => id), {
      dueAt: dueAt(part),
      fresh: fresh ? `${hash}-${from}` : null,
      died: diedAtById(some)
    }, {
      at: from,
      command: "deadletters.redrive",
      target: `plan ${hash}`,
      detail: `${counted(some.length)}${parts.length === 1 ? "" : `, part ${part + 1} of ${parts.length}`}${
        fresh ? ", fresh" : ""
      }`
    })
  }
  yield* logCommand("deadletters.redrive", filter, { ...found, count }, { fresh })
  return { count, ranges: rangesOf(letters.map(({ id }) => id)), from, to: dueAt(Math.max(0, parts.length - 1)) }
})

/** Discards the planned letters for good; the deliveries parked behind them continue. Returns the number of discarded letters. */
export const discard = Effect.fn("DeadLetters.discard")(function*(
  filter: Filter,
  hash: string
): Effect.fn.Return<number, PlanOutdated | StoreError, Deliveries> {
  const { discard } = yield* Deliveries
  const { found, letters } = yield* planned(filter, hash)
  const at = yield* Clock.currentTimeMillis
  let count = 0
  for (const some of letters.length === 0 ? [] : Arr.chunksOf(letters, pageSize)) {
    count += yield* discard(some.map(({ id }) => id), {
      at,
      command: "deadletters.discard",
      target: `plan ${hash}`,
      detail: counted(some.length)
    }, diedAtById(some))
  }
  yield* logCommand("deadletters.discard", filter, { ...found, count })
  return count
})
