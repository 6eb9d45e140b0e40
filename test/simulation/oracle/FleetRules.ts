/**
 * The rules for what the processes of a fleet share: the request slots of an account (R1), the relay (I10, X15), the circuit of each
 * handler (L4), and the keys of the store (I1). It sees all processes at once, and repeats the rules of the service in its own words.
 */
import { deliveryScopeOf, shardOf } from "../../../src/domain/Shard.ts"
import type { AttemptOutcome, ClaimResult } from "../../../src/store/DeliveryClaims.ts"
import type { Owner } from "../../../src/store/State.ts"
import type { Store } from "../../../src/store/Store.ts"
import type { VirtualTime } from "../world/VirtualTime.ts"
import type { ReportAt } from "./ObservedStream.ts"

/** So many records must fail one after another. */
const failuresUntilOpen = 10
const firstOpenMillis = 30_000
const longestOpenMillis = 600_000

export interface KeyIds {
  readonly registered: ReadonlySet<string>
  readonly used: ReadonlySet<string>
}

interface Circuit {
  readonly failed: Set<string>
  openings: number
  /** When the next trial may start, in ms. */
  until: number
}

export class FleetRules {
  readonly #time: VirtualTime
  readonly #reportAt: ReportAt
  readonly #slots: number
  readonly #leaseMillis: number
  /** Until then requests may exceed the slots, because the store that had their leases was replaced. ms */
  #unleasedUntil = -Infinity
  /** By store: the latest relay that opened the sink. */
  readonly #relays = new WeakMap<Store["Service"], number>()
  /** By handler: only those that failed since their last success. */
  readonly #circuits = new Map<number, Circuit>()
  /** By delivery: the scope that it belongs to. */
  readonly #scopes = new Map<number, string>()

  /** `slots`: requests that all processes may have in flight. `leaseMillis`: how long slots may stay leased after their process died. */
  constructor(time: VirtualTime, reportAt: ReportAt, slots: number | null, leaseMillis: number) {
    this.#time = time
    this.#reportAt = reportAt
    this.#slots = slots ?? Infinity
    this.#leaseMillis = leaseMillis
  }

  /** Called when another store, or a copy, answers the processes: it may lack leases. */
  storeReplaced(): void {
    this.#unleasedUntil = this.#time.now + this.#leaseMillis
  }

  /** Called when a request reaches the API; `inFlight`: with it. */
  requestSent(inFlight: number): void {
    if (inFlight <= this.#slots || this.#time.now < this.#unleasedUntil) return
    this.#reportAt("account")("R1", `${inFlight} requests are in flight, and the account has ${this.#slots} slots`)
  }

  sinkOpened(store: Store["Service"], { epoch }: Owner): void {
    this.#relays.set(store, Math.max(epoch, this.#relays.get(store) ?? 0))
  }

  published(store: Store["Service"], { epoch }: Owner): void {
    const latest = this.#relays.get(store) ?? 0
    if (epoch >= latest) return
    this.#reportAt("sink")("I10", `the relay with epoch ${epoch} published after the one with epoch ${latest}`)
  }

  /** Called often, with the keys that are registered and those with which content is encrypted. */
  keysSeen({ registered, used }: KeyIds): void {
    const report = this.#reportAt("keys")
    for (const id of used) if (!registered.has(id)) report("I1", `content is encrypted with the retired key ${id}`)
  }

  /** Called when keys were retired. `others`: the current keys of the processes that are known to live. */
  keysRetired(retired: ReadonlyArray<string>, others: ReadonlyArray<string | null>): void {
    const report = this.#reportAt("keys")
    for (const id of retired) {
      if (others.includes(id)) report("I1", `the key ${id} is retired, and a process encrypts with it`)
    }
  }

  /** Called for a process that has lacked a registered key for a while. */
  keysLacked(process: number, works: boolean): void {
    if (works) this.#reportAt("keys")("I1", `process ${process} lacks a key and does not hand its work over`)
  }

  /** Called when a process registers its handlers, because it may bring a fixed plugin. */
  handlersRegistered(): void {
    for (const circuit of this.#circuits.values()) circuit.until = Math.min(circuit.until, this.#time.now)
  }

  /** Called after a transaction that settled these attempts and then claimed deliveries. */
  settledAndClaimed(
    outcomes: ReadonlyArray<AttemptOutcome>,
    { claimed, lost }: ClaimResult
  ): void {
    const { now } = this.#time
    const report = this.#reportAt("deliveries")
    const lostScopes = new Set(lost.map(({ scope }) => scope))
    for (const { deliveries, result } of outcomes) {
      if (result === undefined || deliveries.some((id) => lostScopes.has(this.#scopes.get(id) ?? ""))) continue
      if (result.failed === null) this.#circuits.delete(result.handler)
      else this.#failed(result.handler, result.failed, now)
    }
    for (const { id, integration } of claimed) this.#scopes.set(id, deliveryScopeOf(shardOf(integration)))
    for (const [handler, own] of Map.groupBy(claimed, ({ handler }) => handler)) {
      const circuit = this.#circuits.get(handler)
      if (circuit === undefined || circuit.openings === 0) continue
      if (now < circuit.until) {
        report("L4", `a handler got a delivery ${circuit.until - now} ms before the open time of its circuit ends`)
      } else if (own.length > 1) report("L4", `a handler got ${own.length} deliveries for the trial of its circuit`)
    }
  }

  #failed(handler: number, record: string, now: number): void {
    const circuit = this.#circuits.get(handler) ?? { failed: new Set(), openings: 0, until: now }
    this.#circuits.set(handler, circuit)
    if (circuit.failed.size < failuresUntilOpen) circuit.failed.add(record)
    if (circuit.failed.size < failuresUntilOpen || now < circuit.until) return
    circuit.until = now + Math.min(longestOpenMillis, firstOpenMillis * 2 ** circuit.openings)
    circuit.openings++
  }
}
