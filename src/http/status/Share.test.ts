import { assert, describe, it } from "@effect/vitest"
import { captureScopeOf, captureScopes } from "../../domain/Shard.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import * as Share from "./Share.ts"

const process = (id: string, scopes: ReadonlyArray<string>, state: FleetProcess["state"] = "alive"): FleetProcess => ({
  id,
  scopes,
  state,
  version: "1",
  host: "h",
  pid: 1,
  address: "http://127.0.0.1:8477",
  clockOffset: null,
  problems: [],
  startedAt: 0,
  seenAt: 0,
  silence: 0
})
const integrations = Array.from({ length: 200 }, (_, index) => `greenhouse:${index}`)
const half = captureScopes.slice(0, 32)
const rest = captureScopes.slice(32)

/** By process: its share. */
const sharesOf = (processes: ReadonlyArray<FleetProcess>, of = processes.map(({ id }) => id)) =>
  of.map((id) => {
    const { ofDeliveries, ofFleet, ofIntegration, ofRelay } = Share.make(id, processes)
    return { id, own: integrations.filter(ofIntegration), ofRelay, ofDeliveries, ofFleet }
  })

const ownersOf = (scopes: ReadonlyArray<string>) =>
  integrations.filter((integration) => scopes.includes(captureScopeOf(integration)))

describe("the share of a process", () => {
  it("is what it owns", () => {
    const fleet = [process("one", [...half, "relay"]), process("two", rest), process("three", ["delivery"])]
    assert.deepStrictEqual(sharesOf(fleet), [
      { id: "one", own: ownersOf(half), ofRelay: true, ofDeliveries: false, ofFleet: true },
      { id: "two", own: ownersOf(rest), ofRelay: false, ofDeliveries: false, ofFleet: false },
      { id: "three", own: [], ofRelay: false, ofDeliveries: true, ofFleet: false }
    ])
  })

  it("contains what no living process owns, if it started first", () => {
    const fleet = [process("gone", half, "silent"), process("one", []), process("two", rest.slice(1))]
    assert.deepStrictEqual(sharesOf(fleet, ["one", "two"]), [
      {
        id: "one",
        own: integrations.filter((id) => !ownersOf(rest.slice(1)).includes(id)),
        ofRelay: true,
        ofDeliveries: true,
        ofFleet: true
      },
      { id: "two", own: ownersOf(rest.slice(1)), ofRelay: false, ofDeliveries: false, ofFleet: false }
    ])
  })

  it("counts the shards that no living process owns, but not while this process is not listed", () => {
    const fleet = [process("gone", half, "silent"), process("one", rest)]
    assert.strictEqual(Share.make("one", fleet).unowned, half.length)
    assert.strictEqual(Share.make("one", [process("one", [...half, ...rest, "relay", "delivery"])]).unowned, 0)
    assert.strictEqual(Share.make("unlisted", fleet).unowned, 0)
    assert.strictEqual(Share.make("one", []).unowned, 0)
  })

  it("contains what belongs to a process that cannot be asked, such as `start --once`, if this one started first", () => {
    const once = { ...process("once", [...half, "delivery"]), address: null }
    const fleet = [once, process("one", ["relay"]), process("two", rest)]
    assert.deepStrictEqual(sharesOf(fleet, ["one", "two"]), [
      { id: "one", own: ownersOf(half), ofRelay: true, ofDeliveries: true, ofFleet: true },
      { id: "two", own: ownersOf(rest), ofRelay: false, ofDeliveries: false, ofFleet: false }
    ])
    assert.strictEqual(Share.make("one", fleet).alive, 3)
  })

  it("contains the deliveries in the process that dispatches, although each runs those of its shards", () => {
    const fleet = [process("one", ["delivery/1"]), process("two", ["delivery", "delivery/0", "delivery/2"])]
    assert.deepStrictEqual(sharesOf(fleet).map(({ ofDeliveries }) => ofDeliveries), [false, true])
  })

  it("contains everything if no list could be read, or the process is not listed", () => {
    const everything = {
      id: "self",
      own: integrations,
      ofRelay: true,
      ofDeliveries: true,
      ofFleet: true
    }
    assert.deepStrictEqual(sharesOf([], ["self"]), [everything])
    assert.deepStrictEqual(sharesOf([process("killed", [])], ["self"]), [everything])
  })

  it("has the number of living processes and of its shards", () => {
    const fleet = [process("one", [...half, "relay"]), process("two", rest), process("gone", [], "silent")]
    const { alive, shards } = Share.make("one", fleet)
    assert.deepStrictEqual([alive, shards], [2, 32])
    assert.strictEqual(Share.make("new", fleet).shards, 0)
  })
})
