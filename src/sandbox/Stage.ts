/**
 * What the sandbox's routes work with: the world at the right time, its faults, the account with its key, and the log of requests.
 *
 * Gotchas
 * - The log holds no key and no body; it keeps the last ten thousand requests.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Account } from "./Account.ts"
import type { Faults } from "./Faults.ts"
import type { World } from "./World.ts"

export interface RequestEntry {
  /** ISO 8601, when it arrived. */
  readonly at: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly integration: string | null
  /** null: the connection broke before an answer. */
  readonly status: number | null
}

const kept = 10_000

export class Stage {
  readonly world: World
  readonly faults: Faults
  readonly account: Account
  readonly key: string
  readonly requests: Array<RequestEntry> = []
  /** ms */
  readonly now = Clock.currentTimeMillis
  /** Lets the world live up to now. */
  readonly catchUp: Effect.Effect<void>

  constructor(world: World, faults: Faults, account: Account, key: string) {
    this.world = world
    this.faults = faults
    this.account = account
    this.key = key
    this.catchUp = Effect.map(this.now, (now) => world.advance(now))
  }

  record(entry: RequestEntry): Effect.Effect<void> {
    return Effect.sync(() => {
      this.requests.push(entry)
      if (this.requests.length > 2 * kept) this.requests.splice(0, kept)
    })
  }
}
