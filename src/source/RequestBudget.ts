/**
 * The port to the request budget of each account: how many requests this process may have in flight, and the pauses that other processes
 * report. Processes on the same database share the budget (`SharedBudget`); a process without others has the whole budget
 * (`RequestBudget.local`).
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreError } from "../store/StoreError.ts"

export interface BudgetOptions {
  readonly account: string
  /** Maximum number of requests that all processes together may have in flight. */
  readonly concurrency: number
  /** A request ends within this time. */
  readonly timeout: Duration.Duration
  /** Runs when `slots` may have changed, with the time that is left of the pause that the processes share; zero if there is no pause. */
  readonly onChange: (pauseLeft: Duration.Duration) => Effect.Effect<void>
}

/** The slots of one account, of all processes that share its budget. */
export interface BudgetUsage {
  /** How many requests may be in flight at once. */
  readonly limit: number
  /** Slots of requests that are in flight; in a fleet, the slots that its processes have leased for them. */
  readonly taken: number
  /** Slots that could be used for the requests that are in flight or wait. */
  readonly wanted: number
  /** How many processes of a fleet have slots or want some; null for a process that has the whole budget. */
  readonly processes: number | null
  /** How long the account sends no request; zero if it is not paused. */
  readonly pauseLeft: Duration.Duration
}

/** The budget of one account. The functions are called for every request. */
export interface AccountBudget {
  /** How many requests of this process may be in flight. A further request may start only while fewer are in flight. */
  readonly slots: () => number
  /** Whether a request that has a slot may be sent now: it must end before the slot can belong to another process. */
  readonly isValid: () => boolean
  /** Reports how many requests are in flight and how many wait for a slot, whenever one of the numbers changes. */
  readonly report: (inFlight: number, waiting: number) => void
  /** Pauses the account in all other processes too. */
  readonly pause: (left: Duration.Duration) => void
  /** The budget as all processes have it; null if this process has the whole budget. */
  readonly usage: Effect.Effect<BudgetUsage | null, StoreError>
}

export class RequestBudget extends Context.Service<RequestBudget, {
  readonly open: (options: BudgetOptions) => Effect.Effect<AccountBudget>
}>()("rollcall/source/RequestBudget") {
  /** For a process that shares its accounts with no other. */
  static readonly local: Layer.Layer<RequestBudget> = Layer.succeed(RequestBudget)({
    open: ({ concurrency }) =>
      Effect.succeed({
        slots: () => concurrency,
        isValid: () => true,
        report: () => {},
        pause: () => {},
        usage: Effect.succeed(null)
      })
  })
}
