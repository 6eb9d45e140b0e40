import { assert, describe } from "@effect/vitest"
import { TestClock } from "effect/testing"
import { captureScopes } from "../../../src/domain/Shard.ts"
import { version } from "../../../src/http/contract/Version.ts"
import { Processes } from "../../../src/store/Processes.ts"
import { Store } from "../../../src/store/Store.ts"
import { ask, readToken, send, served, token } from "./Running.ts"

const report = {
  version,
  host: "one",
  pid: 7,
  address: "http://127.0.0.1:8477",
  clockOffset: -1500,
  problems: [{ name: "kafka", reason: "no broker answers" }]
}

describe("the list of processes", () => {
  served.virtual("shows what each process reports and owns, to holders of a token", function*() {
    const { report: tell, self } = yield* Processes
    const store = yield* Store
    const authorization = `Bearer ${readToken}`
    const empty = yield* ask("/v1/fleet", { authorization })
    assert.deepStrictEqual(empty.body, { items: [], next: null, versions: [] })
    yield* TestClock.setTime(Date.parse("2026-03-01T12:00:00Z"))
    yield* tell(report)
    yield* TestClock.adjust("2 seconds")
    yield* tell(report)
    yield* TestClock.adjust("1500 millis")
    yield* store.takeOwnership("relay")
    const { body } = yield* ask("/v1/fleet", { authorization })
    assert.deepStrictEqual(body, {
      items: [{
        id: self,
        current: true,
        version,
        host: "one",
        pid: 7,
        address: "http://127.0.0.1:8477",
        started_at: "2026-03-01T12:00:00.000Z",
        last_heartbeat_at: "2026-03-01T12:00:02.000Z",
        silence_seconds: 1.5,
        state: "alive",
        clock_offset_seconds: -1.5,
        shards: captureScopes.length,
        publishes: true,
        dispatches: false,
        problems: [{ name: "kafka", reason: "no broker answers" }]
      }],
      next: null,
      versions: [version]
    })
    yield* store.takeOwnership("delivery")
    assert.isTrue((yield* ask("/v1/fleet", { authorization })).body.items[0].dispatches)
    assert.strictEqual((yield* ask("/v1/fleet")).status, 401)
    assert.strictEqual((yield* send("POST", "/v1/fleet", { authorization: `Bearer ${token}` })).status, 405)
  }, { token, readToken })
})
