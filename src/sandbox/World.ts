/**
 * A simulated world of HR and recruiting systems that live: hides what there is, what happens next and when.
 * Pure and seeded: it has no clock of its own, whoever holds it says how late it is.
 *
 * Invariants
 * 1. The same options and the same acts at the same times give the same world, in however many steps time advances.
 * 2. A kind of mutation that has not happened yet goes first, as soon as there is something it can happen to.
 *
 * Gotchas
 * - `remote_created_at` and `changed_at` of the records it begins with lie days to years before `start`.
 * - A frozen world still obeys `steer` and `write`; what did not happen meanwhile is not made up for.
 */
import * as Result from "effect/Result"
import { type IncrementalModel, incrementalModels } from "../api/Lists.ts"
import { toolCategories, type ToolCategory } from "../api/Tools.ts"
import type { WriteName } from "../api/Writes.ts"
import { Chance, hash } from "./Chance.ts"
import { belongs, happen, type LifeKind, lifeKinds, weightOf } from "./Lives.ts"
import { populate } from "./Population.ts"
import { type ListQuery, type Paged, pageOf, selects } from "./Reading.ts"
import { isLive, type Json, models, type Order, Records, type Row, type WorldModel } from "./Records.ts"
import type { Refusal } from "./Refusal.ts"
import { render } from "./Rendering.ts"
import { Site, type Written } from "./Site.ts"
import { type Sizes, sizesOf } from "./Sizes.ts"
import { steer, type Steering, type SteeringKind } from "./Steering.ts"
import { write } from "./Writing.ts"

export interface Options {
  readonly seed: number
  /** Server time at which it begins, ms. */
  readonly start: number
  /** How many integrations: one has everything, several are pairs of a recruiting and an HR system. */
  readonly integrations?: number
  /** Applications, and payslips, per integration; the other models follow in proportion. Default 500. */
  readonly records?: number
  /** Exact numbers of records for some models. */
  readonly sizes?: Sizes
  /** Multiplies how much happens; 0 = nothing. At 1 every record is touched about three times a day. */
  readonly speed?: number
  /** `drifting` (default): rows move between pages while a list is read. */
  readonly order?: Order
}

export type MutationKind = LifeKind | SteeringKind | `written_${WriteName}`

export interface Mutation {
  /** Server time, ms. */
  readonly at: number
  readonly integration: string
  readonly model: WorldModel
  readonly id: string
  readonly kind: MutationKind
}

export interface Integration {
  readonly id: string
  /** What kind of system it is: only endpoints of these categories work for it. */
  readonly categories: ReadonlyArray<ToolCategory>
  readonly models: ReadonlyArray<WorldModel>
}

const day = 86_400_000
const mutationsPerRecordAndDay = 3
const remembered = 100_000
const weights = lifeKinds.map(weightOf)

const recruiting = ["greenhouse", "lever", "ashby", "smartrecruiters"] as const
const humanResources = ["workday", "bamboohr", "hibob", "personio"] as const
const customers = ["acme", "globex", "initech", "umbra", "hooli", "stark"] as const
const integration = (id: string, ...categories: ReadonlyArray<ToolCategory>): Integration => ({
  id,
  categories,
  models: models.filter((model) => categories.some((category) => model.startsWith(`${category}.`)))
})

