/** Messages of the webhook plugin, verified with the reference package of Standard Webhooks, and its handling of each response. */
import * as Testing from "#testing"
import { assert, describe, it } from "@effect/vitest"
import { CloudEvent, HTTP } from "cloudevents"
import * as Duration from "effect/Duration"
import { Webhook } from "standardwebhooks"
import { webhook } from "./plugin.ts"

const keyOf = (letter: string): string => `whsec_${btoa(letter.repeat(32))}`
const [current, old] = [keyOf("a"), keyOf("b")]

const url = "https://hooks.example/secret-path"
const hook = webhook({
  url,
  secret: [{ secret: "HOOK" }, { secret: "HOOK_OLD" }],
  triggers: ["ats.application.hired", "ats.application.updated", "ats.application.deleted"]
}).with({ values: { HOOK: current, HOOK_OLD: old } })

const hired = Testing.event("ats.application.hired", { after: { id: "a1", candidate: { first_name: "Zoë" } } })
const updated = Testing.event("ats.application.updated", {
  version: 3,
  before: { id: "a1", remote_url: "x" },
  after: { id: "a1", remote_url: "y" }
})
const deleted = Testing.event("ats.application.deleted", { version: 4, before: { id: "a1" } })

/** Verifies a request as a receiver does, except for its age: the clock of the test kit does not show the current time. */
const verified = (secret: string, { body, headers }: Testing.Request): unknown => {
  const at = new Date(Number(headers["webhook-timestamp"]) * 1000)
  const wanted = new Webhook(secret).sign(headers["webhook-id"] ?? "", at, body)
  assert.include((headers["webhook-signature"] ?? "").split(" "), wanted)
  return JSON.parse(body)
}
const idsOf = ({ requests }: Testing.Result) => requests.map(({ headers }) => headers["webhook-id"])

