/**
 * What goes wrong between the world and its readers: hides which answer suffers which fault, by a seed.
 *
 * Gotchas
 * - They strike all 27 endpoints; `/_sandbox` always answers, and a wrong key is refused whatever the weather.
 * - `drop` breaks the connection before anything happened, `lost` after it: only the first may be sent again blindly.
 */
import * as Schema from "effect/Schema"
import { incrementalModels } from "../api/Lists.ts"
import { Chance, hash } from "./Chance.ts"
import { type EndpointName, endpointNames } from "./Endpoints.ts"

export const faultKinds = [
  "rate_limit",
  "server_error",
  "refusal",
  "truncated",
  "html",
  "delay",
  "drop",
  "lost"
] as const

const probability = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

/** One way to fail. */
export const Fault = Schema.Struct({
  kind: Schema.Literals(faultKinds),
  /** Of each request; default 1. */
  probability: Schema.optionalKey(probability),
  /** Only requests for this model's list. */
  model: Schema.optionalKey(Schema.Literals(incrementalModels)),
  /** Only requests to this endpoint: the name of a model, a read or a write. */
  endpoint: Schema.optionalKey(Schema.Literals(endpointNames)),
  /** Only requests for this integration. */
  integration: Schema.optionalKey(Schema.String),
  /** Stops after so many strikes. */
  count: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0))),
  /** `server_error`: default one of 500, 502, 503 and 504; `refusal`: default the one that belongs to the code. */
  status: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 }))),
  /** `refusal`: the code of the error envelope, known or not; default PLATFORM.UNKNOWN_ERROR. */
  code: Schema.optionalKey(Schema.String),
  /** `rate_limit`, `refusal`: `Retry-After` in seconds or as any text, default 1 for a 429; null leaves it out (R1). */
  retryAfter: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.Int, Schema.String]))),
  /** `delay`: milliseconds; default 1000. */
  delay: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 600_000 })))
})
export type Fault = typeof Fault.Type

export const weathers = ["calm", "rough", "storm"] as const
export type Weather = (typeof weathers)[number]

const mixture = (share: number): ReadonlyArray<Fault> => [
  { kind: "rate_limit", probability: share },
  { kind: "server_error", probability: share },
  { kind: "truncated", probability: share / 3 },
  { kind: "html", probability: share / 3 },
  { kind: "drop", probability: share / 3 },
  { kind: "delay", probability: share * 2, delay: 300 }
]

/** What each weather brings: nothing, a fault in 20 requests, a fault in 3. */
export const presets: Readonly<Record<Weather, ReadonlyArray<Fault>>> = {
  calm: [],
  rough: mixture(0.01),
  storm: mixture(0.07)
}

/** The body of `PUT /_sandbox/faults`: replaces what was set before. */
export const FaultSettings = Schema.Struct({
  preset: Schema.optionalKey(Schema.Literals(weathers)),
  faults: Schema.optionalKey(Schema.Array(Fault))
})
export type FaultSettings = typeof FaultSettings.Type

export class Faults {
  readonly #chance: Chance
  #set: Array<{ readonly fault: Fault; left: number }> = []

  constructor(seed: number, weather: Weather) {
    this.#chance = new Chance(hash(`faults ${seed}`))
    this.set({ preset: weather })
  }

  set({ preset = "calm", faults = [] }: FaultSettings): void {
    this.#set = [...faults, ...presets[preset]].map((fault) => ({ fault, left: fault.count ?? Infinity }))
  }

  /** The fault this request suffers, if any. */
  strike(integration: string | null, endpoint: EndpointName): Fault | null {
    for (const entry of this.#set) {
      const { fault } = entry
      const concerned = (fault.model ?? endpoint) === endpoint && (fault.endpoint ?? endpoint) === endpoint &&
        (fault.integration ?? integration) === integration
      if (!concerned || entry.left === 0 || !this.#chance.happens(fault.probability ?? 1)) continue
      entry.left--
      return fault
    }
    return null
  }

  /** Is this one of the answers that carry warnings? */
  warns(): boolean {
    return this.#chance.happens(0.03)
  }

  serverError(): number {
    return this.#chance.pick([500, 502, 503, 504])
  }
}
