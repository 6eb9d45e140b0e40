/**
 * Runs five plugins over a real store in a process that crashes between any two durable steps and is restarted, or in several processes
 * that also freeze and between which shards move, with an API that fails in every possible way. Then compares the effects with the
 * guarantees of the engine.
 *
 * Gotchas
 * - A crashed process stops at its next call of a port and never goes on. The state that it left in the store does not change.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import type { WriteName } from "../../../src/api/Writes.ts"
import * as UnknownOutcomes from "../../../src/delivery/admin/UnknownOutcomes.ts"
import { DeliveryEngine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import * as SourcePort from "../../../src/source/Source.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import type { RecordWrite } from "../../../src/store/Records.ts"
import { Store } from "../../../src/store/Store.ts"
import { eventOf, headOf, headsOf, integrationOf, stateOf } from "../../conformance/StoreSamples.ts"
import * as MemoryStore from "../store/MemoryStore.ts"
import { type Change, type Effects, pluginsOf, type RunResult, sourceOf } from "./RestartEffects.ts"
import * as TestPlacement from "./TestPlacement.ts"

export interface Size {
  readonly seed: number
  readonly records: number
  readonly events: number
  /** The chance of a crash before and after each call of a port. */
  readonly crashChance: number
  /** An operator truthfully resolves every unknown outcome. */
  readonly resolvesOutcomes?: boolean
  /**
   * Several processes that share the store, and the chances per round that a shard moves, that a process freezes for a while, and that the
   * store does not answer a process for a while.
   */
  readonly fleet?: {
    readonly processes: number
    readonly moveChance: number
    readonly freezeChance: number
    readonly slowChance: number
  }
}

const integrations = ["greenhouse:acme", "lever:beta"]
const hire = '[{"name":"hired","from":"PENDING","to":"HIRED"}]'

interface Lifetime {
  /** Whether the process has crashed by now. */
  readonly step: () => boolean
  /** Returns when the process is not frozen. */
  readonly awake: Effect.Effect<void>
}

/** Every call of a port may crash the process or freeze it: before the call has effect, or right after. */
const withCrashes = <S extends object>(service: S, lifetime: Lifetime): S => {
  const crashing = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() =>
      lifetime.step()
        ? Effect.never
        : Effect.andThen(lifetime.awake, effect).pipe(
          Effect.flatMap((value) => lifetime.step() ? Effect.never : Effect.as(lifetime.awake, value))
        )
    )
  return new Proxy(service, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (Effect.isEffect(member)) return crashing(member)
      if (typeof member !== "function") return member
      return (...args: ReadonlyArray<unknown>) => {
        const result: unknown = Reflect.apply(member, target, args)
        return Effect.isEffect(result) ? crashing(result) : result
      }
    }
  })
}

/** Redrives, as an operator would, the dead letters of deliveries that ended the process. Returns their number. */
const redriveEnded = Effect.fnUntraced(function*(deliveries: Deliveries["Service"]) {
  const act = { at: 0, command: "test", target: "", detail: "" }
  const ended = yield* deliveries.deadLetters({ reason: "ProcessEnded", limit: 10_000 })
  for (const which of yield* deliveries.switchedOff) yield* deliveries.setSwitch(which, true, act)
  if (ended.length === 0) return 0
  return yield* deliveries.redrive(ended.map(({ id }) => id), { dueAt: 0, fresh: null }, act)
})

/** Resolves each write of unknown outcome with its true outcome, as an operator would. Returns the number of resolved steps. */
const resolveOutcomes = Effect.fnUntraced(
  function*(deliveries: Deliveries["Service"], { employees, links, tags }: Effects) {
    let resolved = 0
    for (const letter of yield* deliveries.deadLetters({ limit: 10_000 })) {
      const { event, failure, id, integration } = letter
      if (failure.refusal !== "OutcomeUnknown" || event === null) continue
      const record = `${integration}/${event.id}`
      const truth: Partial<Record<WriteName, boolean>> = {
        addResultLink: links.has(`${record}@${event.version}`),
        createEmployee: employees.has(record),
        addTag: tags.has(`${integration}/c-${event.id}`)
      }
      for (const { name, write } of yield* UnknownOutcomes.openStepsOf(letter)) {
        const happened = write !== null && truth[write] === true
        const created = happened && write === "createEmployee" ? { id: `employee of ${record}` } : {}
        const result = yield* Effect.result(UnknownOutcomes.resolve(id, name, { happened, ...created }))
        if (result._tag === "Success") resolved++
      }
    }
    return resolved
  },
  (effect, deliveries) => Effect.provideService(effect, Deliveries, deliveries)
)

