/**
 * Short runs of the service that are killed at each of their durable steps.
 *
 * Invariants
 * 1. A store is prepared once per scenario and copied for each kill, so that kills do not affect each other.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import { copyFile } from "node:fs/promises"
import { join } from "node:path"
import type { Doom } from "./Doom.ts"
import { Follower } from "./Follower.ts"
import * as Home from "./Home.ts"
import { contentsOf, following, judge, quiet } from "./Lives.ts"
import type { Contents } from "./Oracle.ts"
import { until } from "./Patience.ts"
import { approveAll, ask, launch, post } from "./Service.ts"

export interface Scenario {
  readonly name: string
  readonly sandbox?: Parameters<typeof Home.make>[0]
  /** Kinds of steps at which to kill; absent for all until the service is quiet. */
  readonly of?: ReadonlyArray<string>
  /** Prepares store and world; absent = an empty store. */
  readonly prepare?: (home: Home.Home) => Effect.Effect<void, unknown, Scope.Scope>
  /** The command that is killed; absent = `start`. */
  readonly command?: ReadonlyArray<string>
  /** Commands for the service, repeated after the kill, so they must be idempotent. Returns when they are done. */
  readonly act?: (url: string, home: Home.Home) => Effect.Effect<void>
  /** Whether events may be removed from the log after they were read. */
  readonly forgets?: boolean
}

/** Runs the service until everything is read, and stops it. */
const runUntilQuiet = (home: Home.Home, act: (url: string) => Effect.Effect<void> = () => Effect.void) =>
  Effect.scoped(Effect.gen(function*() {
    const service = yield* launch(home.settings)
    const url = yield* service.url
    yield* act(url)
    yield* quiet(url)
    yield* service.end("SIGTERM")
  }))

const idsOf = ({ sandbox }: Home.Home, model: (typeof Home.models)[number]) => [
  ...sandbox.world.truth(sandbox.integrations[0] ?? "", model).keys()
]

const removeFrom = Effect.fnUntraced(
  function*({ sandbox }: Home.Home, model: (typeof Home.models)[number], ids: ReadonlyArray<string>, flag: boolean) {
    for (const id of ids) {
      yield* sandbox.mutate({ op: "delete", integration: sandbox.integrations[0] ?? "", model, id, flag })
    }
  }
)

/** Changes that polls find, changes that only sweeps and confirmations find, and a rename of a tag that many records repeat. */
const change = Effect.fnUntraced(function*(home: Home.Home) {
  const integration = home.sandbox.integrations[0] ?? ""
  for (const kind of ["applied", "stage_moved", "applied", "renamed_tag", "stage_moved"] as const) {
    yield* Effect.ignore(home.sandbox.mutate({ op: "simulate", integration, kind }))
  }
  const [one, two, three, four] = idsOf(home, "ats.application")
  yield* removeFrom(home, "ats.application", [one, two].flatMap((id) => id ?? []), false)
  yield* removeFrom(home, "ats.application", [three, four].flatMap((id) => id ?? []), true)
})

const approving = (url: string) =>
  Effect.andThen(
    approveAll(url),
    until("approved holds to be released", ask(url, "/v1/holds?state=approving"), (text) =>
      JSON.parse(text).items.length === 0)
  ).pipe(Effect.asVoid)

const stateOfSecond = (url: string, { sandbox }: Home.Home): Effect.Effect<string | undefined> =>
  Effect.map(ask(url, "/v1/integrations"), (text) => {
    const items: ReadonlyArray<{ readonly id: string; readonly state: string }> = JSON.parse(text).items
    return items.find(({ id }) => id === sandbox.integrations[1])?.state
  })

const eraseSecond = Effect.fnUntraced(function*(url: string, home: Home.Home) {
  const state = yield* stateOfSecond(url, home)
  if (state === "active") {
    const id = encodeURIComponent(home.sandbox.integrations[1] ?? "")
    yield* post(url, `/v1/integrations/${id}/remove`, { data: "erase" })
  }
  yield* until(
    "the integration to be erased",
    stateOfSecond(url, home),
    (state) => state === undefined || state === "erased"
  )
})

export const scenarios: ReadonlyArray<Scenario> = [
  { name: "backfill", of: ["migration", "claim", "integration", "other", "backfill", "backfill's end"] },
  {
    name: "runs",
    prepare: Effect.fnUntraced(function*(home) {
      yield* runUntilQuiet(home)
      yield* change(home)
    })
  },
  {
    name: "approval of a hold",
    sandbox: { records: 600 },
    of: ["decision", "approval"],
    // more records than two transactions release
    prepare: Effect.fnUntraced(function*(home) {
      yield* runUntilQuiet(home)
      yield* removeFrom(home, "ats.application", idsOf(home, "ats.application").slice(0, 560), true)
      yield* runUntilQuiet(home)
    }),
    act: approving
  },
  {
    name: "erasure of an integration",
    sandbox: { integrations: 2, records: 300 },
    of: ["integration", "erasure"],
    forgets: true,
    prepare: (home) =>
      runUntilQuiet(
        home,
        (url) =>
          post(url, "/v1/integrations", { id: home.sandbox.integrations[1], models: [...Home.models] }).pipe(
            Effect.andThen(ask(url, "/v1/streams")),
            Effect.asVoid
          )
      ),
    act: eraseSecond
  },
  {
    name: "adoption of a store",
    sandbox: { records: 300 },
    command: ["store", "adopt", "--yes"],
    forgets: true,
    prepare: runUntilQuiet
  }
]

