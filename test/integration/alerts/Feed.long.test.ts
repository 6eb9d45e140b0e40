/** Alerts on reading: the faults are caused in the API that a real process reads. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { idsOf, integration, make, models, type Options } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const { missing } = Prometheus
const minutes = (count: number) => count * 60_000

/** A process that reads a sandbox, watched by Prometheus, while no alert fires. */
const watchedWith = Effect.fnUntraced(function*(options: Options) {
  const service = yield* make(options)
  yield* service.start()
  const prometheus = yield* Prometheus.start([service.url])
  yield* prometheus.quiet
  return { ...service, service, prometheus }
})
const watched = watchedWith({})

describe.skipIf(missing !== null)(`alerts on the feed${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  it.live(
    "RollcallIntegrationBlocked fires while the API denies a model, and ends when it is allowed again",
    () =>
      Effect.gen(function*() {
        const { post, prometheus, sandbox } = yield* watched
        yield* sandbox.setFaults({
          faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", model: "ats.tag" }]
        })
        const [alert] = yield* prometheus.fires("RollcallIntegrationBlocked")
        assert.strictEqual(alert?.annotations["summary"], "Blocked integrations (permission): 1")
        assert.deepInclude(alert?.labels, { reason: "permission", severity: "warning", job: "rollcall" })
        yield* sandbox.setFaults({})
        yield* post(`/v1/streams/${integration}/ats.tag/resume`)
        yield* prometheus.clears("RollcallIntegrationBlocked")
        yield* prometheus.quiet
      }),
    minutes(4)
  )

  it.live(
    "RollcallStreamsFailing and RollcallFeedDown fire while the API answers with errors, and end with them",
    () =>
      Effect.gen(function*() {
        const { prometheus, sandbox } = yield* watched
        yield* sandbox.setFaults({ faults: [{ kind: "server_error", status: 500, model: "ats.tag" }] })
        const [one] = yield* prometheus.fires("RollcallStreamsFailing")
        assert.strictEqual(one?.annotations["summary"], "Failing streams of ats.tag: 1")
        yield* sandbox.setFaults({ faults: [{ kind: "server_error", status: 500 }] })
        const [alert] = yield* prometheus.fires("RollcallFeedDown")
        assert.match(alert?.annotations["summary"] ?? "", /^(66\.67|100)% of the streams are late, failing or blocked$/)
        yield* sandbox.setFaults({})
        yield* prometheus.clears("RollcallStreamsFailing", "RollcallFeedDown")
        yield* prometheus.quiet
      }),
    minutes(6)
  )

  it.live(
    "RollcallHoldPending fires while the guard holds deletes back, and ends with the decision",
    () =>
      Effect.gen(function*() {
        const { get, post, prometheus, sandbox, service } = yield* watched
        for (const id of (yield* idsOf(service, "ats.tag")).slice(0, 6)) {
          yield* sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
        }
        const [alert] = yield* prometheus.fires("RollcallHoldPending")
        assert.strictEqual(alert?.annotations["summary"], "Holds of ats.tag that wait for a decision: 1")
        const { items: [hold] } = yield* get<{ readonly items: ReadonlyArray<{ readonly id: number }> }>("/v1/holds")
        yield* post(`/v1/holds/${hold?.id}/reject`)
        yield* prometheus.clears("RollcallHoldPending")
        yield* prometheus.quiet
      }),
    minutes(4)
  )

  it.live(
    "RollcallFeedLate and RollcallSweepsLate fire while the API limits the rate for longer than the target, and end after that",
    () =>
      Effect.gen(function*() {
        const { prometheus, sandbox } = yield* watchedWith({
          read: { integration, models, sweepInterval: "5 seconds" }
        })
        yield* sandbox.setFaults({ faults: [{ kind: "rate_limit", retryAfter: 150, count: 1 }] })
        const alerts = yield* prometheus.fires("RollcallFeedLate", "RollcallFeedDown", "RollcallSweepsLate")
        assert.match(alerts[0]?.annotations["summary"] ?? "", /^Late streams of \S+: 1$/)
        yield* prometheus.clears("RollcallFeedLate", "RollcallFeedDown", "RollcallSweepsLate")
        yield* prometheus.quiet
      }),
    minutes(7)
  )

  it.live(
    "RollcallDown and RollcallProcessDown fire while the process is gone, and end when it runs again",
    () =>
      Effect.gen(function*() {
        const { prometheus, service } = yield* watched
        yield* service.stop("SIGKILL")
        const [, alert] = yield* prometheus.fires("RollcallDown", "RollcallProcessDown")
        assert.strictEqual(
          alert?.annotations["summary"],
          `The process ${new URL(service.url).host} does not answer`
        )
        yield* service.start()
        yield* prometheus.clears("RollcallDown", "RollcallProcessDown")
        yield* prometheus.quiet
      }),
    minutes(4)
  )
})
