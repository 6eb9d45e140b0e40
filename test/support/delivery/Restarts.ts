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
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import type { WriteName } from "../../../src/api/Writes.ts"
import * as UnknownOutcomes from "../../../src/delivery/admin/UnknownOutcomes.ts"
import { DeliveryEngine } from "../../../src/delivery/engine/DeliveryEngine.ts"
import { RawRow } from "../../../src/domain/RawRow.ts"
import { Placement } from "../../../src/fleet/Placement.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import * as SourcePort from "../../../src/source/Source.ts"
import type { Backlog, DeadLetter } from "../../../src/store/DeadLetters.ts"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import type { RecordWrite } from "../../../src/store/Records.ts"
import { Store } from "../../../src/store/Store.ts"
import { eventOf, headOf, integrationOf, stateOf } from "../../conformance/StoreSamples.ts"
import { hooked } from "../source/Hooked.ts"
import * as MemoryStore from "../store/MemoryStore.ts"
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

/** One change of a record. */
interface Change {
  readonly integration: string
  readonly id: string
  readonly version: number
  readonly hired: boolean
}
const nameOf = ({ id, integration, version }: Change) => `${integration}/${id}@${version}`
const recordOf = ({ id, integration }: Change) => `${integration}/${id}`

/** The effects of the plugins outside of Rollcall. */
interface Effects {
  /** The number of links, by linked record version. */
  readonly links: Map<string, number>
  readonly employees: Map<string, number>
  readonly tags: Map<string, Array<string>>
  /** Changes that the recorder plugin has handled, in order. */
  readonly done: Array<Change>
  readonly batched: Set<string>
  readonly ticks: Array<number>
  /** Results of steps, by record version. */
  readonly steps: Map<string, Set<number>>
}

const add = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1)

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

const failed = {
  notSent: new SourcePort.WriteError({
    reason: new SourcePort.NotSent({ code: null, message: "connection refused", retryAfter: null })
  }),
  limited: new SourcePort.WriteError({
    reason: new SourcePort.RateLimited({ code: null, message: "slow down", retryAfter: 5_000 })
  }),
  unknown: new SourcePort.WriteError({ reason: new SourcePort.OutcomeUnknown({ code: null, message: "no answer" }) })
}

const pluginsOf = (random: SeededRandom, effects: Effects) => {
  const flaky = Effect.suspend((): Effect.Effect<void, Plugin.HandlerError> => {
    const draw = random.next()
    if (draw < 0.1) return new Plugin.Transient({ message: "flaky" })
    return draw < 0.12 ? new Plugin.RateLimited({ retryAfter: Duration.seconds(20) }) : Effect.void
  })
  const changeOf = (event: { readonly integration: string; readonly recordId: string; readonly version: number }) => ({
    integration: event.integration,
    id: event.recordId,
    version: event.version,
    hired: false
  })
  const isPoison = (version: number, id: string) => id.endsWith("7") && version === 3
  const retry = { attempts: 12, retry: { longest: "1 minute" } } as const
  let runs = 0

  const recorder = Plugin.make("recorder").on("ats.application.updated", retry, (event) =>
    Effect.gen(function*() {
      yield* flaky
      if (isPoison(event.version, event.recordId)) return yield* new Plugin.Permanent({ message: "poison" })
      const result = yield* Plugin.Journal.once("count", Schema.Number, Effect.sync(() => ++runs))
      const name = nameOf(changeOf(event))
      effects.steps.set(name, (effects.steps.get(name) ?? new Set()).add(result))
      yield* flaky
      effects.done.push(changeOf(event))
    }))
  const linker = Plugin.make("linker", { writesPerHour: 1_000_000 }).on(
    "ats.application.hired",
    retry,
    (event) =>
      Effect.gen(function*() {
        const api = yield* Plugin.Api
        yield* api.addResultLink(event.recordId, { label: String(event.version), url: "https://x.example" })
        yield* flaky
      })
  )
  const employer = Plugin.make("employer", { writesPerHour: 1_000_000 }).on(
    "ats.application.hired",
    retry,
    (event) =>
      Effect.gen(function*() {
        const api = yield* Plugin.Api.for("workday:acme")
        const create = api.createEmployee({ properties: { of: recordOf(changeOf(event)) } })
        yield* Plugin.Journal.oncePerRecord("create", Schema.Struct({ id: Schema.NullOr(Schema.String) }), create)
        yield* flaky
      })
  )
  const tagger = Plugin.make("tagger", { writesPerHour: 1_000_000 }).on(
    "ats.application.created",
    retry,
    (event) =>
      Effect.gen(function*() {
        const api = yield* Plugin.Api
        yield* flaky
        yield* api.addTag(`c-${event.recordId}`, { tag: { name: "met" } })
        yield* flaky
      })
  )
  const batcher = Plugin.make("batcher")
    .batch("ats.application.updated", { ...retry, size: 20, within: "10 seconds" }, (events) =>
      Effect.gen(function*() {
        yield* flaky
        if (events.some(({ recordId, version }) => isPoison(version, recordId))) {
          return yield* new Plugin.Permanent({ message: "poison" })
        }
        for (const event of events) effects.batched.add(nameOf(changeOf(event)))
      }))
    .every(
      "1 minute",
      { as: "regular", ...retry },
      (tick) => Effect.sync(() => effects.ticks.push(tick.scheduledAt.getTime()))
    )
  return [recorder, linker, employer, tagger, batcher].map((plugin) => plugin.with({ from: "oldest" }))
}

