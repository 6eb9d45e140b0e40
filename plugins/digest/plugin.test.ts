/** The messages of the digest plugin. */
import * as Testing from "#testing"
import { assert, describe, it } from "@effect/vitest"
import plugin from "./plugin.ts"

const url = "https://chat.example/hooks/T0KEN"
const used = (more: object = {}) => plugin.with({ values: { DIGEST_URL: url, ...more } })
const accepting: Testing.Setup = { http: () => ({ status: 200, body: "ok" }) }

const person = { first_name: "Zoë", last_name: "Berg" }
const on = (day: number) => new Date(Date.UTC(2026, 0, day, 12))
const hired = (id: string, job: string, detectedAt = on(1), version = 2) =>
  Testing.event("ats.application.hired", { version, detectedAt, after: { id, job: { name: job }, candidate: person } })
const declined = (id: string, job: string | null) =>
  Testing.event("ats.application.declined", { detectedAt: on(1), after: { id, job: { name: job } } })
const opened = (id: string, name: string, detectedAt = on(1)) =>
  Testing.event("hris.staffing_entity.opened", { detectedAt, after: { id, name } })

const messages = ({ requests }: Testing.Result): ReadonlyArray<string> =>
  requests.map(({ body }) => JSON.parse(body).text)

describe("digest", () => {
  it("the message lists counts and titles, the most frequent first, and no personal names", async () => {
    const testing = Testing.make(used(), accepting)
    await testing.deliver([
      hired("a1", "Controller"),
      hired("a2", "Nurse"),
      hired("a3", "Nurse"),
      declined("a4", "R&D <lead>"),
      declined("a5", null),
      opened("s1", "Warehouse Lead")
    ])
    const run = await testing.tick("digest")
    assert.deepStrictEqual(messages(run), [
      "*sandbox:test, 2026-01-01*\n" +
      "• 3 hired: Nurse (2), Controller\n" +
      "• 2 declined: R&amp;D &lt;lead&gt;, untitled\n" +
      "• 1 opened: Warehouse Lead"
    ])
    assert.notMatch(JSON.stringify([run.requests, run.logs]), /Zoë|Berg/)
  })

  it("the message names hired people if DIGEST_NAMES is set", async () => {
    const testing = Testing.make(used({ DIGEST_NAMES: true }), accepting)
    await testing.deliver([hired("a1", "Nurse"), hired("a2", "Nurse")])
    assert.include(messages(await testing.tick("digest"))[0], "• 2 hired: Nurse: Zoë Berg, Zoë Berg")
  })

  it("a name with line breaks, control or bidirectional characters stays one name on its line", async () => {
    const testing = Testing.make(used({ DIGEST_NAMES: true }), accepting)
    const candidate = { first_name: "Eve\r\n• 99 hired: CEO\u001b[2J", last_name: "\u202e\u200b\n" }
    await testing.deliver([
      Testing.event("ats.application.hired", {
        version: 2,
        detectedAt: on(1),
        after: { id: "a1", job: { name: "Nurse\n\u2028\u2066Lead" }, candidate }
      }),
      opened("s1", "\u0000\n"),
      opened("s2", "Lead\n"),
      opened("s3", "Lead")
    ])
    assert.deepStrictEqual(messages(await testing.tick("digest")), [
      "*sandbox:test, 2026-01-01*\n" +
      "• 1 hired: Nurse Lead: Eve • 99 hired: CEO [2J\n" +
      "• 3 opened: Lead (2), untitled"
    ])
  })

  it("an applicant who is hired twice counts as one hire (T1)", async () => {
    const testing = Testing.make(used(), accepting)
    await testing.deliver([hired("a1", "Nurse"), hired("a1", "Nurse", on(1), 4)])
    assert.include(messages(await testing.tick("digest"))[0], "• 1 hired: Nurse")
  })

  it("a line shows ten titles and the number of further ones", async () => {
    const testing = Testing.make(used(), accepting)
    await testing.deliver(Array.from({ length: 12 }, (_, at) => opened(`s${at}`, `Opening ${at}`)))
    assert.match(messages(await testing.tick("digest"))[0] ?? "", /^• 12 opened: Opening 0, .*Opening 9, and 2 more$/m)
  })

  it("no message is sent for a day without events, unless DIGEST_EMPTY is set", async () => {
    assert.deepStrictEqual(messages(await Testing.make(used(), accepting).tick("digest")), [])
    const [text] = messages(await Testing.make(used({ DIGEST_EMPTY: true }), accepting).tick("digest"))
    assert.strictEqual(text, "*sandbox:test, 2026-01-01*\nNothing happened.")
  })

  it("a message for a day without events has the date of that day, even at the end of a month", async () => {
    const testing = Testing.make(used({ DIGEST_EMPTY: true }), accepting)
    const days: Array<string | undefined> = []
    for (let day = 0; day < 60; day++) {
      days.push(/\d{4}-\d\d-\d\d/.exec(messages(await testing.tick("digest"))[0] ?? "")?.[0])
    }
    assert.deepStrictEqual(days.filter((_, day) => [0, 30, 31, 58, 59].includes(day)), [
      "2026-01-01",
      "2026-01-31",
      "2026-02-01",
      "2026-02-28",
      "2026-03-01"
    ])
  })

  it("a message is tried again while the receiver is down for an hour, and given up after twenty attempts", async () => {
    const tried = async (...http: ReadonlyArray<Testing.MockResponse>) => {
      const testing = Testing.make(used(), { http })
      await testing.deliver(hired("a1", "Nurse"))
      return (await testing.tick("digest")).deliveries.map(({ attempts, state }) => [state, attempts])
    }
    const down = (attempts: number) => Array.from({ length: attempts }, () => ({ status: 503 }))
    assert.deepStrictEqual(await tried(...down(10), { status: 200 }), [["done", 11]])
    assert.deepStrictEqual(await tried(...down(20)), [["dead", 20]])
  })

  it("after days without a tick, one message covers all of them and repeats no event (L8)", async () => {
    const testing = Testing.make(used(), accepting)
    await testing.deliver([hired("a1", "Nurse", on(1)), opened("s1", "Lead", on(2)), hired("a2", "Nurse", on(4))])
    assert.deepStrictEqual(messages(await testing.tick("digest")), [
      "*sandbox:test, 2026-01-01 to 2026-01-04*\n• 2 hired: Nurse (2)\n• 1 opened: Lead"
    ])
    assert.deepStrictEqual(messages(await testing.tick("digest")), [])
  })

  it("an address that others on the network could read is refused, unless DIGEST_ALLOW_PLAINTEXT is set", async () => {
    const startedWith = (values: object) =>
      Testing.make(used(values), accepting).tick("digest").then(() => "started", String)
    const plain = { DIGEST_URL: "http://chat.example/hooks/T0KEN" }
    const message = await startedWith(plain)
    assert.match(message, /DIGEST_URL starts with http:\/\/.*or set DIGEST_ALLOW_PLAINTEXT to true/)
    assert.notMatch(message, /T0KEN|chat/)
    assert.match(await startedWith({ DIGEST_URL: "chat.example/hooks/T0KEN" }), /DIGEST_URL is not an address/)
    assert.strictEqual(await startedWith({ ...plain, DIGEST_ALLOW_PLAINTEXT: true }), "started")
    assert.strictEqual(await startedWith({ DIGEST_URL: "http://127.0.0.1:9000/hook" }), "started")
  })

  it("a rejected message is sent again, and no failure contains the URL", async () => {
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

  it("after a crash at any point a message arrives, twice only if its response was lost (L4)", async () => {
    const testing = Testing.make(used(), accepting)
    await testing.deliver([hired("a1", "Nurse"), opened("s1", "Lead")])
    const crashes = await testing.crashes({ tick: "digest" })
    assert.isAbove(crashes.length, 3)
    for (const { at, result } of crashes) {
      assert.isNull(result.failure, at)
      assert.strictEqual(messages(result).length, /not processed|not recorded/.test(at) ? 2 : 1, at)
      assert.strictEqual(new Set(messages(result)).size, 1, at)
    }
  })
})
