/** A handler with deliveries in a new store, for the tests of deliveries that every store must pass. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { deliveryScopeOf, deliveryScopes, shardOf } from "../../src/domain/Shard.ts"
import type { FencingToken, StepKey } from "../../src/store/AttemptJournal.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import type { ConfiguredHandler, FailedAttempt, Failure, NewDelivery } from "../../src/store/Delivery.ts"
import type { AttemptOutcome, Claimed, ClaimRequest } from "../../src/store/DeliveryClaims.ts"
import type { Owner } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { begin, testsIn } from "./StoreSamples.ts"

const handler = (name: string, details: Partial<ConfiguredHandler> = {}): ConfiguredHandler => ({
  plugin: "p",
  handler: name,
  from: "oldest",
  skipsDeadLetters: false,
  scheduled: false,
  ...details
})
const failure: Failure = { reason: "Transient", message: "not yet", refusal: null, faults: [], at: 1 }
export const failedAttempt: FailedAttempt = { number: 1, startedAt: 0, failure, requests: [] }
export const operatorAction = { at: 0, command: "test", target: "", detail: "" }

// outcomes of attempts
export const settled = (...deliveries: ReadonlyArray<number>): AttemptOutcome => ({ _tag: "Settled", deliveries })
export const retry = (id: number, dueAt = 0): AttemptOutcome => ({
  _tag: "Retry",
  deliveries: [id],
  dueAt,
  attempts: 1,
  failedAttempt
})
export const dead = (...deliveries: ReadonlyArray<number>): AttemptOutcome => ({
  _tag: "Dead",
  deliveries,
  attempts: 1,
  failedAttempt
})
/** Both halves of the batch are due at once. */
export const split = (members: ReadonlyArray<Claimed>): AttemptOutcome => ({
  _tag: "Split",
  deliveries: members.map(({ id }) => id),
  batch: members[0]?.batch ?? "",
  dueAt: 0,
  failedAttempt
})

const fenceOf = (
  owners: ReadonlyArray<Owner>,
  { claim, id, integration }: Pick<Claimed, "claim" | "id" | "integration">
): FencingToken => ({
  owner: owners.find(({ scope }) => scope === deliveryScopeOf(shardOf(integration)))!,
  delivery: id,
  claim
})

/** One handler, and a delivery for each ordering key, with positions 1, 2, 3 … */
export const setup = Effect.fnUntraced(
  function*(orderingKeys: ReadonlyArray<string>, details: Partial<ConfiguredHandler> = {}) {
    const { change, head, store, write } = yield* begin
    const deliveries = yield* Deliveries
    const owner = yield* store.takeOwnership("delivery")
    const owners = [...(yield* store.takeOwnerships(deliveryScopes)).values()]
    /** Registers the handler and takes the shards, as a process does that starts. */
    const open = (owner: Owner) =>
      Effect.tap(deliveries.registerHandlers(owner, [handler("h", details)]), deliveries.recoverShards(owners))
    const [state] = yield* open(owner)
    const key = state?.key ?? 0
    const made = (orderingKey: string, position: number): NewDelivery => ({
      handler: key,
      integration: "greenhouse:acme",
      orderingKey,
      subject: { _tag: "Event", position },
      dueAt: 0,
      dead: null,
      fresh: null
    })
    const dispatch = (owner: Owner, some: ReadonlyArray<NewDelivery>, position: number) =>
      deliveries.dispatch(owner, { deliveries: some, handlers: [key], position })
    yield* dispatch(owner, orderingKeys.map((orderingKey, index) => made(orderingKey, index + 1)), orderingKeys.length)
    const want: ClaimRequest = {
      handler: key,
      most: 100,
      mostAfterCrash: 100,
      isolated: false,
      size: null,
      concurrency: 100,
      excludedIntegrations: [],
      subject: details.scheduled === true ? "Tick" : "Event",
      maxLead: 1_000_000
    }
    const claimWith = (details: Partial<ClaimRequest> = {}, ...outcomes: ReadonlyArray<AttemptOutcome>) =>
      deliveries.settleAndClaim(owners, outcomes, [{ ...want, ...details }])
    const claim = Effect.map(claimWith(), ({ claimed }) => claimed)
    const end = (...outcomes: ReadonlyArray<AttemptOutcome>) => deliveries.settleAndClaim(owners, outcomes, [])
    return {
      store,
      deliveries,
      owner,
      owners,
      open,
      key,
      made,
      dispatch,
      want,
      /** Settles attempts, then claims what is due. */
      claimWith,
      /** Claims what is due. */
      claim,
      /** Claims what is due, which is at least one delivery; gives the first one. */
      claimOne: Effect.map(claim, ([one]) => one ?? assert.fail("nothing is due")),
      end,
      settle: (some: ReadonlyArray<Claimed>) => end(settled(...some.map(({ id }) => id))),
      fence: (claimed: Claimed) => fenceOf(owners, claimed),
      step: (dedupKey: string, name = "s"): StepKey => (
        { handler: key, dedupKeys: [dedupKey], step: name, keepForever: dedupKey.startsWith("r:") }
      ),
      redrive: (ids: ReadonlyArray<number>) => deliveries.redrive(ids, { dueAt: 0, fresh: null }, operatorAction),
      replay: (...some: ReadonlyArray<NewDelivery>) => deliveries.replay(some, operatorAction),
      change,
      head,
      write
    }
  }
)

export const placesOf = (claimed: ReadonlyArray<Claimed>) =>
  claimed.map(({ orderingKey, subject }) => `${orderingKey}${subject._tag === "Event" ? subject.position : ""}`)
/** Tests with a store each: the body of a test gets the result of its rig. */
export const deliveryTests = (layer: Layer.Layer<Store | Deliveries, StoreError>) =>
<A>(
  title: string,
  rig: Effect.Effect<A, unknown, Store | Deliveries>,
  body: Parameters<ReturnType<typeof testsIn<A, Store | Deliveries>>>[1]
) => testsIn(layer, rig)(title, body)
