import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { newRun } from "../read/Pages.ts"
import { nextStep } from "./NextStep.ts"
import { initialState } from "./StreamLifecycle.ts"

const interval = Duration.minutes(1)
const sweepInterval = Duration.hours(6)
const now = 1_700_000_000_000
const fortnight = Duration.toMillis(Duration.days(14))

const around = (millis: number) => Schema.Int.check(Schema.isBetween({ minimum: now - millis, maximum: now + millis }))
/** Times of our clock, which may have been wrong: from a month ago to a month ahead, in minutes. */
const moment = Schema.Union([around(5 * Duration.toMillis(interval)), around(2 * fortnight)])
const Situation = Schema.Struct({
  model: Schema.Literals(["hris.skill", "assessment.package"]),
  live: Schema.Boolean,
  polledAt: Schema.NullOr(moment),
  sweptAt: Schema.NullOr(moment),
  sweepingSince: Schema.NullOr(moment),
  polls: Schema.NullOr(Schema.Literals(["everything", "nothing"])),
  failures: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
  lastTried: Schema.Literals(["poll", "sweep"]),
  refreshOutcome: Schema.Literals(["done", "more", "sweep"]),
  pollRequested: Schema.Boolean,
  jitter: Schema.Literals([-0.1, 0, 0.1])
})
type Situation = typeof Situation.Type

const turnIn = ({ jitter, lastTried, refreshOutcome, pollRequested, ...situation }: Situation) => {
  const { live, model } = situation
  const settings = { integration: "one", model, account: "default", interval, sweepInterval }
  const fresh: StreamState = initialState(settings, Duration.minutes(5))
  const runOf = (kind: Run["kind"], startedAt: number) =>
    newRun(fresh, kind, { updatedAfter: null, startedAt, backfill: false })
  const ended = (kind: Run["kind"], endedAt: number | null) =>
    endedAt === null ? null : { ...runOf(kind, endedAt), endedAt }
  const state: StreamState = {
    ...fresh,
    watermark: live ? now : null,
    backfilledAt: live ? now : null,
    sweep: situation.sweepingSince === null ? null : runOf("sweep", situation.sweepingSince),
    lastPoll: ended("poll", situation.polledAt),
    lastSweep: ended("sweep", situation.sweptAt),
    ...situation.polls === null ? {} : { pollsReturn: situation.polls },
    failing: situation.failures === 0 ? null : { count: situation.failures, message: "refused", since: now }
  }
  return nextStep(
    { key: { integration: "one", model }, settings, jitter, lastTried, refreshOutcome, pollRequested },
    state,
    now
  )
}

describe("NextStep", () => {
  it.prop("no stream waits longer than ten of its intervals, whatever our clock was at its last run (W4)", [
    Situation
  ], ([situation]) => {
    const turn = turnIn(situation)
    if (turn.kind !== "wait") return
    assert.isAbove(turn.until, now)
    assert.isAtMost(turn.until - now, 11 * Duration.toMillis(interval))
  })

  it.prop("a stream that was just read waits, unless an operator requests a poll", [Situation], ([situation]) => {
    const read = { ...situation, live: true, polledAt: now - 1, sweptAt: now - 1, sweepingSince: null }
    const rested = { ...read, refreshOutcome: "done" as const, pollRequested: false }
    const often = situation.model === "hris.skill" && situation.polls === "everything" ? 10 : 1
    const { jitter, model } = situation
    const until = now - 1 + often * (1 + jitter) * Duration.toMillis(interval)
    assert.deepStrictEqual(turnIn(rested), { kind: "wait", until })
    const { kind } = turnIn({ ...rested, pollRequested: true })
    assert.strictEqual(kind, model === "hris.skill" ? "poll" : "sweep")
  })

  it.prop(
    "a stream that was not read for longer than deletes are remembered neither polls nor resumes an equally old sweep (W11)",
    [
      Situation
    ],
    ([situation]) => {
      const away = { ...situation, model: "hris.skill" as const, live: true }
      const old = now - fortnight - 1
      const turn = turnIn({
        ...away,
        polledAt: away.polledAt === null ? null : Math.min(away.polledAt, old),
        sweptAt: Math.min(away.sweptAt ?? old, old),
        sweepingSince: away.sweepingSince === null ? null : Math.min(away.sweepingSince, old)
      })
      assert.deepStrictEqual(turn, { kind: "sweep", fromFirstPage: away.sweepingSince !== null, until: Infinity })
    }
  )

  it.prop("a sweep yields to a due poll, and after a failure the other kind of run is next (R3)", [
    Situation
  ], ([situation]) => {
    const { failures, lastTried } = situation
    const turn = turnIn({
      ...situation,
      model: "hris.skill",
      live: true,
      pollRequested: false,
      polledAt: now - Duration.toMillis(Duration.hours(1)),
      sweptAt: now - Duration.toMillis(Duration.days(1))
    })
    const until = now + Duration.toMillis(interval)
    const isSweep = failures > 0 && lastTried === "poll"
    assert.deepStrictEqual(turn, isSweep ? { kind: "sweep", fromFirstPage: false, until } : { kind: "poll" })
  })

  it.prop("a list that the API only returns as a whole is never polled", [Situation], ([situation]) => {
    assert.notStrictEqual(turnIn({ ...situation, model: "assessment.package" }).kind, "poll")
  })
})
