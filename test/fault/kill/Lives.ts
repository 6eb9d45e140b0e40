/**
 * An active world, and a service that is killed again and again: the shared part of both kill tests.
 *
 * Gotchas
 * - The seed determines the moments of death, but not how far a process has come by then: a seed narrows a failure down, but does
 *   not repeat it exactly.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { join } from "node:path"
import { readModels } from "../../../src/domain/BuiltInModels.ts"
import type { LogIdentity } from "../../../src/domain/ChangeEvent.ts"
import * as Sandbox from "../../../src/sandbox/Sandbox.ts"
import type { FaultSettings } from "../../../src/sandbox/server/FaultInjection.ts"
import type { WorldModel } from "../../../src/sandbox/world/Records.ts"
import { SeededRandom } from "../../../src/sandbox/world/SeededRandom.ts"
import * as Sqlite from "../../../src/store/sqlite/Sqlite.ts"
import { Store } from "../../../src/store/Store.ts"
import { Claims } from "./Claims.ts"
import { digest, type Event, Follower } from "./Follower.ts"
import { folder, seed } from "./Home.ts"
import { type Contents, keyOf, Oracle } from "./Oracle.ts"
import { patience, timely, until, type Waiting } from "./Patience.ts"
import { approveAll, ask, launch, type Service, streams } from "./Service.ts"

/** One response in thirty has a fault, and none takes long: a life lasts about a second. */
export const mildFaults: NonNullable<FaultSettings["faults"]> = [
  { kind: "server_error", probability: 0.01 },
  { kind: "rate_limit", probability: 0.005, retryAfter: 0 },
  { kind: "truncated", probability: 0.005 },
  { kind: "drop_request", probability: 0.005 },
  { kind: "delay", probability: 0.01, delay: 100 }
]

/** Every response is slow, so that a backfill is still open a moment later. */
const slowResponses: FaultSettings["faults"] = [{ kind: "delay", probability: 1, delay: 150 }]

export interface Options {
  /** Default: the seed of this run. */
  readonly seed?: number
  readonly kills: number
  readonly integrations: number
  /** Activity of the world. The process that serves the API also keeps the history of the world, so long runs need less. */
  readonly speed?: number
  /** Shortest and longest life after the start, in ms. */
  readonly lifetime: readonly [number, number]
  /** Settings besides those of the store and the API. */
  readonly settings?: Readonly<Record<string, string>>
  /** Checked before each life: whether there were enough kills. */
  readonly isEnough?: () => boolean
  /** Called after each death. */
  readonly onDeath?: (life: Life, number: number) => void
}

/** One life of the service, until its death. */
export interface Life {
  /** The kind of its last durable step; `start` before its first page. */
  readonly after: string
  /** Whether a transaction was open at that moment. */
  readonly isWriting: boolean
  /** From the start of the process to its first committed page, in ms; null if the process died before. */
  readonly recovery: number | null
}

/** Counts of interesting moments of death. */
interface Findings {
  /** Lives that ended during a backfill. */
  backfills: number
  /** Lives that started with an interrupted sweep. */
  sweeps: number
  /** Lives that ended before the service had started. */
  notStarted: number
  /** Lives that ended right after holds were approved. */
  approvals: number
  readonly lives: Array<Life>
}

export interface Outcome {
  readonly findings: Findings
  readonly follower: Follower
  /** The whole log as the last process serves it. */
  readonly events: ReadonlyArray<Event>
  /** Digests of these events, by position. */
  readonly digests: ReadonlyMap<string, string>
  readonly oracle: Oracle
  readonly world: Contents
  /** The mutations of a record in the world, with times. */
  readonly history: (key: string) => ReadonlyArray<string>
  readonly pending: ReadonlySet<string>
  /** How many completeness claims were read, and which were wrong. */
  readonly claims: { readonly read: number; readonly broken: ReadonlyArray<string> }
  readonly identity: LogIdentity
  /** Exit code of the last process after SIGTERM. */
  readonly exitCode: number | null
}

