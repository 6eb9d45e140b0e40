/**
 * Five plugins, the API to which they write and which fails in every possible way, and the guarantees of the engine for their effects.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RawRow } from "../../../src/domain/RawRow.ts"
import * as Plugin from "../../../src/plugin/Plugin.ts"
import type { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import * as SourcePort from "../../../src/source/Source.ts"
import type { Backlog, DeadLetter } from "../../../src/store/DeadLetters.ts"
import { hooked } from "../source/Hooked.ts"
import { notSent, unknownOutcome } from "./Rig.ts"

/** One change of a record. */
export interface Change {
  readonly integration: string
  readonly id: string
  readonly version: number
  readonly hired: boolean
}
const nameOf = ({ id, integration, version }: Change) => `${integration}/${id}@${version}`
const recordOf = ({ id, integration }: Change) => `${integration}/${id}`

/** The effects of the plugins outside of Rollcall. */
export interface Effects {
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

const limited = Effect.fail(
  new SourcePort.WriteError({
    reason: new SourcePort.RateLimited({ code: null, message: "slow down", retryAfter: 5_000 })
  })
)

export const pluginsOf = (random: SeededRandom, effects: Effects) => {
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
  const linker = Plugin.make("linker", { needs: { writes: ["addResultLink"] }, writesPerHour: 1_000_000 }).on(
    "ats.application.hired",
    retry,
    (event) =>
      Effect.gen(function*() {
        const api = yield* Plugin.Api
        yield* api.addResultLink(event.recordId, { label: String(event.version), url: "https://x.example" })
        yield* flaky
      })
  )
  const employer = Plugin.make("employer", { needs: { writes: ["createEmployee"] }, writesPerHour: 1_000_000 }).on(
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
  const tagger = Plugin.make("tagger", { needs: { writes: ["addTag"] }, writesPerHour: 1_000_000 }).on(
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
export const sourceOf = (random: SeededRandom, effects: Effects): SourcePort.Source["Service"] => {
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
          if (draw < 0.1) return notSent
          if (draw < 0.13) return limited
          if (draw < 0.14) return unknownOutcome
          const answer = perform(write, params, body, integration)
          return draw < 0.15 ? unknownOutcome : Effect.succeed(answer as never)
        })
      )
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
