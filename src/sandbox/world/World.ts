/**
 * A simulated world of HR and recruiting systems with activity: decides what happens next, and when.
 * The world is deterministic: it has a seed, no clock and no I/O. The caller advances its time.
 *
 * Invariants
 * 1. The same options and the same mutations at the same times give the same world, regardless of the steps in which the time advances.
 * 2. A kind of activity that has not happened yet has priority, as soon as a suitable record exists.
 *
 * Gotchas
 * - `remote_created_at` and `changed_at` of the initial records lie days to years before `start`.
 * - The activity depends on the number of records at the start. If it grew with the current number, the world would double every 20 minutes
 *   at speed 60.
 * - A frozen world still accepts `mutate` and `write`. The activity that would have happened while the world was frozen is skipped.
 */
import * as Result from "effect/Result"
import { incrementalModels } from "../../api/Lists.ts"
import { toolCategories, type ToolCategory } from "../../api/Tools.ts"
import type { WriteName } from "../../api/Writes.ts"
import { type ActivityKind, activityKinds, isActivityPossible, performActivity, weightOf } from "./Activity.ts"
import type { ApiError } from "./ApiError.ts"
import { type ListPage, type ListQuery, matchesQuery, pageOf } from "./ListQuery.ts"
import { mutate, type MutationRequest, type RequestedMutationKind } from "./Mutations.ts"
import { populate, type Sizes, sizesOf } from "./Population.ts"
import { isLive, type Json, type ListOrder, models, Records, type Row, type WorldModel } from "./Records.ts"
import { render } from "./Rendering.ts"
import { hash, SeededRandom } from "./SeededRandom.ts"
import { WriteContext, type WriteResult } from "./WriteContext.ts"
import { write } from "./Writes.ts"

export interface WorldOptions {
  readonly seed: number
  /** Server time at which the world starts, in ms. */
  readonly start: number
  /** 1 by default: an integration that has every model. Several integrations are pairs of a recruiting system and an HR system. */
  readonly integrations?: number
  /** Applications, and payslips, per integration; the other models follow in proportion. Default 500. */
  readonly records?: number
  /** Exact numbers of records for some models. */
  readonly sizes?: Sizes
  /** Multiplies the activity; 0 for no activity. At 1 (the default), about three changes a day per initial record. */
  readonly speed?: number
  /** `drifting` (default): rows move between pages while a list is read. */
  readonly order?: ListOrder
}

export type MutationKind = ActivityKind | RequestedMutationKind | `written_${WriteName}`

export interface Mutation {
  /** Server time, in ms. */
  readonly at: number
  readonly integration: string
  readonly model: WorldModel
  readonly id: string
  readonly kind: MutationKind
}

export interface Integration {
  readonly id: string
  /** The kind of system: only endpoints of these categories work for it. */
  readonly categories: ReadonlyArray<ToolCategory>
  readonly models: ReadonlyArray<WorldModel>
}

const day = 86_400_000
const mutationsPerRecordAndDay = 3
const maxLogEntries = 100_000
const weights = activityKinds.map(weightOf)

const recruiting = ["greenhouse", "lever", "ashby", "smartrecruiters"] as const
const humanResources = ["workday", "bamboohr", "hibob", "personio"] as const
const customers = ["acme", "globex", "initech", "umbra", "hooli", "stark"] as const
const integration = (id: string, ...categories: ReadonlyArray<ToolCategory>): Integration => ({
  id,
  categories,
  models: models.filter((model) => categories.some((category) => model.startsWith(`${category}.`)))
})

/** The integrations of a world that has `count` of them. */
export const makeIntegrations = (count: number): ReadonlyArray<Integration> => {
  if (count === 1) return [integration("sandbox:everything", ...toolCategories)]
  return Array.from({ length: count }, (_, i) => {
    const pair = i >> 1
    const round = Math.floor(pair / customers.length)
    const customer = `${customers[pair % customers.length]}${round === 0 ? "" : round + 1}`
    return i % 2 === 0
      ? integration(`${recruiting[pair % recruiting.length]}:${customer}`, "ats")
      : integration(`${humanResources[pair % humanResources.length]}:${customer}`, "hris", "lms")
  })
}

export class World {
  readonly integrations: ReadonlyArray<Integration>
  /** The mutations, oldest first; at least the last 100,000. */
  readonly log: Array<Mutation> = []
  /** Number of mutations of each kind that happened. */
  readonly mutations: Record<string, number> = Object.fromEntries(activityKinds.map((kind) => [kind, 0]))
  readonly #records = new Map<string, Records>()
  readonly #random: SeededRandom
  readonly #speed: number
  /** Listed records at the start. */
  readonly #size: number
  #notYetPerformed: Array<ActivityKind>
  #now: number
  #nextActivityAt: number
  #frozen = false

  static make(options: WorldOptions): World {
    return new World(options)
  }

