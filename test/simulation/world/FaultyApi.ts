/**
 * The world as a `Source` that applies the faults of a plan. Reports to the oracle which rows each response really contained.
 *
 * Gotchas
 * - A cursor is an offset in a list whose rows move; only a stable list pages by serial number.
 * - A response is made in the middle of its request and delivered at the end, so its content may be outdated by then.
 */
import * as Effect from "effect/Effect"
import * as Headers from "effect/http/Headers"
import { type WriteBody, type WriteData, type WriteName, writes } from "../../../src/api/Writes.ts"
import { hash, SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import { errorOf, parseList } from "../../../src/source/ApiResponse.ts"
import { toWriteError } from "../../../src/source/Failures.ts"
import * as PageSizes from "../../../src/source/PageSizes.ts"
import * as SendAttempt from "../../../src/source/SendAttempt.ts"
import {
  Forbidden,
  Inactive,
  NotReady,
  type Page,
  type PageRequest,
  RateLimited,
  Rejected,
  type SendHooks,
  SlotWait,
  type Source,
  SourceError,
  Transient,
  Unauthorized,
  Unreadable,
  Unsupported,
  type WriteError,
  type WriteRequest
} from "../../../src/source/Source.ts"
import { isSlow } from "../../../src/source/SourceError.ts"
import { listsOnly } from "../../support/source/Doubles.ts"
import { spell, type Spelling } from "../../support/source/Spelling.ts"
import type { Fault, FaultKind, Plan, WorldSettings, WriteFault } from "../plan/Plan.ts"
import type { JsonObject, Row, Table } from "./Table.ts"
import type { VirtualTime } from "./VirtualTime.ts"
import type { World } from "./World.ts"

/** A row of a response, with the index of the record's state. */
export interface ServedRow {
  readonly row: Row
  readonly state: number
  /** False: the id was removed, so that the row cannot be assigned to its record. */
  readonly hasId: boolean
}

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

/** The effect of a plugin's write on the world. */
export interface WriteEffect {
  readonly integration: string
  readonly write: WriteName
  /** Id of the tagged candidate, or of the created application. */
  readonly id: string
  /** Of a created application. */
  readonly email: string | null
}

/** A response that faults may change. */
interface Draft {
  copies: Array<ServedRow>
  next: string | null
  hidden: ReadonlyArray<Row>
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

/** An error of the API, as the service's own code classifies it. */
const errorWith = ({ code, status }: { readonly code: string; readonly status: number }): SourceError => {
  const error = { code, title: null, message: detail.message, log_url: null }
  return errorOf({ status, headers: Headers.empty }, "", { status: "error", error }, 0)
}

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
const lost = new SourceError({ reason: new Transient(detail) })
const notSent = new SourceError({ reason: new Transient({ ...detail, notSent: true }) })
const writeRejected = new SourceError({ reason: new Rejected(detail) })
const limited = new SourceError({ reason: new RateLimited({ ...detail, retryAfter: null }) })
/** How long a write waits for its slot after the rate limit rejected it, and how long a frozen process is frozen, in ms. */
const pause = 600_000

/** The process that sends a write. */
export interface WritingProcess {
  readonly kill: () => void
  /** Called when one of its writes is sent. */
  readonly onSent: () => void
  /** Waits forever once the process is dead. */
  readonly alive: Effect.Effect<void>
}

const anyProcess: WritingProcess = { kill: () => {}, onSent: () => {}, alive: Effect.void }
const dateFaults: ReadonlySet<FaultKind> = new Set(["dateMissing", "dateWrong", "dateCached"])

const otherSpelling: Spelling = { space: 0.05, escapes: 0.02, numbers: 0.3, order: 0.2, repeated: 0.02 }

interface Active extends Fault {
  left: number
}

export class FaultyApi {
  readonly world: World
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
  #isCalm = false
  /** Called with the number of requests that are in flight, when another one starts. */
  onRequest: (inFlight: number) => void = () => {}
  /** Called between two pages of a list, to apply the mutations that wait for that. */
  betweenPages: () => void = () => {}
  /** Called when a request for this list has faults. */
  onFault: (table: Table, kinds: ReadonlyArray<FaultKind>) => void = () => {}

  readonly #writes: ReadonlyArray<WriteFault>
  /** Number of writes that arrived. */
  writes = 0
  /** Called with the effect of each write. */
  onWriteEffect: (effect: WriteEffect) => void = () => {}
  /** Starts a second process that takes over. */
  startRival: () => void = () => {}
  /** Stops all writes for a while. */
  stopWrites: () => void = () => {}

  constructor(world: World, time: VirtualTime, setting: WorldSettings, seed: number, writes: Plan["writes"] = []) {
    this.world = world
    this.#writes = writes
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
    this.#isCalm = true
  }

  /** The source of one process; `clock`: the process's own clock, in ms. */
  source(clock: () => number, delivered: (delivery: ServedPage) => void, writer = anyProcess): Source["Service"] {
    return {
      ...this.#lists(clock, delivered),
      write: (request, hooks) => this.#write(request, hooks, writer)
    }
  }

  /** Waits for its slot, passes the check and is sent; waits again if the rate limit rejects it. */
  #write<W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>,
    writer: WritingProcess
  ): Effect.Effect<WriteData<W>, WriteError | E> {
    return Effect.gen({ self: this }, function*() {
      const number = ++this.writes
      const faultKind = this.#isCalm ? undefined : this.#writes.find((fault) => fault.number === number)?.kind
      const waiting = yield* SlotWait
      const tried = SendAttempt.withHooks(hooks)
      if (faultKind?.startsWith("limited") === true) {
        const refusal = Effect.andThen(this.#time.sleep(this.#setting.latency), Effect.fail(limited))
        yield* Effect.catchIf(
          tried((leave) => Effect.andThen(leave, refusal)),
          (error) => error === limited,
          () => Effect.void
        )
        yield* waiting(this.#inPause(faultKind, writer))
        yield* writer.alive
      }
      return yield* tried((leave) =>
        this.#send(request, Effect.andThen(leave, Effect.sync(writer.onSent)), faultKind, writer)
      )
    }).pipe(
      Effect.catchTag("SlotWaitAborted", () => Effect.fail(notSent)),
      Effect.mapError((error) =>
        error._tag === "HookFailed" ? error.by : toWriteError(writes[request.write].resendPolicy)(error)
      )
    )
  }

  /** Waits half of the pause, applies the fault, and waits the other half. */
  #inPause(faultKind: WriteFault["kind"], { kill }: WritingProcess): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      yield* this.#time.sleep(pause / 2)
      if (faultKind === "limitedRival") this.startRival()
      if (faultKind === "limitedStop") this.stopWrites()
      if (faultKind === "limitedKill") kill()
      yield* this.#time.sleep(pause / 2)
    })
  }

  #send<W extends WriteName>(
    { body, integration, params, write }: WriteRequest<W>,
    leave: Effect.Effect<void, SourceError>,
    faultKind: WriteFault["kind"] | undefined,
    { kill }: WritingProcess
  ): Effect.Effect<WriteData<W>, SourceError> {
    return Effect.gen({ self: this }, function*() {
      if (faultKind === "frozenRival") {
        this.startRival()
        // a frozen process cannot be interrupted either
        yield* Effect.uninterruptible(Effect.andThen(this.#time.sleep(pause), leave))
      } else yield* leave
      yield* this.#time.sleep(this.#setting.latency / 2)
      if (faultKind === "killBefore") kill()
      if (faultKind === "killBefore" || faultKind === "lostBefore") return yield* lost
      if (faultKind === "notSent") return yield* notSent
      const refused = this.#setting.refusedWrites
      const sinceStart = this.#time.now - this.#startedAt
      if (!this.#isCalm && refused !== null && sinceStart >= refused.from && sinceStart < refused.until) {
        return yield* errorWith(refused)
      }
      const data = this.#effect(integration, write, params, body)
      if (data === null) return yield* writeRejected
      if (faultKind === "killAfter") kill()
      if (faultKind === "rival") this.startRival()
      yield* this.#time.sleep(this.#setting.latency / 2)
      if (faultKind === "lostAfter") return yield* lost
      return data as WriteData<W>
    })
  }

  /** Null if no record is suitable. */
  #effect(integration: string, write: WriteName, params: object, body: object): object | null {
    const now = this.#time.now
    const { candidate_id: id = "", job_id = "" } = params as {
      readonly candidate_id?: string
      readonly job_id?: string
    }
    const { candidate, tag } = body as Partial<WriteBody<"createApplication"> & WriteBody<"addTag">>
    if (candidate !== undefined) {
      const email = candidate.email_address
      const record = this.world.applyFor(integration, job_id, candidate.first_name, email, now)
      this.onWriteEffect({ integration, write, id: String(record["id"]), email })
      return record
    }
    if (tag === undefined || !this.world.tag(integration, id, tag.name, write === "addTag", now)) return null
    this.onWriteEffect({ integration, write, id, email: null })
    return {}
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
      const draft = this.#answer(table, request, activeFaults, rows)
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

  /** Null if the cursor is rejected. */
  #answer(table: Table, request: PageRequest, activeFaults: ReadonlyArray<Active>, most: number): Draft | null {
    const fault = (kind: FaultKind) => activeFaults.find((active) => active.fault === kind)
    const place = parseCursor(request.cursor)
    if (place === null || (request.cursor !== null && fault("expired") !== undefined)) return null
    const ids = fault("idsIgnored") === undefined ? request.ids : null
    const wantedIds = ids === null
      ? null
      : new Set(fault("idsEmpty") === undefined ? fault("idsFew") === undefined ? ids : ids.slice(0, 3) : [])
    // A response for ids fits on one page of 250.
    // A page that is shorter than requested would hide rows from a client of cursors that count pages.
    const counts = this.#setting.slow !== null
    const size = request.ids !== null ? most : counts || fault("short") === undefined
      ? Math.min(most, this.#setting.pageSize)
      : Math.max(1, Math.floor(this.#setting.pageSize / 2))
    const order = place.order === 0 ? this.requests : place.order
    const all = this.#ordered(table, order).filter((row) => wantedIds === null || wantedIds.has(row.id))
    const matching = all.filter((row) => request.updatedAfter === null || this.#after(row, request.updatedAfter))
    const rows = fault("filterEmpty") !== undefined ? [] : fault("filterIgnored") !== undefined ? all : matching
    const stable = this.#setting.order === "stable"
    const from = stable ? rows.findIndex((row) => row.serial > place.at) : counts ? place.at * size : place.at
    const selected = from < 0 ? [] : rows.slice(from, from + size)
    const end = stable ? selected.at(-1)?.serial ?? 0 : counts ? place.at + 1 : from + size
    const more = from >= 0 && from + size < rows.length
    const next = (at: number) => `${at}.${place.page + 1}.${order}`
    const draft: Draft = {
      copies: selected.map((row) => ({ row, state: row.history.length - 1, hasId: true })),
      next: more ? next(end) : null,
      hidden: []
    }
    for (const active of activeFaults) this.#spoil(table, draft, active, () => next(place.at), request.cursor)
    // The client requests an empty page again, unless the list ends with it.
    if (request.ids !== null || (fault("emptyPage") !== undefined && draft.next !== null)) return draft
    const shown = new Set(
      draft.copies.flatMap(({ hasId, row, state }) => hasId && state === row.history.length - 1 ? [row] : [])
    )
    // An offset in the requested list is not an offset in another list.
    const isOther = fault("filterEmpty") !== undefined || fault("filterIgnored") !== undefined
    const due = isOther ? matching : draft.next === null ? (from < 0 ? [] : rows.slice(from)) : selected
    return { ...draft, hidden: due.filter((row) => !shown.has(row)) }
  }

  #spoil(table: Table, draft: Draft, fault: Active, again: () => string, cursor: string | null): void {
    const some = <A>(list: ReadonlyArray<A>): number => Math.floor(fault.value * list.length)
    const { copies } = draft
    const nameless = 1 + Math.floor(fault.value * table.serial)
    switch (fault.fault) {
      case "emptyPage":
        draft.copies = []
        draft.next = again()
        break
      case "dropped":
        draft.copies = copies.filter((_, index) => (index + Math.floor(fault.value * 2)) % 2 === 0)
        break
      case "endsEarly":
        draft.next = null
        break
      case "repeated":
        draft.copies = [...copies, ...copies.slice(some(copies))]
        break
      case "stale": {
        const copy = copies[some(copies)]
        if (copy === undefined || copy.state === 0) break
        const older = { ...copy, state: Math.floor(((fault.value * 97) % 1) * copy.state) }
        const at = copies.indexOf(copy)
        if (fault.value < 0.33) copies.splice(at, 1, older)
        else if (fault.value < 0.66) copies.splice(at, 0, older)
        else copies.push(older)
        break
      }
      case "nothing":
        draft.copies = []
        draft.next = null
        break
      case "cycle":
        draft.next = cursor ?? again()
        break
      case "nameless":
        // The same record lacks its id in every response (D14).
        draft.copies = copies.map((copy) => copy.row.serial === nameless ? { ...copy, hasId: false } : copy)
        break
    }
  }

  #ordered(table: Table, order: number): ReadonlyArray<Row> {
    const { order: by } = this.#setting
    if (by === "toEnd" || by === "toFront") return table.rows
    if (by !== "shuffled") {
      const sorted = [...table.rows].sort((a, b) =>
        by === "byId" || by === "byIdDescending" ? (a.id < b.id ? -1 : 1) : a.serial - b.serial
      )
      return by === "byIdDescending" || by === "byCreationDescending" ? sorted.reverse() : sorted
    }
    const rank = (row: Row) => Math.imul(row.serial + order * 7919, 0x9e3779b1) >>> 0
    return [...table.rows].sort((a, b) => rank(a) - rank(b))
  }

  #after(row: Row, updatedAfter: number): boolean {
    const { inclusive, resolution } = this.#setting
    const [matched, bound] = [Math.floor(row.matchedAt / resolution), Math.floor(updatedAfter / resolution)]
    return inclusive ? matched >= bound : matched > bound
  }
}

const serialized = ({ hasId, row, state }: ServedRow): JsonObject => {
  const { record } = row.history[state]!
  if (hasId) return record
  const { id: _, ...rest } = record
  return rest
}

/** `<offset>.<page>.<order>`; null if the cursor cannot be parsed. */
const parseCursor = (cursor: string | null): { at: number; page: number; order: number } | null => {
  if (cursor === null) return { at: 0, page: 0, order: 0 }
  const [at, page, order] = cursor.split(".").map(Number)
  return at === undefined || page === undefined || order === undefined ? null : { at, page, order }
}