/** Kills the service `kills` times, freezes the world, and lets a last life read everything. */
export const run = Effect.fnUntraced(function*(
  { integrations: count, isEnough = () => false, kills, lifetime, onDeath, settings, speed = 800, ...options }: Options,
  last: (url: string, newest: string) => Effect.Effect<void> = () => Effect.void
): Effect.fn.Return<Outcome, unknown, Scope.Scope> {
  const random = new SeededRandom(options.seed ?? seed)
  const file = join(yield* folder, "rollcall.db")
  const sandbox = yield* Sandbox.serve({ seed: options.seed ?? seed, integrations: count, records: 400, speed })
  const environment = (integrations: ReadonlyArray<string>) => ({
    ROLLCALL_API_URL: sandbox.url,
    ROLLCALL_API_KEY: sandbox.key,
    ROLLCALL_STORE: `sqlite:${file}`,
    ROLLCALL_INTEGRATIONS: integrations.join(),
    ROLLCALL_INTERVAL: "300 millis",
    ROLLCALL_SWEEP_INTERVAL: "1 second",
    ROLLCALL_CONFIRM_INTERVAL: "1 second",
    ROLLCALL_OVERLAP_MIN: "3 seconds",
    ROLLCALL_RETRY_BASE: "20 millis",
    ...settings
  })
  const follower = new Follower()
  const claims = new Claims()
  const findings: Findings = { backfills: 0, sweeps: 0, notStarted: 0, approvals: 0, lives: [] }

  const connectedBy = (number: number) => 1 + Math.floor(number * count / kills)
  /** Waits until a backfill is open; responses are slow meanwhile, so that it still is when the process is killed. */
  const awaitBackfill = Effect.fnUntraced(function*(service: Service) {
    let isOpen = false
    const look = Effect.map(Effect.flatMap(service.url, streams), (views) => {
      isOpen = views.some(({ progress }) => progress?.kind === "backfill")
      return isOpen
    })
    yield* Effect.repeat(look, { until: (open) => open, schedule: Schedule.spaced("10 millis"), times: 1000 })
    if (isOpen) findings.backfills++
  })

  const life = Effect.fnUntraced(function*(number: number) {
    // Integrations are added one by one, so that backfills are interrupted too.
    const connected = connectedBy(number)
    const isNew = number === 0 || connected > connectedBy(number - 1)
    yield* sandbox.setFaults({ faults: isNew ? slowResponses : mildFaults })
    claims.noteRecords(sandbox)
    const service = yield* launch(environment(sandbox.integrations.slice(0, connected)))
    if (isNew) yield* awaitBackfill(service)
    else if (random.boolean(0.2)) {
      yield* Effect.sleep(random.int(50, 500))
      findings.notStarted++
    } else {
      const url = yield* service.url
      yield* following(follower, url)
      const isOpen = (yield* streams(url)).some(({ progress }) => progress?.kind === "sweep")
      if (isOpen) findings.sweeps++
      const isApproved = yield* approveAll(url)
      if (isApproved) findings.approvals++
      yield* Effect.sleep(isApproved ? random.int(0, 30) : random.int(...lifetime))
      claims.add(yield* streams(url))
      if (random.boolean(0.2)) yield* wave(sandbox, sandbox.integrations[random.int(0, connected - 1)] ?? "")
    }
    yield* assertAlive(service)
    const life = {
      after: service.recovery() === null ? "start" : service.steps.at(-1) ?? "start",
      isWriting: service.isWriting(),
      recovery: service.recovery()
    }
    yield* service.end("SIGKILL")
    findings.lives.push(life)
    onDeath?.(life, number)
  }, Effect.scoped)
  for (let number = 0; number < kills && !isEnough(); number++) {
    yield* Effect.timeoutOrElse(life(number), {
      duration: Duration.times(patience, 3),
      orElse: () => Effect.die(new Error(`life ${number} did not end; something in it waits without a limit`))
    })
  }

  yield* sandbox.setFaults({})
  yield* sandbox.freeze
  claims.noteRecords(sandbox)
  const service = yield* launch(environment(sandbox.integrations))
  const url = yield* service.url
  claims.add(yield* streams(url))
  const followed = yield* following(follower, url)
  yield* quiet(url)
  claims.add(yield* streams(url))
  const { digests, events, next } = yield* wholeLog(url)
  yield* last(url, next)
  const seen = Effect.sync(() => follower.seen.size)
  yield* until("the reader to see the whole log", seen, (size) => size >= events.length)
  followed.abort()
  yield* assertAlive(service)
  const exitCode = yield* service.end("SIGTERM")
  const oracle = new Oracle()
  for (const event of events) oracle.add(event)
  const store = Context.get(yield* Layer.build(Sqlite.layer({ file })), Store)
  const rows = yield* store.pendingRows({ limit: 100_000 })
  const pending = new Set(rows.map(keyOf))
  const world = contentsOf(sandbox)
  return {
    findings,
    follower,
    events,
    digests,
    oracle,
    world,
    claims: {
      read: claims.size,
      broken: claims.broken(events, new Map([...world].filter(([key]) => !pending.has(key))))
    },
    history: (key) =>
      sandbox.world.log.filter((mutation) => keyOf(mutation) === key).map(({ at, kind }) =>
        `${new Date(at).toISOString()} ${kind}`
      ),
    pending: new Set([...pending, ...undecided(sandbox, oracle.contents, pending)]),
    identity: store.identity,
    exitCode
  }
})

