/**
 * The simulated account: its permissions, its missing endpoints, and its rate and concurrency limits.
 *
 * Gotchas
 * - The rate limit is off by default, and responses then carry no rate-limit headers. The concurrency limit always applies.
 * - An endpoint that a tool does not offer is missing from all integrations of that tool, because the tool catalog lists tools.
 */
import * as Schema from "effect/Schema"
import { type Endpoint, endpointNames, permissionNames } from "./Endpoints.ts"

const positive = Schema.Int.check(Schema.isGreaterThan(0))

/** The body of `PUT /_sandbox/account`; an absent property resets that setting to its default. */
export const AccountSettings = Schema.Struct({
  /** At most `requests` per window of `seconds`, for the whole key; null (the default) if unlimited. */
  rateLimit: Schema.optionalKey(Schema.NullOr(Schema.Struct({
    requests: positive,
    seconds: Schema.Finite.check(Schema.isGreaterThan(0), Schema.isLessThanOrEqualTo(86_400))
  }))),
  /** Forwarded requests in flight at once, per integration; default 30. */
  concurrencyLimit: Schema.optionalKey(positive),
  /** Permissions that are not enabled in the scope configuration; default none. */
  missingPermissions: Schema.optionalKey(Schema.Array(Schema.Literals(permissionNames))),
  /** By tool: the endpoints that the tool does not offer (names of models, reads and writes). */
  unavailable: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.Literals(endpointNames)))),
  /** By integration: the query names of the filters that the integration does not support. */
  unsupportedFilters: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String)))
})
export type AccountSettings = typeof AccountSettings.Type

/** Whether one limit admits a request, and the headers that report the limit's state. */
interface LimitStatus {
  readonly exceeded: boolean
  readonly headers: Readonly<Record<string, string>>
}

const defaultConcurrencyLimit = 30

const ownEntries = <A>(lists: Readonly<Record<string, ReadonlyArray<A>>> = {}, name: string): ReadonlyArray<A> =>
  Object.hasOwn(lists, name) ? lists[name] ?? [] : []

export class Account {
  #settings: AccountSettings = {}
  #window = { ends: 0, used: 0 }
  readonly #inFlight = new Map<string, number>()

  get settings(): AccountSettings {
    return this.#settings
  }

  set(settings: AccountSettings): void {
    this.#settings = settings
    this.#window = { ends: 0, used: 0 }
  }

  isMissingPermission({ permission }: Endpoint): boolean {
    return permission !== null && this.#settings.missingPermissions?.includes(permission) === true
  }

  hasEndpoint(tool: string, { name }: Endpoint): boolean {
    return !ownEntries<string>(this.#settings.unavailable, tool).includes(name)
  }

  unsupportedFilters(integration: string): ReadonlyArray<string> {
    return ownEntries(this.#settings.unsupportedFilters, integration)
  }

  /** Counts a request, even one that is rejected. `now`: in ms; `reset`: seconds until the next window. */
  countRequest(now: number): LimitStatus & { readonly reset: number } {
    const { rateLimit } = this.#settings
    if (rateLimit == null) return { exceeded: false, headers: {}, reset: 0 }
    if (now >= this.#window.ends) this.#window = { ends: now + rateLimit.seconds * 1000, used: 0 }
    this.#window.used++
    const remaining = rateLimit.requests - this.#window.used
    const reset = Math.ceil((this.#window.ends - now) / 1000)
    return {
      exceeded: remaining < 0,
      reset,
      headers: {
        "ratelimit-limit": String(rateLimit.requests),
        "ratelimit-remaining": String(Math.max(0, remaining)),
        "ratelimit-reset": String(reset)
      }
    }
  }

  /** Takes one of the integration's slots for requests in flight, if one is free; `release` frees the slot. */
  acquireSlot(integration: string): LimitStatus & { readonly release: () => void } {
    const limit = this.#settings.concurrencyLimit ?? defaultConcurrencyLimit
    const before = this.#inFlight.get(integration) ?? 0
    const exceeded = before >= limit
    if (!exceeded) this.#inFlight.set(integration, before + 1)
    return {
      exceeded,
      headers: {
        "concurrency-limit": String(limit),
        "concurrency-remaining": String(Math.max(0, limit - before - 1))
      },
      release: () => {
        if (!exceeded) this.#inFlight.set(integration, (this.#inFlight.get(integration) ?? 1) - 1)
      }
    }
  }
}