/** This many integrations. */
export const integrationsOf = (count: number): ReadonlyArray<Integration> => {
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
  /** What happened, oldest first; the last hundred thousand. */
  readonly log: Array<Mutation> = []
  /** How often each kind happened. */
  readonly mutations: Record<string, number> = Object.fromEntries(lifeKinds.map((kind) => [kind, 0]))
  readonly #records = new Map<string, Records>()
  readonly #chance: Chance
  readonly #speed: number
  #deck: Array<LifeKind>
  #now: number
  #due: number
  #frozen = false

  static make(options: Options): World {
    return new World(options)
  }

  private constructor(options: Options) {
    this.integrations = integrationsOf(options.integrations ?? 1)
    this.#chance = new Chance(hash(`world ${options.seed}`))
    this.#speed = options.speed ?? 1
    this.#now = options.start
    const sizes = { ...sizesOf(options.records ?? 500), ...options.sizes } as Required<Sizes>
    for (const { id, models } of this.integrations) {
      const records = new Records(options.seed, id, options.order ?? "drifting")
      populate(records, models, sizes, options.start, this.#chance)
      this.#records.set(id, records)
    }
    const possible = lifeKinds.filter((kind) => this.#homes(kind).length > 0)
    this.#deck = this.#chance.shuffled(possible)
    this.#due = this.#next()
  }

  /** Server time, ms. */
  get now(): number {
    return this.#now
  }

  get frozen(): boolean {
    return this.#frozen
  }

  /** Lets happen what is due by `to` (server time, ms); time never goes back. */
  advance(to: number): void {
    while (!this.#frozen && this.#due <= to) {
      this.#now = Math.ceil(this.#due)
      this.#live()
      this.#due = this.#next()
    }
    this.#now = Math.max(this.#now, to)
  }

  freeze(): void {
    this.#frozen = true
  }

  unfreeze(): void {
    if (!this.#frozen) return
    this.#frozen = false
    this.#due = this.#next()
  }

  has(integration: string, model: WorldModel): boolean {
    return this.integrations.some(({ id, models }) => id === integration && models.includes(model))
  }

  /** Every row a query selects, in list order, as API JSON. */
  list(integration: string, model: IncrementalModel, query: ListQuery): ReadonlyArray<Json> {
    return this.#of(integration).rows(model).filter(selects(query)).map(render)
  }

  /** One page of it; `next` is null on the last. `"bad cursor"` if the cursor is none of ours. */
  page(
    integration: string,
    model: IncrementalModel,
    query: ListQuery,
    size: number,
    cursor: string | null
  ): Paged | "bad cursor" {
    return pageOf(this.#of(integration), model, query, size, cursor)
  }

  /** Current live records by id. */
  truth(integration: string, model: WorldModel): ReadonlyMap<string, Json> {
    return new Map(this.#of(integration).rows(model).filter(isLive).map((row) => [row.id, render(row)]))
  }

  /** Ids of some live records of a model. */
  ids(integration: string, model: WorldModel): ReadonlyArray<string> {
    return this.#of(integration).rows(model).filter(isLive).map((row) => row.id)
  }

  /** Does what a test wants done, now; the record's id, or why it cannot be done. */
  steer(act: Steering): { readonly id: string } | { readonly refused: string } {
    const records = this.#records.get(act.integration)
    if (records === undefined) return { refused: `there is no integration "${act.integration}"` }
    const done = steer(records, act, this.#now, this.#chance, (model) => this.has(act.integration, model))
    if (typeof done === "string") return { refused: done }
    this.#remember(act.integration, done, act.op === "live" ? act.kind : `steered_${act.op}`)
    return { id: done.id }
  }

  /** Where writes to an integration take place, now. */
  site(integration: string): Site {
    return new Site(this.#of(integration), this.#now)
  }

  /** One of the API's writes, from what was sent, now. */
  write(
    integration: string,
    name: WriteName,
    params: Readonly<Record<string, string | undefined>>,
    body: unknown
  ): Result.Result<Written, Refusal> {
    return Result.map(write(name, this.site(integration), params, body), (written) => {
      if (written.row !== null) this.#remember(integration, written.row, `written_${name}`)
      return written
    })
  }

  #of(integration: string): Records {
    const records = this.#records.get(integration)
    if (records === undefined) throw new Error(`the world has no integration "${integration}"`)
    return records
  }

  #next(): number {
    const size = [...this.#records.values()].reduce(
      (sum, records) => sum + incrementalModels.reduce((sum, model) => sum + records.rows(model).length, 0),
      0
    )
    return this.#now + this.#chance.wait(size * this.#speed * mutationsPerRecordAndDay / day)
  }

  #homes(kind: LifeKind): ReadonlyArray<string> {
    return this.integrations.filter(({ models }) => belongs(kind, (model) => models.includes(model))).map(({ id }) =>
      id
    )
  }

  /** One mutation: of a kind that has not happened yet, else of any kind by weight. */
  #live(): void {
    const fresh = this.#deck.findIndex((kind) => this.#happens(kind))
    if (fresh >= 0) {
      this.#deck.splice(fresh, 1)
      return
    }
    for (let tries = 0; tries < lifeKinds.length; tries++) {
      if (this.#happens(lifeKinds[this.#chance.weighted(weights)] as LifeKind)) return
    }
  }

  /** False if it cannot happen anywhere, or found nothing to happen to. */
  #happens(kind: LifeKind): boolean {
    const homes = this.#homes(kind)
    if (homes.length === 0) return false
    const integration = this.#chance.pick(homes)
    const row = happen(kind, this.#of(integration), this.#now, this.#chance)
    if (row === null) return false
    this.#remember(integration, row, kind)
    return true
  }

  #remember(integration: string, row: Row, kind: MutationKind): void {
    this.log.push({ at: this.#now, integration, model: row.model, id: row.id, kind })
    if (this.log.length > 2 * remembered) this.log.splice(0, remembered)
    this.mutations[kind] = (this.mutations[kind] ?? 0) + 1
  }
}
