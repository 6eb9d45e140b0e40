/** The accounts that send no request at the moment, because a response of the API requested a pause. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

export class PausedAccounts extends Context.Service<PausedAccounts, {
  /** Text for operators: the paused accounts and the end of each pause; null = no account is paused. */
  readonly remark: Effect.Effect<string | null>
}>()("rollcall/source/PausedAccounts") {}

interface Pausing {
  readonly pauseLeft: Effect.Effect<Duration.Duration>
}

export const make = (clients: ReadonlyMap<string, Pausing>): PausedAccounts["Service"] => ({
  remark: Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    const remarks: Array<string> = []
    for (const [account, { pauseLeft }] of clients) {
      const left = Duration.toMillis(yield* pauseLeft)
      if (left === 0) continue
      const until = new Date(now + left).toISOString()
      remarks.push(
        `account ${account} is rate limited until ${until}: the API requested a pause, and until then it sends no requests`
      )
    }
    return remarks.length === 0 ? null : remarks.join("; ")
  })
})