/** A random sequence of changes. */
const historyOf = (random: SeededRandom, { events, records }: Size): ReadonlyArray<Change> => {
  const versions = new Map<string, number>()
  return Array.from({ length: events }, () => {
    const integration = integrations[Math.floor(random.next() * integrations.length)] ?? ""
    const id = `a${Math.floor(random.next() * records)}`
    const version = (versions.get(integration + id) ?? 0) + 1
    versions.set(integration + id, version)
    return { integration, id, version, hired: version > 1 && random.next() < 0.15 }
  })
}

const realTurn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

export const run = Effect.fnUntraced(function*(size: Size) {
  const random = new SeededRandom(size.seed)
  const effects: Effects = {
    links: new Map(),
    employees: new Map(),
    tags: new Map(),
    done: [],
    batched: new Set(),
    ticks: [],
    steps: new Map()
  }
  const services = yield* Layer.build(MemoryStore.layer())
  const store = Context.get(services, Store)
  const deliveries = Context.get(services, Deliveries)
  const owner = yield* store.takeOwnership("capture")
  for (const id of [...integrations, "workday:acme"]) yield* store.saveIntegration(owner, integrationOf(id), null)
  yield* store.ensureStreams(integrations.map((integration) => stateOf({ integration, model: "ats.application" })))
  const history = historyOf(random, size)
  const plugins = pluginsOf(random, effects)
  let crashes = 0
  let crashChance = size.crashChance
  const placement = TestPlacement.make()
  const fleet = size.fleet ?? null
  let started = 0
  let moves = 0
  let freezes = 0
  let slow = 0

  const begin = Effect.gen(function*() {
    const id = started++
    let hasCrashed = false
    const crashed = yield* Deferred.make<void>()
    const awake = Latch.makeUnsafe(true)
    const answers = Latch.makeUnsafe(true)
    const lifetime = {
      step: () => {
        if (!hasCrashed && random.next() < crashChance) {
          hasCrashed = true
          crashes++
          Deferred.doneUnsafe(crashed, Effect.void)
        }
        return hasCrashed
      },
      awake: awake.await
    }
    const source = withCrashes(sourceOf(random, effects), lifetime)
    const client = HttpClient.make((request) =>
      Effect.succeed(HttpClientResponse.fromWeb(request, new Response(null, { status: 200 })))
    )
    const withStore = { ...lifetime, awake: Effect.andThen(answers.await, awake.await) }
    const ports = Layer.mergeAll(
      Layer.succeed(Store, withCrashes(store, withStore)),
      Layer.succeed(Deliveries, withCrashes(deliveries, withStore)),
      Layer.succeed(SourcePort.Source, source),
      Layer.succeed(HttpClient.HttpClient, client)
    )
    // the scope is never closed: a crashed process is abandoned
    const scope = yield* Scope.make()
    yield* Effect.forkDetach(
      Layer.buildWithScope(
        Layer.provide(
          DeliveryEngine.layer({ plugins, retention: Duration.days(7), takesAgain: fleet !== null }),
          Layer.merge(ports, fleet === null ? Placement.local : placement.layer(id))
        ),
        scope
      )
    )
    return { id, awake, answers, hasCrashed: () => hasCrashed }
  })

  const append = (some: ReadonlyArray<Change>) =>
    Effect.forEach(
      Map.groupBy(some, ({ integration }) => integration),
      ([integration, own]) =>
        store.transact(owner, { integration, model: "ats.application" }, (tx) =>
          Effect.gen(function*() {
            const heads = yield* headsOf(tx, own.map(({ id }) => id))
            const writes: Array<RecordWrite> = [...Map.groupBy(own, ({ id }) => id)].map(([id, changes]) => ({
              head: {
                ...(heads.get(id) ?? headOf(id)),
                version: changes.at(-1)?.version ?? 0
              },
              events: changes.map(({ hired, version }) =>
                eventOf(id, version, version === 1 ? "created" : "updated", {
                  eventId: `${integration}-${id}-${version}`,
                  transitions: hired ? hire : "[]"
                })
              )
            }))
            yield* tx.setDerivedIds(new Map(own.map(({ id }) => [id, `c-${id}`])))
            yield* tx.write(writes)
          })),
      { discard: true }
    )

  const processes = yield* Effect.replicateEffect(begin, fleet?.processes ?? 1)
  const oneOf = <A>(all: ReadonlyArray<A>): A => all[Math.floor(random.next() * all.length)]!
  /** Shards move for no reason, and from a process that is dead or frozen. */
  const moveSome = Effect.fnUntraced(function*(chance: number) {
    const awake = processes.filter(({ awake }) => awake.isOpen())
    for (const name of placement.names()) {
      const mustMove = awake.every(({ id }) => id !== placement.placeOf(name))
      if (awake.length === 0 || (!mustMove && random.next() >= chance)) continue
      moves++
      yield* placement.move(name, oneOf(awake).id)
    }
  })
  const disturb = Effect.fnUntraced(function*({ freezeChance, moveChance, slowChance }: NonNullable<Size["fleet"]>) {
    yield* moveSome(crashChance === 0 ? 0 : moveChance)
    for (const process of processes) {
      if (!process.answers.isOpen()) {
        if (random.next() < 0.3) yield* process.answers.open
      } else if (crashChance > 0 && random.next() < slowChance) {
        slow++
        yield* process.answers.close
      }
      if (!process.awake.isOpen()) {
        // others have run its shards for a while, before it finds out
        if (random.next() < 0.3) {
          yield* process.awake.open
          for (let turn = 0; turn < 4; turn++) yield* realTurn
          yield* placement.thaw(process.id)
        }
      } else if (crashChance > 0 && random.next() < freezeChance) {
        freezes++
        placement.freeze(process.id)
        yield* process.awake.close
      }
    }
  })
  const settle = Effect.fnUntraced(function*(rounds: number, isDone: Effect.Effect<boolean, unknown>) {
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < 8; turn++) yield* realTurn
      for (const [index, process] of processes.entries()) {
        if (!process.hasCrashed()) continue
        placement.remove(process.id)
        processes[index] = yield* begin
      }
      if (fleet !== null) yield* disturb(fleet)
      if (round % 4 === 3) {
        if (yield* isDone) return true
        yield* TestClock.adjust("20 seconds")
      }
    }
    return false
  })
  const never = Effect.succeed(false)
  for (let from = 0; from < history.length;) {
    const next = from + 1 + Math.floor(random.next() * Math.max(60, size.events / 50))
    yield* append(history.slice(from, next))
    from = next
    yield* settle(2, never)
  }
  if (size.resolvesOutcomes !== true) crashChance = 0
  const nothingLeft = Effect.map(
    deliveries.backlog,
    (backlog) => backlog.every(({ due, later, running }) => due + later + running === 0)
  )
  const positions = Effect.map(
    Effect.zip(deliveries.handlers, store.logRange),
    ([handlers, { newest }]) =>
      handlers.length > 0 && handlers.every(({ handler, position }) => handler === "regular" || position === newest)
  )
  let resolved = 0
  const isFinished = Effect.zipWith(nothingLeft, positions, (a, b) => a && b)
  for (let round = 0; size.resolvesOutcomes === true && round < 30; round++) {
    yield* settle(40, isFinished)
    yield* TestClock.adjust("10 minutes")
    const newlyRedriven = yield* redriveEnded(deliveries)
    const newlyResolved = yield* resolveOutcomes(deliveries, effects)
    resolved += newlyResolved
    if (newlyResolved + newlyRedriven === 0 && round > 5) break
  }
  // from here on the process does not crash, until no delivery is left to do
  crashChance = 0
  for (let ended = false; !ended;) {
    if (!(yield* settle(4_000, isFinished))) {
      return yield* Effect.die(new Error(`seed ${size.seed}: deliveries are still left`))
    }
    yield* TestClock.adjust("10 minutes")
    const newlyRedriven = size.resolvesOutcomes === true ? yield* redriveEnded(deliveries) : 0
    const newlyResolved = size.resolvesOutcomes === true ? yield* resolveOutcomes(deliveries, effects) : 0
    resolved += newlyResolved
    ended = newlyResolved + newlyRedriven === 0
  }
  yield* TestClock.adjust("2 minutes")
  yield* settle(4, never)
  const letters = yield* deliveries.deadLetters({ limit: 10_000 })
  const backlog = yield* deliveries.backlog
  const result: RunResult = {
    history,
    effects,
    letters,
    backlog,
    parked: letters.reduce((sum, { parked }) => sum + parked, 0),
    crashes,
    moves,
    freezes,
    slow,
    resolved
  }
  return result
}, Effect.provide(Logger.layer([])))
