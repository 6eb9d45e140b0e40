/** Alerts on reading: the faults are caused in the API that a real process reads. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { idsOf, integration, make, models, type Options, test, watched } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const { missing } = Prometheus

const begin = Effect.fnUntraced(function*(options: Options = {}) {
  const service = yield* make(options)
  return { ...service, service, prometheus: yield* watched(service) }
})

describe.skipIf(missing !== null)(`alerts on the feed${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  test(
    "RollcallIntegrationBlocked fires while the API denies a model, and ends when it is allowed again",
    4,
    function*() {
      const { post, prometheus, sandbox } = yield* begin()
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
    }
  )

  test(
    "RollcallStreamsFailing and RollcallFeedDown fire while the API answers with errors, and end with them",
    6,
    function*() {
      const { prometheus, sandbox } = yield* begin()
      yield* sandbox.setFaults({ faults: [{ kind: "server_error", status: 500, model: "ats.tag" }] })
      const [one] = yield* prometheus.fires("RollcallStreamsFailing")
      assert.strictEqual(one?.annotations["summary"], "Failing streams of ats.tag: 1")
      yield* sandbox.setFaults({ faults: [{ kind: "server_error", status: 500 }] })
      const [alert] = yield* prometheus.fires("RollcallFeedDown")
      assert.match(
        alert?.annotations["summary"] ?? "",
        /^(66\.67|100)% of the streams that are not paused are late, failing or blocked$/
      )
      yield* sandbox.setFaults({})
      yield* prometheus.clears("RollcallStreamsFailing", "RollcallFeedDown")
      yield* prometheus.quiet
    }
  )

  test("RollcallHoldPending fires while the guard holds deletes back, and ends with the decision", 4, function*() {
    const { get, post, prometheus, sandbox, service } = yield* begin()
    for (const id of (yield* idsOf(service, "ats.tag")).slice(0, 6)) {
      yield* sandbox.mutate({ op: "delete", integration, model: "ats.tag", id })
    }
    const [alert] = yield* prometheus.fires("RollcallHoldPending")
    assert.strictEqual(alert?.annotations["summary"], "Holds of ats.tag that wait for a decision: 1")
    const { items: [hold] } = yield* get<{ readonly items: ReadonlyArray<{ readonly id: number }> }>("/v1/holds")
    yield* post(`/v1/holds/${hold?.id}/reject`)
    yield* prometheus.clears("RollcallHoldPending")
    yield* prometheus.quiet
  })

  test(
    "RollcallFeedLate and RollcallSweepsLate fire while the API limits the rate for longer than the target, and end after that",
    7,
    function*() {
      const { prometheus, sandbox } = yield* begin({
        read: { integration, models, sweepInterval: "5 seconds" }
      })
      yield* sandbox.setFaults({ faults: [{ kind: "rate_limit", retryAfter: 150, count: 1 }] })
      const alerts = yield* prometheus.fires("RollcallFeedLate", "RollcallFeedDown", "RollcallSweepsLate")
      assert.match(alerts[0]?.annotations["summary"] ?? "", /^Late streams of \S+: 1$/)
      yield* prometheus.clears("RollcallFeedLate", "RollcallFeedDown", "RollcallSweepsLate")
      yield* prometheus.quiet
    }
  )

  test(
    "RollcallDown and RollcallProcessDown fire while the process is gone, and end when it runs again",
    4,
    function*() {
      const { prometheus, service } = yield* begin()
      yield* service.stop("SIGKILL")
      const [, alert] = yield* prometheus.fires("RollcallDown", "RollcallProcessDown")
      assert.strictEqual(
        alert?.annotations["summary"],
        `The process ${new URL(service.url).host} does not answer`
      )
      yield* service.start()
      yield* prometheus.clears("RollcallDown", "RollcallProcessDown")
      yield* prometheus.quiet
    }
  )
})