/** An API that performs a write, fails before the write, or performs it and loses the response. */
const sourceOf = (random: SeededRandom, effects: Effects): SourcePort.Source["Service"] => {
  const perform = (write: string, params: object, body: object, integration: string): unknown => {
    if (write === "addResultLink" && "application_id" in params && "label" in body) {
      add(effects.links, `${integration}/${params.application_id}@${body.label}`)
    }
    if (write === "createEmployee" && "properties" in body) {
      const { of } = body.properties as { readonly of: string }
      add(effects.employees, of)
      return { id: `employee of ${of}` }
    }
    if (write === "addTag" && "candidate_id" in params) {
      const candidate = `${integration}/${params.candidate_id}`
      effects.tags.set(candidate, [...effects.tags.get(candidate) ?? [], "met"])
    }
    return {}
  }
  return SourcePort.Source.of({
    page: ({ ids, integration }) =>
      Effect.sync(() => ({
        results: (ids ?? []).map((id) =>
          RawRow.of({
            id,
            candidate: {
              id: `c-${id}`,
              tags: (effects.tags.get(`${integration}/c-${id}`) ?? []).map((name) => ({ name }))
            }
          })
        ),
        next: null,
        serverTime: null,
        requestedAt: 0,
        duration: 0
      })),
    read: () => Effect.succeed({ properties: {} } as never),
    write: ({ body, integration, params, write }, hooks) =>
      hooked(
        hooks,
        Effect.suspend(() => {
          const draw = random.next()
          if (draw < 0.1) return Effect.fail(failed.notSent)
          if (draw < 0.13) return Effect.fail(failed.limited)
          if (draw < 0.14) return Effect.fail(failed.unknown)
          const answer = perform(write, params, body, integration)
          return draw < 0.15 ? Effect.fail(failed.unknown) : Effect.succeed(answer as never)
        })
      )
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

export interface RunResult {
  readonly history: ReadonlyArray<Change>
  readonly effects: Effects
  readonly letters: ReadonlyArray<DeadLetter>
  readonly backlog: ReadonlyArray<Pick<Backlog, "due" | "later" | "running" | "waiting">>
  readonly parked: number
  readonly crashes: number
  readonly moves: number
  readonly freezes: number
  /** The number of times that the store did not answer a process for a while. */
  readonly slow: number
  /** Unknown outcomes that were resolved. */
  readonly resolved: number
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
            const heads = yield* tx.heads(own.map(({ id }) => id))
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

/** Describes every violated guarantee. */
export const violations = ({ backlog, effects, history, letters }: RunResult): ReadonlyArray<string> => {
  const found: Array<string> = []
  const expect = (isMet: boolean, violation: string) => isMet || found.push(violation)

  // the first version of each record whose delivery is dead; later versions are parked behind it
  const deadAt = new Map<string, number>()
  for (const { event, handler, integration, plugin } of letters) {
    if (event === null) continue
    const key = `${plugin}/${handler}/${integration}/${event.id}`
    deadAt.set(key, Math.min(deadAt.get(key) ?? Infinity, event.version))
  }
  const isParked = (plugin: string, handler: string, { id, integration, version }: Change) =>
    version >= (deadAt.get(`${plugin}/${handler}/${integration}/${id}`) ?? Infinity)
  const isUnknown = (plugin: string, { id, integration, version }: Change) =>
    letters.some((letter) =>
      letter.plugin === plugin && letter.integration === integration && letter.event?.id === id &&
      letter.event.version <= version && letter.failure.refusal === "OutcomeUnknown"
    )

  for (const { due, later, running } of backlog) expect(due + later + running === 0, "a delivery is due or running")
  const waiting = backlog.reduce((sum, row) => sum + row.waiting, 0)
  expect(waiting === 0 || letters.length > 0, "a delivery waits, but there is no dead letter")

  // deliveries are in order, and none is missed
  const last = new Map<string, number>()
  const seen = new Set<string>()
  for (const change of effects.done) {
    const name = nameOf(change)
    if (seen.has(name)) continue
    seen.add(name)
    const record = recordOf(change)
    expect((last.get(record) ?? 0) < change.version, `${name} came after a later version`)
    last.set(record, change.version)
  }
  const updated = history.filter(({ version }) => version > 1)
  for (const change of updated) {
    const isDone = seen.has(nameOf(change))
    const parked = isParked("recorder", "ats.application.updated", change)
    expect(isDone || parked, `${nameOf(change)} was neither recorded nor parked`)
    const inBatch = effects.batched.has(nameOf(change))
    expect(
      inBatch || isParked("batcher", "ats.application.updated", change),
      `${nameOf(change)} was neither in a batch nor parked`
    )
  }
  for (const [name, results] of effects.steps) {
    expect(results.size === 1, `the step of ${name} has ${results.size} results`)
  }
  for (const { failure, plugin } of letters) {
    expect(
      failure.message === "poison" || failure.refusal === "OutcomeUnknown",
      `${plugin} has a dead letter for another reason: ${failure.reason} ${failure.message}`
    )
  }

  // effects
  for (const change of history.filter(({ hired }) => hired)) {
    const name = nameOf(change)
    const links = effects.links.get(name) ?? 0
    expect(links <= 1, `${name} was linked ${links} times`)
    expect(
      links === 1 || isParked("linker", "ats.application.hired", change),
      `${name} was not linked, and no dead letter reports it`
    )
    const employees = effects.employees.get(recordOf(change)) ?? 0
    expect(employees <= 1, `${recordOf(change)} was employed ${employees} times`)
    expect(
      employees === 1 || isUnknown("employer", change),
      `${recordOf(change)} was not employed, and no dead letter reports it`
    )
  }
  for (const change of history.filter(({ version }) => version === 1)) {
    const tags = effects.tags.get(`${change.integration}/c-${change.id}`) ?? []
    expect(tags.length <= 1, `${recordOf(change)} was tagged ${tags.length} times`)
    expect(
      tags.length === 1 || isParked("tagger", "ats.application.created", change),
      `${recordOf(change)} was not tagged, and no dead letter reports it`
    )
  }
  expect(effects.ticks.length > 0, "no tick ever came")
  return found
}
