/** The writes of plugins: how each is sent, with the fault that the plan gives it, and its effect on the world. */
import * as Effect from "effect/Effect"
import * as Headers from "effect/http/Headers"
import { type WriteBody, type WriteData, type WriteName, writes } from "../../../src/api/Writes.ts"
import { errorOf } from "../../../src/source/ApiResponse.ts"
import { toWriteError } from "../../../src/source/Failures.ts"
import * as SendAttempt from "../../../src/source/SendAttempt.ts"
import {
  RateLimited,
  Rejected,
  type SendHooks,
  SlotWait,
  SourceError,
  Transient,
  type WriteError,
  type WriteRequest
} from "../../../src/source/Source.ts"
import type { Plan, WorldSettings, WriteFault } from "../plan/Plan.ts"
import type { VirtualTime } from "./VirtualTime.ts"
import type { World } from "./World.ts"

/** The effect of a plugin's write on the world. */
export interface WriteEffect {
  readonly integration: string
  readonly write: WriteName
  /** Id of the tagged candidate, of the created application, or of the application with a new link. */
  readonly id: string
  /** Of a created application. */
  readonly email: string | null
}

const detail = { code: null, message: "simulated" }

/** An error of the API, as the service's own code classifies it. */
const errorWith = ({ code, status }: { readonly code: string; readonly status: number }): SourceError => {
  const error = { code, title: null, message: detail.message, log_url: null }
  return errorOf({ status, headers: Headers.empty }, "", { status: "error", error }, 0)
}

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

export const anyProcess: WritingProcess = { kill: () => {}, onSent: () => {}, alive: Effect.void }

export class PluginWrites {
  readonly #world: World
  readonly #time: VirtualTime
  readonly #setting: WorldSettings
  readonly #writes: Plan["writes"]
  readonly #startedAt: number
  /** Number of writes that arrived. */
  #arrived = 0
  /** The faults have ended. */
  #isCalm = false
  /** Called with the effect of each write. */
  onEffect: (effect: WriteEffect) => void = () => {}
  /** Starts a second process that takes over. */
  startRival: () => void = () => {}
  /** Stops all writes for a while. */
  stopWrites: () => void = () => {}

  constructor(world: World, time: VirtualTime, setting: WorldSettings, writes: Plan["writes"]) {
    this.#world = world
    this.#time = time
    this.#setting = setting
    this.#writes = writes
    this.#startedAt = time.now
  }

  clearFaults(): void {
    this.#isCalm = true
  }

  /** Waits for its slot, passes the check and is sent; waits again if the rate limit rejects it. */
  write<W extends WriteName, E>(
    request: WriteRequest<W>,
    hooks: SendHooks<E>,
    writer: WritingProcess
  ): Effect.Effect<WriteData<W>, WriteError | E> {
    return Effect.gen({ self: this }, function*() {
      const number = ++this.#arrived
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
        error._tag === "HookFailed" ? error.by : toWriteError(writes[request.write].resolutionPolicy)(error)
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
    const { application_id = "", candidate_id: id = "", job_id = "" } = params as {
      readonly application_id?: string
      readonly candidate_id?: string
      readonly job_id?: string
    }
    const { candidate, tag } = body as Partial<WriteBody<"createApplication"> & WriteBody<"addTag">>
    if (candidate !== undefined) {
      const email = candidate.email_address
      const record = this.#world.applyFor(integration, job_id, candidate.first_name, email, now)
      this.onEffect({ integration, write, id: String(record["id"]), email })
      return record
    }
    if (write === "addResultLink") {
      this.onEffect({ integration, write, id: application_id, email: null })
      return {}
    }
    if (tag === undefined || !this.#world.tag(integration, id, tag.name, write === "addTag", now)) return null
    this.onEffect({ integration, write, id, email: null })
    return {}
  }
}
