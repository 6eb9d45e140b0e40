/**
 * Faults between the world and its clients: decides which request gets which fault, with seeded random numbers.
 *
 * Gotchas
 * - Faults apply to all 27 endpoints. `/_sandbox` always answers, and a wrong key is always rejected.
 * - `drop_request` breaks the connection before the request takes effect, `drop_response` after it: only the first is safe to retry.
 */
import * as Schema from "effect/Schema"
import { incrementalModels } from "../../api/Lists.ts"

import { hash, SeededRandom } from "../world/SeededRandom.ts"
import { endpointNames } from "./Endpoints.ts"

export const faultKinds = [
  "rate_limit",
  "server_error",
  "api_error",
  "truncated",
  "html",
  "delay",
  "drop_request",
  "drop_response"
] as const

const probability = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

/** One way to fail. */
export const InjectedFault = Schema.Struct({
  kind: Schema.Literals(faultKinds),
  /** The probability of the fault for each request; default 1. */
  probability: Schema.optionalKey(probability),
  /** Only requests for this model's list. */
  model: Schema.optionalKey(Schema.Literals(incrementalModels)),
  /** Only requests to this endpoint: the name of a model, a read or a write. */
  endpoint: Schema.optionalKey(Schema.Literals(endpointNames)),
  /** Only requests for this integration. */
  integration: Schema.optionalKey(Schema.String),
  /** The fault stops after this many requests. */
  count: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0))),
  /** `server_error`: default one of 500, 502, 503 and 504; `api_error`: default the status that belongs to the code. */
  status: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 }))),
  /** `api_error`: the code of the error envelope, known or not; default PLATFORM.UNKNOWN_ERROR. */
  code: Schema.optionalKey(Schema.String),
  /**
   * `Retry-After` of `rate_limit`, `server_error` and `api_error`: seconds or any text; null for no header. Default: 1 on a 429,
   * otherwise no header (R1).
   */
  retryAfter: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.Int, Schema.String]))),
  /** `delay`: milliseconds; default 1000. */
  delay: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 600_000 })))
})
export type InjectedFault = typeof InjectedFault.Type

export const faultProfiles = ["none", "light", "heavy"] as const
export type FaultProfile = (typeof faultProfiles)[number]

const faultMix = (share: number): ReadonlyArray<InjectedFault> => [
  { kind: "rate_limit", probability: share },
  { kind: "server_error", probability: share },
  { kind: "truncated", probability: share / 3 },
  { kind: "html", probability: share / 3 },
  { kind: "drop_request", probability: share / 3 },
  { kind: "delay", probability: share * 2, delay: 300 }
]

/** The faults of each profile: none, about 1 request in 20, about 1 in 3. */
export const profileFaults: Readonly<Record<FaultProfile, ReadonlyArray<InjectedFault>>> = {
  none: [],
  light: faultMix(0.01),
  heavy: faultMix(0.07)
}

/** The body of `PUT /_sandbox/faults`; replaces the previous settings. */
export const FaultSettings = Schema.Struct({
  profile: Schema.optionalKey(Schema.Literals(faultProfiles)),
  faults: Schema.optionalKey(Schema.Array(InjectedFault))
})
export type FaultSettings = typeof FaultSettings.Type

export class FaultInjector {
  readonly #random: SeededRandom
  #active: Array<{ readonly fault: InjectedFault; left: number }> = []

  constructor(seed: number, profile: FaultProfile) {
    this.#random = new SeededRandom(hash(`faults ${seed}`))
    this.set({ profile })
  }

  set({ profile = "none", faults = [] }: FaultSettings): void {
    this.#active = [...faults, ...profileFaults[profile]].map((fault) => ({ fault, left: fault.count ?? Infinity }))
  }

  /** The fault for this request, or null. */
  pickFault(integration: string | null, endpoint: string): InjectedFault | null {
    for (const entry of this.#active) {
      const { fault } = entry
      const applies = (fault.model ?? endpoint) === endpoint && (fault.endpoint ?? endpoint) === endpoint &&
        (fault.integration ?? integration) === integration
      if (!applies || entry.left === 0 || !this.#random.boolean(fault.probability ?? 1)) continue
      entry.left--
      return fault
    }
    return null
  }

  /** Whether this response carries a warning. */
  shouldWarn(): boolean {
    return this.#random.boolean(0.03)
  }

  pickServerErrorStatus(): number {
    return this.#random.pick([500, 502, 503, 504])
  }
}