/** Small enough that one life can see all of its records deleted. */
const waveModel = "hris.absence_type"

/** Deletes every record of a small list, or restores all: a wave that the guard holds. */
const wave = Effect.fnUntraced(function*({ mutate, world }: Sandbox.SandboxHandle, integration: string) {
  if (!world.hasModel(integration, waveModel)) return
  const live = [...world.truth(integration, waveModel).keys()]
  const gone = world.log.filter((mutation) => mutation.model === waveModel && mutation.integration === integration)
  const ids = live.length > 0 ? live : new Set(gone.map(({ id }) => id))
  for (const id of ids) {
    const op = live.length > 0 ? "delete" : "restore"
    yield* Effect.ignore(mutate({ op, integration, model: waveModel, id }))
  }
})

const assertAlive = (service: Service) =>
  Effect.sync(() => {
    if (!service.alive()) throw new Error(`the service ended by itself:\n${service.log()}`)
  })

export const following = (follower: Follower, url: string): Effect.Effect<AbortController, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const controller = new AbortController()
      return { controller, ended: follower.follow(url, controller.signal) }
    }),
    ({ controller, ended }) =>
      Effect.promise(() => {
        controller.abort()
        return timely(ended, "a reader of the event stream to leave")
      })
  ).pipe(Effect.map(({ controller }) => controller))

/**
 * Waits until every stream that is not blocked was polled and swept three times. Two of these polls and sweeps started after the call: the first
 * sweep finds a record that vanished without a flag, and its delete waits for the second.
 */
export const quiet = Effect.fnUntraced(function*(url: string, waiting?: Waiting) {
  const marks = new Map<string, { readonly polls: Set<string | null>; readonly sweeps: Set<string | null> }>()
  const look = Effect.map(streams(url), (views) => {
    // a process of a fleet answers before its streams are placed in it
    const open: Array<string> = views.length === 0 ? ["no stream is read yet"] : []
    for (const { blocked, last_poll_at, last_sweep_at, phase, stream } of views) {
      if (blocked !== null) continue
      const mark = marks.get(stream) ?? { polls: new Set(), sweeps: new Set() }
      marks.set(stream, mark)
      mark.polls.add(last_poll_at)
      mark.sweeps.add(last_sweep_at)
      if (phase === "live" && mark.polls.size > 3 && mark.sweeps.size > 3) continue
      open.push(`${stream} is ${phase}, ${mark.polls.size - 1} polls, ${mark.sweeps.size - 1} sweeps`)
    }
    return open
  })
  yield* until("every stream to be polled and swept three times", look, (open) => open.length === 0, waiting)
})

