/**
 * The world as a `Source` that applies the faults of a plan. Reports to the oracle which rows each response really contained.
 *
 * Gotchas
 * - A response is made in the middle of its request and delivered at the end, so its content may be outdated by then.
 */
import * as Effect from "effect/Effect"
import * as Headers from "effect/http/Headers"
import { hash, SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import { errorOf, parseList } from "../../../src/source/ApiResponse.ts"
import * as PageSizes from "../../../src/source/PageSizes.ts"
import {
  Forbidden,
  Inactive,
  NotReady,
  type Page,
  type PageRequest,
  RateLimited,
  Rejected,
  type Source,
  SourceError,
  Transient,
  Unauthorized,
  Unreadable,
  Unsupported
} from "../../../src/source/Source.ts"
import { isSlow } from "../../../src/source/SourceError.ts"
import { listsOnly } from "../../support/source/Doubles.ts"
import { spell, type Spelling } from "../../support/source/Spelling.ts"
import type { Fault, FaultKind, Plan, WorldSettings } from "../plan/Plan.ts"
import { type Active, answer, parseCursor, serialized, type ServedRow } from "./Pages.ts"
import { anyProcess, PluginWrites } from "./PluginWrites.ts"
import type { JsonObject, Row, Table } from "./Table.ts"
import type { VirtualTime } from "./VirtualTime.ts"
import type { World } from "./World.ts"

export interface ServedPage {
  readonly table: Table
  readonly request: PageRequest
  readonly copies: ReadonlyArray<ServedRow>
  /** Rows that belonged on the page, or after it, and that a fault removed. */
  readonly missingRows: ReadonlyArray<Row>
  readonly last: boolean
  /** Server time (ms) at which the request was sent. */
  readonly requestedAt: number
  readonly faults: ReadonlyArray<FaultKind>
}

const detail = { code: null, message: "simulated" }
const refusals: Partial<Record<FaultKind, () => SourceError["reason"]>> = {
  rateLimited: () => new RateLimited({ ...detail, retryAfter: 20_000 }),
  transient: () => new Transient(detail),
  unauthorized: () => new Unauthorized(detail),
  permission: () => new Forbidden(detail),
  unsupported: () => new Unsupported(detail),
  notReady: () => new NotReady(detail),
  inactive: () => new Inactive(detail),
  rejected: () => new Rejected(detail),
  unreadable: () => new Unreadable(detail),
  lost: () => new Transient(detail)
}

const gatewayStatuses = [401, 403, 404, 405, 409, 501, 503, 304] as const
/** The page of a gateway, as the service's own code classifies it. */
const gatewayPage = (status: number): SourceError =>
  errorOf({ status, headers: Headers.fromInput({ server: "gateway" }) }, "<html>no</html>", undefined, 0)

/** The largest number of rows that the service requests, and how often it repeats a request. */
const [mostRows, repetitions] = [250, 5]

/** True: the fault applies only to requests for ids; false: only to lists; absent: to both. */
const appliesToIds: Partial<Record<FaultKind, boolean>> = {
  idsIgnored: true,
  idsEmpty: true,
  idsFew: true,
  short: false,
  emptyPage: false,
  endsEarly: false,
  cycle: false,
  expired: false,
  filterIgnored: false,
  filterEmpty: false,
  // A request for an id that returned an old copy could not be corrected by any other request.
  stale: false,
  // A response for ids omits rows only because of the API's own limits: see idsFew.
  dropped: false
}

const timeoutMillis = 30_000
const latestMillis = 600_000
/** No request takes longer, in ms. */
export const longestRequest = ({ latency }: WorldSettings): number => 2 * latency + timeoutMillis + latestMillis
const dateFaults: ReadonlySet<FaultKind> = new Set(["dateMissing", "dateWrong", "dateCached"])

const otherSpelling: Spelling = { space: 0.05, escapes: 0.02, numbers: 0.3, order: 0.2, repeated: 0.02 }

export class FaultyApi {
  readonly world: World
  readonly writes: PluginWrites
  readonly #time: VirtualTime
  readonly #setting: WorldSettings
  readonly #startedAt: number
  readonly #random: SeededRandom
  /** A stream of its own, so that the worlds of a seed stay the same. */
  readonly #spelling: SeededRandom
  /** The share of responses that are spelled in another way. */
  readonly #respelled: number
  #faults: Array<Active> = []
  /** How many requests had each kind of fault. */
  readonly faultCounts = new Map<FaultKind, number>()
  requests = 0
  /** Requests that have no response yet. A process that dies does not end its requests. */
  #inFlight = 0
  /** Called with the number of requests that are in flight, when another one starts. */
  onRequest: (inFlight: number) => void = () => {}
  /** Called between two pages of a list, to apply the mutations that wait for that. */
  betweenPages: () => void = () => {}
  /** Called when a request for this list has faults. */
  onFault: (table: Table, kinds: ReadonlyArray<FaultKind>) => void = () => {}

  constructor(world: World, time: VirtualTime, setting: WorldSettings, seed: number, writes: Plan["writes"] = []) {
    this.world = world
    this.writes = new PluginWrites(world, time, setting, writes)
    this.#time = time
    this.#setting = setting
    this.#startedAt = time.now
    this.#random = new SeededRandom(hash(`answers ${seed}`))
    this.#spelling = new SeededRandom(hash(`spelling ${seed}`))
    this.#respelled = this.#spelling.pick([0, 0.05, 0.3, 0.9])
  }

  addFault(fault: Fault): void {
    this.#faults.push({ ...fault, left: fault.count })
  }

  clearFaults(): void {
    this.#faults = []
    this.writes.clearFaults()
  }

  /** The source of one process; `clock`: the process's own clock, in ms. */
  source(clock: () => number, delivered: (delivery: ServedPage) => void, writer = anyProcess): Source["Service"] {
    return {
      ...this.#lists(clock, delivered),
      write: (request, hooks) => this.writes.write(request, hooks, writer)
    }
  }

  #lists(clock: () => number, delivered: (delivery: ServedPage) => void): Source["Service"] {
    const counted = <A, E>(request: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.acquireUseRelease(
        Effect.sync(() => this.onRequest(++this.#inFlight)),
        () => request,
        () => Effect.sync(() => this.#inFlight--)
      )
    return listsOnly(this.#sized(Effect.fnUntraced({ self: this }, function*(request: PageRequest, rows: number) {
      this.requests++
      const table = this.world.table(request.integration, request.model)
      if (table === undefined) return yield* new SourceError({ reason: new Unsupported(detail) })
      const requestedAt = clock()
      const serverRequestedAt = this.#time.now
      const takes = Math.ceil(this.#random.next() * 2 * this.#setting.latency)
      yield* this.#time.sleep(takes / 2)
      if (request.ids === null && request.cursor !== null) this.betweenPages()
      const activeFaults = this.#matchFaults(table, request)
      const refusal = activeFaults.find((fault) => refusals[fault.fault] !== undefined)
      if (refusal !== undefined) {
        if (refusal.fault === "lost") yield* this.#time.sleep(timeoutMillis)
        return yield* new SourceError({ reason: refusals[refusal.fault]!() })
      }
      const gateway = activeFaults.find(({ fault }) => fault === "gatewayPage")
      if (gateway !== undefined) {
        return yield* gatewayPage(gatewayStatuses[Math.floor(gateway.value * gatewayStatuses.length)]!)
      }
      if (this.#isSlow(rows)) return yield* gatewayPage(504)
      const draft = answer(table, request, activeFaults, rows, this.#setting, this.requests)
      if (draft === null) return yield* new SourceError({ reason: new Rejected(detail) })
      const serverTime = this.#date(activeFaults)
      const results = this.#respond(draft.copies.map((copy) => serialized(copy)))
      if (results === undefined) return yield* new SourceError({ reason: new Unreadable(detail) })
      const late = activeFaults.find((fault) => fault.fault === "late")
      yield* this.#time.sleep(takes / 2 + (late === undefined ? 0 : Math.floor(late.value * latestMillis)))
      delivered({
        table,
        request,
        copies: draft.copies,
        missingRows: draft.hidden,
        last: draft.next === null,
        requestedAt: serverRequestedAt,
        faults: activeFaults.map(({ fault }) => fault)
      })
      const page: Page = {
        results,
        next: draft.next,
        serverTime,
        requestedAt,
        duration: this.#time.now - serverRequestedAt
      }
      return page
    }, counted)))
  }

  /** In a world with slow pages, the service's own code decides with how many rows a page is requested. */
  #sized(
    send: (request: PageRequest, rows: number) => Effect.Effect<Page, SourceError>
  ): Source["Service"]["page"] {
    if (this.#setting.slow === null) return (request) => send(request, mostRows)
    const sizes = PageSizes.make()
    return (request) =>
      sizes.read(request, mostRows, (rows, onFailure) => {
        const attempt = (left: number): Effect.Effect<Page, SourceError> =>
          Effect.catch(
            Effect.suspend(() => send(request, rows())),
            (error) => onFailure(error) && isSlow(error) && left > 0 ? attempt(left - 1) : Effect.fail(error)
          )
        return attempt(repetitions)
      })
  }

  #isSlow(rows: number): boolean {
    const { slow } = this.#setting
    return slow !== null && rows > slow.rows && (slow.until === null || this.#time.now < this.#startedAt + slow.until)
  }

  /** The rows as the service reads them from a response, whose spelling may differ from that of the previous response. */
  #respond(rows: ReadonlyArray<JsonObject>): Page["results"] | undefined {
    const response = { status: "success", data: { results: rows }, warnings: [] }
    const isOther = this.#spelling.boolean(this.#respelled)
    const text = isOther ? spell(response, this.#spelling, otherSpelling) : JSON.stringify(response)
    const found = parseList(Buffer.from(text), "results")
    return found === "long" ? undefined : found?.rows
  }

  #matchFaults(table: Table, request: PageRequest): ReadonlyArray<Active> {
    const page = parseCursor(request.cursor)?.page ?? 0
    const activeFaults = this.#faults.filter((fault) =>
      this.world.tables[fault.stream % this.world.tables.length] === table &&
      (appliesToIds[fault.fault] === undefined || appliesToIds[fault.fault] === (request.ids !== null)) &&
      (fault.page === null || request.ids !== null || fault.page === page)
    )
    for (const fault of activeFaults) {
      fault.left--
      this.faultCounts.set(fault.fault, (this.faultCounts.get(fault.fault) ?? 0) + 1)
    }
    if (activeFaults.length > 0) this.onFault(table, activeFaults.map(({ fault }) => fault))
    this.#faults = this.#faults.filter((fault) => fault.left > 0)
    return activeFaults
  }

  #date(activeFaults: ReadonlyArray<Active>): number | null {
    const fault = activeFaults.find(({ fault }) => dateFaults.has(fault))
    const date = Math.floor(this.#time.now / 1000) * 1000
    switch (fault?.fault) {
      case "dateMissing":
        return null
      case "dateWrong":
        return date + (fault.value < 0.5 ? 86_400_000 : -86_400_000)
      case "dateCached":
        return date - Math.floor(fault.value * 300) * 1000
      default:
        return date
    }
  }
}
