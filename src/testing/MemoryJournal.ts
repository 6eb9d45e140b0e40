/**
 * The port `AttemptJournal` in memory. Its state can be copied.
 *
 * Gotchas
 * - Writes are never stopped, and no integration is removed.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { WriteName } from "../api/Writes.ts"
import type { Json } from "../domain/ChangeEvent.ts"
import * as WriteBudget from "../domain/WriteBudget.ts"
import type { AttemptJournal, BeginRefusal, FencingToken, Intent, StepKey } from "../store/AttemptJournal.ts"
import { Fenced, StoreError } from "../store/Store.ts"

interface StepRow {
  readonly handler: number
  readonly dedupKey: string
  readonly step: string
  /** Null if the step is not a write. */
  readonly write: WriteName | null
  /** The budget in which the write counts; see `JournalState.counted`. */
  readonly budget: string | null
  delivery: number
  claim: number
  /** In ms. */
  begunAt: number
  /** Null if the step started and has no result. */
  result: Json | null
}

export interface JournalState {
  rows: Array<StepRow>
  /** The newest claim; earlier claims are fenced. */
  newest: Pick<FencingToken, "delivery" | "claim">
  /** The writes of a plugin in an integration that count in its hourly budget, by the JSON of both names. */
  readonly counted: Map<string, WriteBudget.CountedWrites>
}

const budgetOf = (plugin: string, integration: string): string => JSON.stringify([plugin, integration])

/** The write that this step is; null if it is not a write. */
export const writeOf = ({ rows }: JournalState, { dedupKeys, handler, step }: StepKey): WriteName | null =>
  rows.find((row) => row.handler === handler && row.step === step && dedupKeys.includes(row.dedupKey))?.write ?? null

/** `content` and `applicationsOf`: the published records. */
export const make = (
  state: JournalState,
  records: Pick<AttemptJournal, "content" | "applicationsOf">
): AttemptJournal => {
  const rowsOf = ({ dedupKeys, handler, step }: StepKey) =>
    state.rows.filter((row) => row.handler === handler && row.step === step && dedupKeys.includes(row.dedupKey))
  const isBy = ({ claim, delivery }: FencingToken) => (row: StepRow) => row.delivery === delivery && row.claim === claim
  const openBy = (fence: FencingToken, key: StepKey) =>
    rowsOf(key).filter((row) => row.result === null && isBy(fence)(row))
  const resultOf = (key: StepKey): Json | null => rowsOf(key).find(({ result }) => result !== null)?.result ?? null
  const add = (
    { claim, delivery }: FencingToken,
    { dedupKeys: [dedupKey], handler, integration = "", step, write = null }:
      & StepKey
      & Partial<Pick<Intent, "integration" | "write">>,
    begunAt: number,
    result: Json | null
  ) => {
    const budget = write === null ? null : budgetOf(write.plugin, integration)
    state.rows.push({ handler, dedupKey, step, write: write?.name ?? null, budget, delivery, claim, begunAt, result })
  }

  const check = ({ claim, delivery }: FencingToken): Effect.Effect<void, StoreError> =>
    delivery === state.newest.delivery && claim === state.newest.claim
      ? Effect.void
      : Effect.fail(new StoreError({ reason: new Fenced({ scope: `delivery ${delivery}`, epoch: claim }) }))

  const refusalOf = (fence: FencingToken, intent: Intent): BeginRefusal | null => {
    const result = resultOf(intent)
    if (result !== null) return { _tag: "Done", result }
    const [known] = rowsOf(intent)
    if (known !== undefined) return intent.allowRepeat ? null : { _tag: "Unknown", begunAt: known.begunAt }
    const { dedupKeys, handler, sameRequestPrefix } = intent
    if (sameRequestPrefix === undefined) return null
    const other = state.rows.find((row) =>
      row.handler === handler && dedupKeys.includes(row.dedupKey) && row.result === null &&
      row.step.startsWith(sameRequestPrefix) && !isBy(fence)(row)
    )
    return other === undefined ? null : { _tag: "Unknown", begunAt: other.begunAt }
  }

  /** Counts one more write in the hour; false if the hour's budget is used up. */
  const spend = ({ integration, write }: Intent, now: number): boolean => {
    if (write === null || write.perHour === null) return true
    const of = budgetOf(write.plugin, integration)
    const counted = WriteBudget.countWrite(state.counted.get(of) ?? null, write.perHour, now)
    if (counted !== null) state.counted.set(of, counted)
    return counted !== null
  }

  const checkBegin: AttemptJournal["checkBegin"] = (fence, intent) =>
    Effect.map(check(fence), () => refusalOf(fence, intent))

  return {
    ...records,
    check,
    result: (key) => Effect.sync(() => resultOf(key)),
    checkBegin,
    begin: Effect.fnUntraced(function*(fence, intent) {
      const now = yield* Clock.currentTimeMillis
      const refusal = yield* checkBegin(fence, intent)
      if (refusal !== null) return refusal
      if (!spend(intent, now)) return { _tag: "BudgetExhausted", until: WriteBudget.hourEnd(now) }
      const known = rowsOf(intent)
      const { claim, delivery } = fence
      for (const row of known) Object.assign(row, { claim, delivery, begunAt: now })
      if (known.length === 0) add(fence, intent, now, null)
      return { _tag: "Begun" }
    }),
    finish: (fence, key, result) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const open = openBy(fence, key)
        for (const row of open) row.result = result
        const isKnown = rowsOf(key).some(({ dedupKey }) => dedupKey === key.dedupKeys[0])
        if (open.length === 0 && !isKnown) add(fence, key, now, result)
      }),
    withdraw: (fence, key) =>
      Effect.sync(() => {
        const open = openBy(fence, key)
        for (const { begunAt, budget } of open) {
          const counted = budget === null ? undefined : state.counted.get(budget)
          if (counted !== undefined) state.counted.set(budget ?? "", WriteBudget.uncountWrite(counted, begunAt))
        }
        state.rows = state.rows.filter((row) => !open.includes(row))
      })
  }
}
