import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { defaultProcessing } from "../../domain/Processing.ts"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { initialState, newRun, type StreamSettings } from "../StreamLifecycle.ts"
import { nextStep, retryAt } from "./NextStep.ts"

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
  pollTook: Schema.Literals([0, 1_000, 300_000]),
  refreshOutcome: Schema.Literals(["done", "more", "sweep"]),
  pollRequested: Schema.Boolean,
  jitter: Schema.Literals([-0.1, 0, 0.1])
})
type Situation = typeof Situation.Type

const settingsOf = (model: Situation["model"]): StreamSettings => ({
  integration: "one",
  model,
  account: "default",
  interval,
  sweepInterval
})
const runOf = (state: StreamState, kind: Run["kind"], startedAt: number) =>
  newRun(state, kind, { updatedAfter: null, startedAt, backfill: false })

const inputOf = ({ jitter, lastTried, pollTook, refreshOutcome, pollRequested, ...situation }: Situation) => {
  const { live, model } = situation
  const settings = settingsOf(model)
  const fresh: StreamState = initialState(settings, Duration.minutes(5))
  const ended = (kind: Run["kind"], endedAt: number | null) =>
    endedAt === null ? null : { ...runOf(fresh, kind, endedAt), endedAt }
  const state: StreamState = {
    ...fresh,
    watermark: live ? now : null,
    backfilledAt: live ? now : null,
    sweep: situation.sweepingSince === null ? null : runOf(fresh, "sweep", situation.sweepingSince),
    lastPoll: ended("poll", situation.polledAt),
    lastSweep: ended("sweep", situation.sweptAt),
    ...situation.polls === null ? {} : { pollsReturn: situation.polls },
    failing: situation.failures === 0 ? null : { count: situation.failures, message: "refused", since: now }
  }
  const processing = defaultProcessing(model)
  return { stream: { processing, settings, jitter, lastTried, pollTook, refreshOutcome, pollRequested }, state }
}

const turnIn = (situation: Situation) => {
  const { state, stream } = inputOf(situation)
  return nextStep(stream, state, now)
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

  it.prop(
    "if a poll and a sweep are due, they take turns, and the sweep has half the time of the poll, or an interval after a failure (R3, R5)",
    [
      Situation
    ],
    ([situation]) => {
      const { failures, lastTried, pollTook } = situation
      const turn = turnIn({
        ...situation,
        model: "hris.skill",
        live: true,
        pollRequested: false,
        polledAt: now - Duration.toMillis(Duration.hours(1)),
        sweptAt: now - Duration.toMillis(Duration.days(1))
      })
      const until = now + Math.max(pollTook / 2, failures > 0 ? Duration.toMillis(interval) : 0)
      assert.deepStrictEqual(
        turn,
        lastTried === "poll" ? { kind: "sweep", fromFirstPage: false, until } : { kind: "poll" }
      )
    }
  )

  it.prop(
    "a failed run is not repeated before an interval is over: only a poll may follow a failed sweep earlier (R3)",
    [
      Situation
    ],
    ([situation]) => {
      const { state, stream } = inputOf({
        ...situation,
        failures: Math.max(1, situation.failures),
        pollRequested: false
      })
      const at = retryAt(stream, state, now)
      if (at - now >= Duration.toMillis(interval)) return
      assert.strictEqual(stream.lastTried, "sweep")
      assert.strictEqual(nextStep(stream, state, Math.max(at, now)).kind, "poll")
    }
  )

  it.prop("a list that the API only returns as a whole is never polled", [Situation], ([situation]) => {
    assert.notStrictEqual(turnIn({ ...situation, model: "assessment.package" }).kind, "poll")
  })

  const sometime = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 300_000 }))
  const durations = Schema.NonEmptyArray(sometime)
  it.prop(
    "a due sweep ends within three times its own duration plus one poll, and delays a poll by half of the previous one plus a page, however long each takes (R5)",
    [Schema.Struct({
      /** Until the end of the poll is stored, and from then until the refresh has ended. */
      polls: Schema.NonEmptyArray(Schema.Tuple([sometime, sometime])),
      pages: durations,
      sweepInterval: Schema.Literals([120_000, 3_600_000]),
      jitter: Schema.Literals([-0.1, 0, 0.1])
    })],
    ([{ jitter, pages, polls, sweepInterval }]) => {
      const settings = { ...settingsOf("hris.skill"), sweepInterval: Duration.millis(sweepInterval) }
      const live = { ...initialState(settings, Duration.minutes(5)), watermark: now, backfilledAt: now }
      const ended = (kind: Run["kind"], endedAt: number) => ({ ...runOf(live, kind, endedAt), endedAt })
      let state: StreamState = { ...live, lastPoll: ended("poll", now), lastSweep: ended("sweep", now) }
      let time = now
      const input = { jitter, pollTook: 0, lastTried: "sweep" as Run["kind"] }
      const longestPage = Math.max(...pages)
      const longestPoll = Math.max(...polls.map(([read, follows]) => read + follows))
      const most = 3 * pages.reduce((sum, page) => sum + page, 0) + longestPoll
      let polledAt = time
      let [polled, read, sweeps] = [0, 0, 0]
      const sweepDueAt = () => state.lastSweep!.endedAt + sweepInterval * (1 + jitter)
      for (let steps = 0; sweeps < 3; steps++) {
        const turn = nextStep(
          {
            ...input,
            processing: defaultProcessing(settings.model),
            settings,
            refreshOutcome: "done",
            pollRequested: false
          },
          state,
          time
        )
        if (turn.kind === "poll") {
          assert.isTrue(
            input.lastTried === "sweep" || sweepDueAt() > time,
            "two polls in a row although a sweep is due"
          )
          const dueAt = state.lastPoll!.endedAt + Duration.toMillis(interval) * (1 + jitter)
          assert.isAtMost(time - Math.max(dueAt, polledAt), input.pollTook / 2 + longestPage + 1)
          const [reading, following] = polls[polled++ % polls.length]!
          state = { ...state, lastPoll: ended("poll", time + reading) }
          Object.assign(input, { lastTried: "poll", pollTook: reading + following })
          time += reading + following
          polledAt = time
        } else if (turn.kind === "sweep") {
          input.lastTried = "sweep"
          if (state.sweep === null) state = { ...state, sweep: runOf(live, "sweep", time) }
          do time += pages[read++]!
          while (read < pages.length && time < turn.until)
          if (read < pages.length) continue
          assert.isAtMost(time - sweepDueAt(), most + 1)
          state = { ...state, sweep: null, lastSweep: ended("sweep", time) }
          read = 0
          sweeps++
        } else time = turn.until
        assert.isBelow(steps, 100_000)
      }
    }
  )
})
