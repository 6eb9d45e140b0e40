import { assert, describe, it } from "@effect/vitest"
import type { ProcessView } from "../http/contract/FleetApi.ts"
import { fleetText } from "./FleetCommand.ts"

const process: ProcessView = {
  id: "11111111-2222-4333-8444-555555555555",
  current: true,
  version: "1.2.0",
  host: "one",
  pid: 7,
  address: "http://127.0.0.1:8477",
  started_at: "2026-03-01T12:00:00.000Z",
  last_heartbeat_at: "2026-03-01T12:30:00.000Z",
  silence_seconds: 1.4,
  state: "alive",
  clock_offset_seconds: 0,
  shards: 64,
  publishes: true,
  dispatches: true,
  problems: []
}
const other = { ...process, id: "99999999-2222-4333-8444-555555555555", current: false, host: "two", address: null }
const show = (items: ReadonlyArray<ProcessView>, versions = ["1.2.0"]) => fleetText({ items, next: null, versions })

describe("rollcall fleet", () => {
  it("lists each process with its work, and says nothing else about a healthy fleet", () => {
    const text = show([
      { ...process, shards: 31, dispatches: false },
      { ...other, shards: 1, publishes: false },
      { ...other, id: "new", shards: 0, publishes: false, dispatches: false }
    ])
    const [, one, two, three, ...none] = text.split("\n").map((line) => line.trim().split(/ {2,}/))
    assert.isEmpty(none)
    assert.deepStrictEqual(one, [
      "11111111 (answers)",
      "alive",
      "1.2.0",
      "one",
      "7",
      "http://127.0.0.1:8477",
      "2026-03-01 12:00Z",
      "1 s ago",
      "31 shards, publishes"
    ])
    assert.deepStrictEqual(two?.slice(-1), ["1 shard, dispatches"])
    assert.deepStrictEqual([three?.at(0), three?.at(5), three?.at(-1)], ["new", "–", "–"])
  })

  it("points out that versions differ", () => {
    assert.notInclude(show([process, other]), "versions")
    const text = show([process, { ...other, version: "1.3.0" }], ["1.2.0", "1.3.0"])
    assert.include(text, "The processes run different versions: 1.2.0, 1.3.0. Finish the upgrade.")
  })

  it("names the problems of each process", () => {
    const text = show([process, { ...other, problems: [{ name: "kafka", reason: "no broker answers" }] }])
    assert.include(text, "process 99999999 on two, kafka: no broker answers")
  })

  it("says that other processes take over the work of a silent one", () => {
    const silent = { ...other, state: "silent" as const, silence_seconds: 61 }
    const text = show([process, silent])
    assert.match(text, /silent +1\.2\.0 .* 61 s ago/)
    assert.include(text, "1 process is silent: frozen, killed, or cut off from the database.")
    assert.include(text, "The other processes take over the work of a silent process.")
    const idle = { ...silent, shards: 0, publishes: false, dispatches: false }
    assert.notInclude(show([process, idle]), "take over")
  })
})
