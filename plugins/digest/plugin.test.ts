/** A day in a few lines. */
import * as Testing from "#testing"
import { assert, describe, it } from "@effect/vitest"
import plugin from "./plugin.ts"

const url = "https://chat.example/hooks/T0KEN"
const used = (more: object = {}) => plugin.with({ values: { DIGEST_URL: url, ...more } })
const taken: Testing.Setup = { http: () => ({ status: 200, body: "ok" }) }

const person = { first_name: "Zoë", last_name: "Berg" }
const on = (day: number) => new Date(Date.UTC(2026, 0, day, 12))
const hired = (id: string, job: string, detectedAt = on(1), version = 2) =>
  Testing.event("ats.application.hired", { version, detectedAt, after: { id, job: { name: job }, candidate: person } })
const declined = (id: string, job: string | null) =>
  Testing.event("ats.application.declined", { detectedAt: on(1), after: { id, job: { name: job } } })
const opened = (id: string, name: string, detectedAt = on(1)) =>
  Testing.event("hris.staffing_entity.opened", { detectedAt, after: { id, name } })

const told = ({ requests }: Testing.Result): ReadonlyArray<string> => requests.map(({ body }) => JSON.parse(body).text)

describe("digest", () => {
  it("tells the day in counts and titles, the most frequent first, and names nobody", async () => {
    const testing = Testing.make(used(), taken)
    await testing.deliver([
      hired("a1", "Controller"),
      hired("a2", "Nurse"),
      hired("a3", "Nurse"),
      declined("a4", "R&D <lead>"),
      declined("a5", null),
      opened("s1", "Warehouse Lead")
    ])
    const run = await testing.tick("digest")
    assert.deepStrictEqual(told(run), [
      "*sandbox:test, 2026-01-01*\n" +
      "• 3 hired: Nurse (2), Controller\n" +
      "• 2 declined: R&amp;D &lt;lead&gt;, untitled\n" +
      "• 1 opened: Warehouse Lead"
    ])
    assert.notMatch(JSON.stringify([run.requests, run.logs]), /Zoë|Berg/)
  })

  it("names those who were hired if it may", async () => {
    const testing = Testing.make(used({ DIGEST_NAMES: true }), taken)
    await testing.deliver([hired("a1", "Nurse"), hired("a2", "Nurse")])
    assert.include(told(await testing.tick("digest"))[0], "• 2 hired: Nurse: Zoë Berg, Zoë Berg")
  })

  it("T1: counts a hire once, however often it happened", async () => {
    const testing = Testing.make(used(), taken)
    await testing.deliver([hired("a1", "Nurse"), hired("a1", "Nurse", on(1), 4)])
    assert.include(told(await testing.tick("digest"))[0], "• 1 hired: Nurse")
  })

  it("shows ten titles and how many more there are", async () => {
    const testing = Testing.make(used(), taken)
    await testing.deliver(Array.from({ length: 12 }, (_, at) => opened(`s${at}`, `Opening ${at}`)))
    assert.match(told(await testing.tick("digest"))[0] ?? "", /^• 12 opened: Opening 0, .*Opening 9, and 2 more$/m)
  })

  it("is silent about a day on which nothing happened, unless it is asked to tell", async () => {
    assert.deepStrictEqual(told(await Testing.make(used(), taken).tick("digest")), [])
    const [text] = told(await Testing.make(used({ DIGEST_EMPTY: true }), taken).tick("digest"))
    assert.strictEqual(text, "*sandbox:test, 2026-01-01*\nNothing happened.")
  })

  it("L8: after days without a tick sends one message that spans them, and nothing twice", async () => {
    const testing = Testing.make(used(), taken)
    await testing.deliver([hired("a1", "Nurse", on(1)), opened("s1", "Lead", on(2)), hired("a2", "Nurse", on(4))])
    assert.deepStrictEqual(told(await testing.tick("digest")), [
      "*sandbox:test, 2026-01-01 to 2026-01-04*\n• 2 hired: Nurse (2)\n• 1 opened: Lead"
    ])
    assert.deepStrictEqual(told(await testing.tick("digest")), [])
  })

  it("tries again while nobody takes it, and repeats the address in no failure", async () => {
    const testing = Testing.make(used(), { http: [{ status: 500 }, "unreachable", { status: 200 }] })
    await testing.deliver(hired("a1", "Nurse"))
    assert.deepStrictEqual((await testing.tick("digest")).deliveries.map(({ attempts, state }) => [state, attempts]), [
      ["done", 3]
    ])
    const refused = Testing.make(used(), { http: [{ status: 410 }] })
    await refused.deliver(hired("a1", "Nurse"))
    const { failure, logs } = await refused.tick("digest")
    assert.propertyVal(failure, "_tag", "Permanent")
    assert.notInclude(JSON.stringify([failure, logs]), "T0KEN")
  })

  it("L4: cut off at any moment, the message arrives, and comes again only if its answer never came", async () => {
    const testing = Testing.make(used(), taken)
    await testing.deliver([hired("a1", "Nurse"), opened("s1", "Lead")])
    const crashes = await testing.crashes({ tick: "digest" })
    assert.isAbove(crashes.length, 3)
    for (const { at, result } of crashes) {
      assert.isNull(result.failure, at)
      assert.strictEqual(told(result).length, /nothing done with it|not kept/.test(at) ? 2 : 1, at)
      assert.strictEqual(new Set(told(result)).size, 1, at)
    }
  })
})
