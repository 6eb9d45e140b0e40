/** Groups dead letters by their cause, so that an operator repairs and sends again everything with the same cause at once. */
import * as Effect from "effect/Effect"
import { causeOf } from "../../domain/FailureCause.ts"
import type { DeadLetter, DeadLetterQuery } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"

const pageSize = 1_000
const mostLetters = 10_000
/** Also the most ids that a plan accepts. */
const mostOfGroup = 1_000

export interface Group {
  /** The newest letter, with its whole message. */
  readonly newest: DeadLetter
  readonly oldestAt: number
  readonly count: number
  readonly parked: number
  readonly integrations: ReadonlyArray<string>
  /** The oldest thousand. */
  readonly letters: ReadonlyArray<DeadLetter>
}

const keyOf = ({ failure: { message, reason, refusal }, handler, plugin }: DeadLetter): string =>
  JSON.stringify([plugin, handler, reason, refusal, causeOf(message)])

const groupOf = (letters: ReadonlyArray<DeadLetter>): Group => {
  const byTime = letters.toSorted((one, other) => one.failure.at - other.failure.at)
  return {
    newest: byTime.at(-1)!,
    oldestAt: byTime[0]!.failure.at,
    count: letters.length,
    parked: letters.reduce((sum, { parked }) => sum + parked, 0),
    integrations: [...new Set(letters.map(({ integration }) => integration))].sort(),
    letters: letters.slice(0, mostOfGroup)
  }
}

/** The groups of the letters that match, the largest first. `isComplete`: false if only the oldest ten thousand letters were read. */
export const groups = Effect.fn("DeadLetters.groups")(function*(filter: Omit<DeadLetterQuery, "after" | "limit">) {
  const { deadLetters } = yield* Deliveries
  const found: Array<DeadLetter> = []
  let isComplete = false
  for (let after = 0; found.length < mostLetters && !isComplete;) {
    const some: ReadonlyArray<DeadLetter> = yield* deadLetters({ ...filter, after, limit: pageSize })
    found.push(...some)
    isComplete = some.length < pageSize
    after = some.at(-1)?.id ?? after
  }
  const sorted = [...Map.groupBy(found, keyOf).values()].map(groupOf).toSorted((one, other) => other.count - one.count)
  return { groups: sorted, isComplete }
})
