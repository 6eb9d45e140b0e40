import assert from "node:assert/strict"
import { test } from "node:test"
import * as Testing from "rollcall/testing"
import plugin from "./plugin.ts"

const hired = Testing.event("ats.application.hired", { after: { candidate_id: "c1" } })

test("a hired candidate gets a tag", async () => {
  // `http` responds to the requests that the handler sends with `fetch`; this handler sends none
  const testing = Testing.make(plugin, { http: () => ({ status: 204 }) })
  const { requests, writes } = await testing.deliver(hired)
  assert.deepEqual(requests, [])
  assert.deepEqual(writes, [
    { integration: Testing.integration, write: "addTag", id: "c1", body: { tag: { name: "hired" } } }
  ])
})

test("an application without a candidate becomes a dead letter", async () => {
  const { failure, writes } = await Testing.make(plugin).deliver(Testing.event("ats.application.hired", {}))
  assert.equal(failure?._tag, "Permanent")
  assert.deepEqual(writes, [])
})

test("the tag is added once, wherever the process crashes", async () => {
  for (const { at, result } of await Testing.make(plugin).crashes(hired)) {
    assert.equal(result.writes.length, 1, at)
  }
})
