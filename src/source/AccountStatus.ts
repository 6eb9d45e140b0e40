/** The accounts of this process, for operators: the request budget of each, and until when the API has paused it. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { StoreError } from "../store/StoreError.ts"
import type { BudgetUsage } from "./RequestBudget.ts"

export class AccountStatus extends Context.Service<AccountStatus, {
  /** Text for operators: the paused accounts and the end of each pause; null if no account is paused. */
  readonly remark: Effect.Effect<string | null>
  /** Null if the account is not configured. */
  readonly usageOf: (account: string) => Effect.Effect<BudgetUsage | null, StoreError>
}>()("rollcall/source/AccountStatus") {}

interface Client {
  readonly pauseLeft: Effect.Effect<Duration.Duration>
  readonly usage: Effect.Effect<BudgetUsage, StoreError>
}

export const make = (clients: ReadonlyMap<string, Client>): AccountStatus["Service"] => ({
  remark: Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    const remarks: Array<string> = []
    for (const [account, { pauseLeft }] of clients) {
      const left = Duration.toMillis(yield* pauseLeft)
      if (left === 0) continue
      const until = new Date(now + left).toISOString()
      remarks.push(
        `account ${account} is rate limited until ${until}: the API requested a pause, so Rollcall sends no requests until then`
      )
    }
    return remarks.length === 0 ? null : remarks.join("; ")
  }),
  usageOf: (account) => clients.get(account)?.usage ?? Effect.succeed(null)
})