describe("webhook", () => {
  it("an event is sent as a CloudEvent that is signed with each secret", async () => {
    const { failure, requests } = await Testing.make(hook, { http: [{ status: 204 }] }).deliver(hired)
    assert.isNull(failure)
    const [request] = requests
    assert.isDefined(request)
    assert.deepInclude(request, { method: "POST", url })
    assert.propertyVal(request.headers, "content-type", "application/json")
    assert.deepStrictEqual(verified(current, request), verified(old, request))
    assert.deepInclude(verified(current, request), {
      specversion: "1.0",
      id: hired.id,
      type: "rollcall.ats.application.hired",
      source: "/integrations/sandbox:test",
      subject: "a1",
      time: "2026-01-01T00:00:00.000Z",
      timestamp: "2026-01-01T00:00:00.000Z"
    })
    assert.include(request.body, "Zoë")
  })

  it("a message with the content type of CloudEvents is an event for their reference library", async () => {
    const typed = webhook({
      url,
      secret: { secret: "HOOK" },
      triggers: ["ats.application.hired"],
      contentType: "application/cloudevents+json"
    }).with({ values: { HOOK: current } })
    const [request] = (await Testing.make(typed, { http: [{ status: 204 }] }).deliver(hired)).requests
    assert.isDefined(request)
    const event = HTTP.toEvent<{ readonly id: string }>({ headers: { ...request.headers }, body: request.body })
    assert(event instanceof CloudEvent)
    assert.isTrue(event.validate())
    assert.deepInclude(event, { id: hired.id, type: "rollcall.ats.application.hired", subject: "a1" })
    assert.deepInclude(event.data, { id: "a1", transition: { name: "hired", from: null, to: "HIRED" } })
    assert.deepInclude(verified(current, request), { id: hired.id })
  })

  it("the reference receiver accepts a message, and rejects it if a byte of the body differs", async () => {
    const testing = Testing.make(hook, { http: [{ status: 204 }] })
    const [request] = (await testing.deliver(hired)).requests
    assert.isDefined(request)
    const { body, headers } = request
    const fresh = String(Math.floor(Date.now() / 1000))
    const signature = new Webhook(old).sign(headers["webhook-id"] ?? "", new Date(Number(fresh) * 1000), body)
    const sent = { ...headers, "webhook-timestamp": fresh, "webhook-signature": signature }
    assert.deepStrictEqual(new Webhook(old).verify(body, sent), JSON.parse(body))
    assert.throws(() => new Webhook(old).verify(body.replace("hired", "fired"), sent))
  })

  it("a message with the content option set to ids contains no record content", async () => {
    const thin = webhook({ url, secret: { secret: "HOOK" }, triggers: ["ats.application.hired"], content: "ids" })
      .with({ values: { HOOK: current } })
    const [request] = (await Testing.make(thin, { http: [{ status: 200 }] }).deliver(hired)).requests
    assert.notMatch(request?.body ?? "", /Zoë|before|after|changes/)
    assert.include(request?.body, '"transition":{"name":"hired"')
  })

  it("a record's events are sent in order across all triggers, and not after a dead letter", async () => {
    const all = [hired, updated, deleted]
    const good = await Testing.make(hook, { http: () => ({ status: 200 }) }).deliver(all)
    assert.deepStrictEqual(idsOf(good), all.map(({ id }) => id))
    const bad = await Testing.make(hook, { http: [{ status: 200 }, { status: 410 }] }).deliver(all)
    assert.deepStrictEqual(bad.deliveries.map(({ state }) => state), ["done", "dead", "parked"])
  })

  it("the same message is sent again, with a new timestamp, until the receiver accepts it", async () => {
    const responses: ReadonlyArray<Testing.MockResponse> = [
      { status: 500 },
      { status: 301, headers: { location: "https://elsewhere.example" } },
      { status: 404 },
      "unreachable",
      "response lost",
      { status: 200 }
    ]
    const run = await Testing.make(hook, { http: responses }).deliver(hired)
    assert.deepStrictEqual(run.deliveries.map(({ attempts, state }) => [state, attempts]), [["done", 6]])
    assert.deepStrictEqual(new Set(idsOf(run)).size, 1)
    assert.strictEqual(new Set(run.requests.map(({ body }) => body)).size, 1)
    assert.strictEqual(
      new Set(run.requests.map(({ headers }) => headers["webhook-timestamp"])).size,
      run.requests.length
    )
    for (const request of run.requests) verified(current, request)
  })

  it("a response with Retry-After delays the next attempt and does not count as one", async () => {
    const busy = Array.from({ length: 30 }, () => ({ status: 429, headers: { "retry-after": "120" } }))
    const run = await Testing.make(hook, {
      http: [...busy, { status: 503, headers: { "retry-after": "Thu, 01 Jan 2026 02:00:00 GMT" } }, { status: 200 }]
    }).deliver(hired)
    assert.strictEqual(run.failure, null)
    const [first, , last] = [0, 30, 31].map((at) => Number(run.requests[at]?.headers["webhook-timestamp"]))
    assert.deepStrictEqual(Duration.seconds((last ?? 0) - (first ?? 0)), Duration.hours(2))
  })

  it("a delivery becomes a dead letter after two and a half days, and its failure names only the host", async () => {
    const run = await Testing.make(hook, { http: () => ({ status: 500 }) }).deliver(hired)
    assert.deepStrictEqual(run.deliveries.map(({ attempts, state }) => [state, attempts]), [["dead", 18]])
    const times = run.requests.map(({ headers }) => Number(headers["webhook-timestamp"]))
    assert.isAbove((times.at(-1) ?? 0) - (times[0] ?? 0), 2 * 86_400)
    assert.include(run.failure?.message, "hooks.example answered 500")
    assert.notMatch(JSON.stringify([run.failure, run.logs]), /secret-path|whsec|YWFh/)
  })

  it("an invalid secret is rejected, and the message does not contain it", async () => {
    for (const secret of ["plain", "whsec_!!!", `whsec_${btoa("short")}`, `whsec_${btoa("x".repeat(65))}`]) {
      const testing = Testing.make(hook.with({ values: { HOOK: secret, HOOK_OLD: old } }))
      const message = await testing.deliver(hired).then(() => "started", String)
      assert.match(message, /whsec_ followed by 24 to 64 bytes/)
      assert.notInclude(message, secret)
    }
  })

  it("options that could send no message, or one without a signature, are reported and not retried for days", async () => {
    const startedWith = async (
      options: { readonly url: string; readonly secret: unknown; readonly allowPlaintext?: boolean }
    ) => {
      const plugin = webhook({ ...options, triggers: ["ats.application.hired"] } as Parameters<typeof webhook>[0])
      const testing = Testing.make(plugin.with({ values: { HOOK: current } }), { http: () => ({ status: 200 }) })
      return testing.deliver(hired).then(() => "started", String)
    }
    const secret = { secret: "HOOK" }
    assert.strictEqual(await startedWith({ url, secret }), "started")
    for (const wrong of ["", "hooks.example/s3cret", "ftp://hooks.example/s3cret", "/s3cret"]) {
      const message = await startedWith({ url: wrong, secret })
      assert.match(message, /url is not an address that starts with https:\/\//)
      assert.notInclude(message, "s3cret")
    }
    for (const plain of ["http://hooks.example/s3cret", "http://10.0.0.5/s3cret", "http://localhost.example/s3cret"]) {
      const message = await startedWith({ url: plain, secret })
      assert.match(message, /url starts with http:\/\/.*write https:\/\/, or set allowPlaintext: true/)
      assert.notMatch(message, /s3cret|hooks\.example|10\.0\.0\.5/)
      assert.strictEqual(await startedWith({ url: plain, secret, allowPlaintext: true }), "started")
    }
    for (const own of ["http://localhost:8080/x", "http://127.0.0.1/x", "http://127.1/x", "http://[::1]:80/x"]) {
      assert.strictEqual(await startedWith({ url: own, secret }), "started")
    }
    assert.match(await startedWith({ url, secret: [] }), /secret is an empty list, so the messages would not be signed/)
  })

  it("after a crash at any point the message arrives, each time with the same id (L4)", async () => {
    for (const { at, result } of await Testing.make(hook, { http: () => ({ status: 200 }) }).crashes(hired)) {
      assert.isNull(result.failure, at)
      assert.deepStrictEqual([...new Set(idsOf(result))], [hired.id], at)
    }
  })
})
