import { assert, describe, it } from "@effect/vitest"
import { captureScopeOf, captureScopes } from "../../domain/Shard.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import * as Exporter from "./Exporter.ts"

const process = (id: string, scopes: ReadonlyArray<string>, state: FleetProcess["state"] = "alive"): FleetProcess => ({
  id,
  scopes,
  state,
  version: "1",
  host: "h",
  pid: 1,
  address: null,
  clockOffset: null,
  startedAt: 0,
  seenAt: 0,
  silence: 0
})
const integrations = Array.from({ length: 200 }, (_, index) => `greenhouse:${index}`)
const half = captureScopes.slice(0, 32)
const rest = captureScopes.slice(32)

/** By process: the series that it exports. */
const exported = (processes: ReadonlyArray<FleetProcess>, of = processes.map(({ id }) => id)) =>
  of.map((id) => {
    const { ofDeliveries, ofFleet, ofIntegration } = Exporter.make(id, processes)
    return { id, own: integrations.filter(ofIntegration), ofDeliveries, ofFleet }
  })

const ownersOf = (scopes: ReadonlyArray<string>) =>
  integrations.filter((integration) => scopes.includes(captureScopeOf(integration)))

describe("the exporter of a gauge", () => {
  it("is the owner: each series is exported by one process", () => {
    const fleet = [process("one", [...half, "relay"]), process("two", rest), process("three", ["delivery"])]
    assert.deepStrictEqual(exported(fleet), [
      { id: "one", own: ownersOf(half), ofDeliveries: false, ofFleet: true },
      { id: "two", own: ownersOf(rest), ofDeliveries: false, ofFleet: false },
      { id: "three", own: [], ofDeliveries: true, ofFleet: false }
    ])
  })

  it("is the first living process if the owner is silent or unknown, so that an alert does not lose its series", () => {
    const fleet = [process("gone", half, "silent"), process("one", []), process("two", rest.slice(1))]
    assert.deepStrictEqual(exported(fleet, ["one", "two"]), [
      {
        id: "one",
        own: integrations.filter((id) => !ownersOf(rest.slice(1)).includes(id)),
        ofDeliveries: true,
        ofFleet: true
      },
      { id: "two", own: ownersOf(rest.slice(1)), ofDeliveries: false, ofFleet: false }
    ])
  })

  it("is one process if deliveries are divided, too", () => {
    const fleet = [process("one", ["delivery/1"]), process("two", ["delivery/0", "delivery/2"])]
    assert.deepStrictEqual(exported(fleet).map(({ ofDeliveries }) => ofDeliveries), [true, false])
  })

  it("is this process if no list could be read", () => {
    assert.deepStrictEqual(exported([], ["self"]), [{
      id: "self",
      own: integrations,
      ofDeliveries: true,
      ofFleet: true
    }])
  })

  it("knows the living processes and its own shards", () => {
    const fleet = [process("one", [...half, "relay"]), process("two", rest), process("gone", [], "silent")]
    const { alive, shards } = Exporter.make("one", fleet)
    assert.deepStrictEqual([alive, shards], [2, 32])
    assert.strictEqual(Exporter.make("new", fleet).shards, 0)
  })
})