  private constructor(options: WorldOptions) {
    this.integrations = makeIntegrations(options.integrations ?? 1)
    this.#random = new SeededRandom(hash(`world ${options.seed}`))
    this.#speed = options.speed ?? 1
    this.#now = options.start
    const sizes = { ...sizesOf(options.records ?? 500), ...options.sizes } as Required<Sizes>
    for (const { id, models } of this.integrations) {
      const records = new Records(options.seed, id, options.order ?? "drifting")
      populate(records, models, sizes, options.start, this.#random)
      this.#records.set(id, records)
    }
    this.#size = [...this.#records.values()].reduce(
      (sum, records) => sum + incrementalModels.reduce((sum, model) => sum + records.rows(model).length, 0),
      0
    )
    const possible = activityKinds.filter((kind) => this.#integrationsFor(kind).length > 0)
    this.#notYetPerformed = this.#random.shuffled(possible)
    this.#nextActivityAt = this.#scheduleNext()
  }

  /** Server time, in ms. */
  get now(): number {
    return this.#now
  }

  /**
   * Performs the activity that is due by `to` (server time, in ms), at most `most` times. Returns false if more is due. Time never goes
   * back.
   */
  advance(to: number, most = Infinity): boolean {
    for (let done = 0; !this.#frozen && this.#nextActivityAt <= to; done++) {
      if (done >= most) return false
      this.#now = Math.ceil(this.#nextActivityAt)
      this.#performNext()
      this.#nextActivityAt = this.#scheduleNext()
    }
    this.#now = Math.max(this.#now, to)
    return true
  }

  freeze(): void {
    this.#frozen = true
  }

  unfreeze(): void {
    if (!this.#frozen) return
    this.#frozen = false
    this.#nextActivityAt = this.#scheduleNext()
  }

  hasModel(integration: string, model: WorldModel): boolean {
    return this.integrations.some(({ id, models }) => id === integration && models.includes(model))
  }

  /** Every row a query selects, in list order, as API JSON. */
  list(integration: string, model: WorldModel, query: ListQuery): ReadonlyArray<Json> {
    return this.#recordsOf(integration).rows(model).filter(matchesQuery(query)).map(render)
  }

  /** One page of the list; `next` is null on the last page. `"bad cursor"` if this world did not issue the cursor. */
  page(
    integration: string,
    model: WorldModel,
    query: ListQuery,
    size: number,
    cursor: string | null
  ): ListPage | "bad cursor" {
    return pageOf(this.#recordsOf(integration), model, query, size, cursor)
  }

  /** Current live records by id. */
  truth(integration: string, model: WorldModel): ReadonlyMap<string, Json> {
    return new Map(this.#recordsOf(integration).rows(model).filter(isLive).map((row) => [row.id, render(row)]))
  }

  /** Ids of some live records of a model. */
  ids(integration: string, model: WorldModel): ReadonlyArray<string> {
    return this.#recordsOf(integration).rows(model).filter(isLive).map((row) => row.id)
  }

  /** Applies one mutation now; returns the record's id, or the reason why the mutation is not possible. */
  mutate(request: MutationRequest): { readonly id: string } | { readonly refused: string } {
    const records = this.#records.get(request.integration)
    if (records === undefined) return { refused: `there is no integration "${request.integration}"` }
    const done = mutate(records, request, this.#now, this.#random, (model) => this.hasModel(request.integration, model))
    if (typeof done === "string") return { refused: done }
    this.#logMutation(request.integration, done, request.op === "simulate" ? request.kind : `requested_${request.op}`)
    return { id: done.id }
  }

  /** The records of an integration at the current time, for a write. */
  writeContext(integration: string): WriteContext {
    return new WriteContext({ records: this.#recordsOf(integration), at: this.#now })
  }

  /** Performs one of the API's writes now, from the raw path parameters and body. */
  write(
    integration: string,
    name: WriteName,
    params: Readonly<Record<string, string | undefined>>,
    body: unknown
  ): Result.Result<WriteResult, ApiError> {
    return Result.map(write(name, this.writeContext(integration), params, body), (written) => {
      if (written.row !== null) this.#logMutation(integration, written.row, `written_${name}`)
      return written
    })
  }

  #recordsOf(integration: string): Records {
    const records = this.#records.get(integration)
    if (records === undefined) throw new Error(`the world has no integration "${integration}"`)
    return records
  }

  #scheduleNext(): number {
    return this.#now + this.#random.exponential(this.#size * this.#speed * mutationsPerRecordAndDay / day)
  }

  #integrationsFor(kind: ActivityKind): ReadonlyArray<string> {
    return this.integrations
      .filter(({ models }) => isActivityPossible(kind, (model) => models.includes(model)))
      .map(({ id }) => id)
  }

  /** Performs one activity: a kind that has not happened yet or, if there is none, any kind by weight. */
  #performNext(): void {
    const fresh = this.#notYetPerformed.findIndex((kind) => this.#tryPerform(kind))
    if (fresh >= 0) {
      this.#notYetPerformed.splice(fresh, 1)
      return
    }
    for (let tries = 0; tries < activityKinds.length; tries++) {
      if (this.#tryPerform(activityKinds[this.#random.weightedIndex(weights)] as ActivityKind)) return
    }
  }

  /** False if no integration has the model, or no record is suitable. */
  #tryPerform(kind: ActivityKind): boolean {
    const integrations = this.#integrationsFor(kind)
    if (integrations.length === 0) return false
    const integration = this.#random.pick(integrations)
    const row = performActivity(kind, this.#recordsOf(integration), this.#now, this.#random)
    if (row === null) return false
    this.#logMutation(integration, row, kind)
    return true
  }

  #logMutation(integration: string, row: Row, kind: MutationKind): void {
    this.log.push({ at: this.#now, integration, model: row.model, id: row.id, kind })
    if (this.log.length > 2 * maxLogEntries) this.log.splice(0, maxLogEntries)
    this.mutations[kind] = (this.mutations[kind] ?? 0) + 1
  }
}