export const wholeLog = Effect.fnUntraced(function*(url: string) {
  const events: Array<Event> = []
  const digests = new Map<string, string>()
  for (let next = "";;) {
    const text = yield* ask(url, `/v1/events?limit=1000${next === "" ? "" : `&after=${next}`}`)
    const page: { events: ReadonlyArray<Event>; next: string } = JSON.parse(text)
    for (const event of page.events) {
      events.push(event)
      digests.set(event.position, digest(event))
    }
    if (page.events.length === 0) return { events, digests, next }
    next = page.next
  }
})

interface Application {
  readonly candidate: { readonly id: string; readonly remote_deleted_at: string | null } | null
}

/** Candidates by key, as the live applications show them, with the keys of these applications. */
const candidatesOf = ({ integrations, world }: Sandbox.SandboxHandle) => {
  const shown = new Map<string, { readonly content: unknown; readonly deleted: boolean; readonly by: Array<string> }>()
  for (const integration of integrations.filter((integration) => world.hasModel(integration, "ats.application"))) {
    for (const [id, application] of world.truth(integration, "ats.application")) {
      const { candidate: content }: Application = JSON.parse(JSON.stringify(application))
      if (content === null) continue
      const key = keyOf({ integration, model: "ats.candidate", id: content.id })
      const by = shown.get(key)?.by ?? []
      by.push(keyOf({ integration, model: "ats.application", id }))
      shown.set(key, { content, deleted: content.remote_deleted_at !== null, by })
    }
  }
  return shown
}

/** Candidates that no live application shows keep their state (N6); others may be pending with their applications. */
export const undecided = (sandbox: Sandbox.SandboxHandle, published: Contents, pending: ReadonlySet<string>) => {
  const shown = candidatesOf(sandbox)
  const unshown = [...published.keys()].filter((key) => key.includes("/ats.candidate/") && !shown.has(key))
  return [...unshown, ...[...shown].flatMap(([key, { by }]) => by.some((parent) => pending.has(parent)) ? [key] : [])]
}

/** The content of the given models; without `models`, of all models and candidates. */
export const contentsOf = (sandbox: Sandbox.SandboxHandle, models?: ReadonlyArray<WorldModel>): Contents =>
  new Map([
    ...recordsOf(sandbox, models ?? readModels),
    ...[...models === undefined ? candidatesOf(sandbox) : []].flatMap(([key, { content, deleted }]) =>
      deleted ? [] : [[key, content] as const]
    )
  ])

const recordsOf = (
  { integrations, world }: Sandbox.SandboxHandle,
  models: ReadonlyArray<WorldModel>
): Contents =>
  new Map(
    integrations.flatMap((integration) =>
      models.filter((model) => world.hasModel(integration, model)).flatMap((model) =>
        [...world.truth(integration, model)].map(([id, content]) =>
          [keyOf({ integration, model, id }), content] as const
        )
      )
    )
  )

/** Compares the whole log with a world in which nothing is pending. `exempt`: keys that may differ. */
export const judge = Effect.fnUntraced(function*(
  url: string,
  world: Contents,
  gapless = true,
  exempt: (published: Contents) => ReadonlySet<string> = () => new Set()
) {
  const { digests, events } = yield* wholeLog(url)
  const oracle = new Oracle({ gapless })
  for (const event of events) oracle.add(event)
  return { digests, events, oracle, differences: oracle.differences(world, exempt(oracle.contents)) }
})
