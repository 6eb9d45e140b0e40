import { assert, describe, it } from "@effect/vitest"
import type { FleetInspection, FleetProcess } from "../../store/Processes.ts"
import { checkFleet } from "./FleetChecks.ts"

const process = (part: Partial<FleetProcess> = {}): FleetProcess => ({
  id: "11111111-2222-4333-8444-555555555555",
  version: "1.2.0",
  host: "one",
  pid: 7,
  address: null,
  startedAt: 0,
  seenAt: 0,
  silence: 1000,
  clockOffset: 0,
  state: "alive",
  problems: [],
  scopes: ["capture/1"],
  ...part
})

/** The results of a fleet, as `status check: message`. */
const found = (part: Partial<FleetInspection> = {}) =>
  checkFleet({
    processes: [process()],
    clockOffset: 0,
    connections: { available: 97, perProcess: 13 },
    ...part
  }).map(({ check, message, status }) => `${status} ${check}: ${message}`)

describe("the doctor's checks of a fleet", () => {
  it("pass for processes of one version whose clocks agree", () => {
    assert.deepStrictEqual(found({ processes: [process(), process({ id: "22222222", clockOffset: -5400 })] }), [
      "ok fleet: 2 processes are running, of version 1.2.0",
      "ok clock of this machine: agrees with the database's",
      "ok clock of process 11111111 on one: agrees with the database's",
      "ok clock of process 22222222 on one: agrees with the database's",
      "ok connections: the database allows 97; 2 processes are running and may need 26"
    ])
  })

  it("pass before the first start", () => {
    assert.deepStrictEqual(checkFleet(null), [])
    assert.include(found({ processes: [] }), "ok fleet: no process is running")
  })

  it("name different versions of processes that are alive", () => {
    const processes = [process(), process({ version: "1.3.0" }), process({ version: "1.1.0", state: "silent" })]
    assert.include(found({ processes }), "warning fleet: 2 processes are running, of different versions: 1.2.0, 1.3.0")
  })

  it("name a silent process that still owns something", () => {
    const silent = process({ state: "silent", silence: 61_000, scopes: ["capture/1", "relay"] })
    assert.include(
      found({ processes: [silent, process({ state: "silent", scopes: [] })] }),
      "warning fleet: process 11111111 on one owns 2 parts of the work and has not reported for 1m 1s"
    )
  })

  it("name what a living process reports, such as a key that it lacks", () => {
    const problems = [{ name: "fleet", reason: "it lacks the key k1" }, { name: "kafka", reason: "no broker answers" }]
    const seen = found({ processes: [process({ problems }), process({ problems, state: "silent" })] })
    assert.deepStrictEqual(seen.filter((line) => line.includes("reports")), [
      "warning fleet: process 11111111 on one reports a problem (fleet): it lacks the key k1",
      "warning fleet: process 11111111 on one reports a problem (kafka): no broker answers"
    ])
  })

  it("warn of a clock that is more than 5 seconds away, and fail above 30 seconds", () => {
    const clocks = (...offsets: ReadonlyArray<number | null>) =>
      found({ processes: offsets.map((clockOffset) => process({ clockOffset })) })
        .filter((line) => line.includes("clock of process")).map((line) => line.replace(/ clock.*: /, " "))
    assert.deepStrictEqual(clocks(5000, 6000, -30_000, 31_000, -3_600_000, null), [
      "ok agrees with the database's",
      "warning is 6s ahead of the database's",
      "warning is 30s behind the database's",
      "problem is 31s ahead of the database's",
      "problem is 1h behind the database's"
    ])
    assert.include(found({ clockOffset: 7000 }), "warning clock of this machine: is 7s ahead of the database's")
  })

  it("warn if the database allows fewer connections than the processes may open", () => {
    const processes = Array.from({ length: 8 }, () => process())
    assert.include(found({ processes }), "warning connections: the database allows 97, and 8 processes may need 104")
    const none = found({ processes: [], connections: { available: 12, perProcess: 13 } })
    assert.include(none, "warning connections: the database allows 12, and a process may need 13")
  })
})