/** A scenario with its prepared store. */
export interface PreparedScenario {
  readonly scenario: Scenario
  readonly home: Home.Home
  readonly world: Contents
}

export const prepareScenario = Effect.fnUntraced(function*(scenario: Scenario) {
  const home = yield* Home.make(scenario.sandbox)
  yield* scenario.prepare?.(home) ?? Effect.void
  const all = contentsOf(home.sandbox, Home.models)
  const first = `${home.sandbox.integrations[0]}/`
  const stage: PreparedScenario = { scenario, home, world: new Map([...all].filter(([key]) => key.startsWith(first))) }
  return stage
})

export interface Verdict {
  /** The kind of the step at which the process died; null if it did not reach that step. */
  readonly diedAt: string | null
  readonly events: number
  /** Violations in words; must be empty. */
  readonly problems: ReadonlyArray<string>
}

/** Kills the service at one step, starts it again, lets it read everything and judges the result. */
export const killAtStep = Effect.fnUntraced(
  function*({ home, scenario, world }: PreparedScenario, doom: Doom) {
    const file = join(yield* Home.folder, "rollcall.db")
    if (scenario.prepare !== undefined) yield* Effect.promise(() => copyFile(home.file, file))
    const settings = { ...home.settings, ROLLCALL_STORE: `sqlite:${file}` }
    const act = (url: string) => scenario.act?.(url, home) ?? Effect.void
    const follower = new Follower()

    const doomed = yield* launch(settings, { doom, ...(scenario.command && { command: scenario.command }) })
    const runScenario = Effect.gen(function*() {
      const url = yield* doomed.url
      yield* following(follower, url)
      yield* act(url)
      yield* quiet(url)
    })
    // a request to a dying process fails with a broken connection
    const survived = Effect.flatMap(
      Effect.exit(runScenario),
      (exit) => Exit.isSuccess(exit) ? Effect.void : Effect.never
    )
    const diedAt = yield* Effect.raceFirst(
      doomed.doomed,
      scenario.command === undefined ? Effect.as(survived, null) : Effect.never
    )
    yield* doomed.end("SIGKILL")

    const service = yield* launch(settings)
    const url = yield* service.url
    const followed = yield* following(follower, url)
    yield* act(url)
    yield* quiet(url)
    const { differences, digests, events, oracle } = yield* judge(url, world, scenario.forgets !== true)
    followed.abort()
    const exitCode = yield* service.end("SIGTERM")
    const rewritten = [...follower.seen].filter(([position, seen]) =>
      digests.get(position) !== seen && !(scenario.forgets === true && !digests.has(position))
    )
    const verdict: Verdict = {
      diedAt,
      events: events.length,
      problems: [
        ...oracle.breaches,
        ...differences.map(({ key, why }) => `${key}: ${why}`),
        ...rewritten.map(([position]) => `position ${position} was read with other content before`),
        ...(scenario.forgets === true ? [] : follower.complaints),
        ...(exitCode === 0 ? [] : [`the next process ended with ${exitCode}:\n${service.log()}`])
      ]
    }
    return verdict
  },
  Effect.scoped
)

/** More steps than any scenario has. */
const mostSteps = 60

/** Kills before and after every step of every scenario, and reports each result, until `isEnough`. */
export const everyStep = Effect.fnUntraced(function*(
  onVerdict: (scenario: string, doom: Doom, verdict: Verdict) => void,
  isEnough: () => boolean
) {
  for (const scenario of scenarios) {
    if (isEnough()) return
    yield* Effect.scoped(Effect.gen(function*() {
      const prepared = yield* prepareScenario(scenario)
      for (const of of scenario.of ?? [undefined]) {
        for (let n = 1, isOver = false; n <= mostSteps && !isOver && !isEnough(); n++) {
          for (const side of ["before", "after"] as const) {
            const doom: Doom = { ...(of !== undefined && { of }), n, side, signal: "SIGKILL" }
            const verdict = yield* killAtStep(prepared, doom)
            isOver = verdict.diedAt === null
            onVerdict(scenario.name, doom, verdict)
            if (isOver) break
          }
        }
      }
    }))
  }
})
