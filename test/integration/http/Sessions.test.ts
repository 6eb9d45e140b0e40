import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { type IncomingMessage, request } from "node:http"
import * as Server from "../../../src/http/Server.ts"
import { misconfigured, type StoreError } from "../../../src/store/Store.ts"
import { StoredSessions } from "../../../src/store/StoredSessions.ts"
import * as MemoryStore from "../../support/store/MemoryStore.ts"
import * as Running from "./Running.ts"

const { json, readToken, send, served, token } = Running

const localhost = { host: "localhost:8477" }
const page = { ...localhost, accept: "text/html,application/xhtml+xml" }
const form = { ...localhost, origin: "http://localhost:8477", "content-type": "application/x-www-form-urlencoded" }
const stop = "/v1/plugins/writes/stop"

const signIn = Effect.fnUntraced(function*(secret: string, to = "/", headers: Record<string, string> = form) {
  const answer = yield* send("POST", "/login", headers, new URLSearchParams({ token: secret, to }).toString())
  const [cookie = ""] = answer.headers["set-cookie"] ?? []
  return { ...answer, cookie: cookie.split(";", 1)[0] ?? "", attributes: cookie.split("; ").slice(1) }
})

describe("a browser", () => {
  served("without a session is sent to the login page, and after signing in to the page it asked for", function*() {
    const asked = yield* send("GET", "/docs?x=1", page)
    assert.deepStrictEqual([asked.status, asked.headers.location], [303, "/login?to=%2Fdocs%3Fx%3D1"])
    const login = yield* send("GET", asked.headers.location ?? "", page)
    assert.strictEqual(login.status, 200)
    assert.include(login.text, `<input type="hidden" name="to" value="/docs?x=1">`)
    assert.include(login.text, `type="password" autocomplete="current-password"`)
    const { attributes, cookie, headers, status } = yield* signIn(token, "/docs?x=1")
    assert.deepStrictEqual([status, headers.location], [303, "/docs?x=1"])
    assert.match(cookie, /^rollcall_8477=[\w-]{43}\.[\w-]{43}$/)
    assert.sameMembers(attributes, ["Path=/", "HttpOnly", "SameSite=Strict"])
    const home = yield* send("GET", "/", { ...page, cookie })
    assert.strictEqual(home.status, 200)
    assert.include(home.text, `data-right="operate" data-session="true"`)
  }, { token })

  served("that signs out has no session, also with the old cookie", function*() {
    const { cookie } = yield* signIn(token)
    assert.strictEqual((yield* send("GET", "/v1/streams", { ...localhost, cookie })).status, 200)
    const out = yield* send("POST", "/logout", { ...form, cookie })
    assert.deepStrictEqual([out.status, out.headers.location], [303, "/login"])
    assert.match(out.headers["set-cookie"]?.[0] ?? "", /^rollcall_8477=; .*(Max-Age=0|Expires=Thu, 01 Jan 1970)/)
    assert.strictEqual((yield* send("GET", "/v1/streams", { ...localhost, cookie })).status, 401)
  }, { token })

  served("that signs in again has only the new session", function*() {
    const old = yield* signIn(token)
    const { cookie } = yield* signIn(token, "/", { ...form, cookie: old.cookie })
    assert.strictEqual((yield* send("GET", "/v1/streams", { ...localhost, cookie })).status, 200)
    assert.strictEqual((yield* send("GET", "/v1/streams", { ...localhost, cookie: old.cookie })).status, 401)
  }, { token })

  served.virtual("whose console only reads by itself has no session after half an hour", function*() {
    const { cookie } = yield* signIn(token)
    const automatic = { ...localhost, cookie, "rollcall-refresh": "automatic" }
    yield* TestClock.adjust("29 minutes")
    assert.strictEqual((yield* send("GET", "/v1/overview", automatic)).status, 200)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual((yield* send("GET", "/v1/overview", automatic)).status, 401)
    const { headers, status } = yield* send("GET", "/streams?state=late", { ...page, cookie })
    assert.deepStrictEqual([status, headers.location], [303, "/login?to=%2Fstreams%3Fstate%3Dlate"])
  }, { token })

  served.virtual("that signs out gets no further events on a stream that is still open", function*() {
    const { cookie } = yield* signIn(token)
    const { url } = yield* Server.Server
    const stream = yield* Effect.promise(async () => {
      const headers = { ...localhost, cookie, accept: "text/event-stream" }
      const [answer] = await once(request(`${url}/v1/events`, { headers, agent: false }).end(), "response")
      return answer as IncomingMessage
    })
    const ended = once(stream.resume(), "close")
    assert.strictEqual(stream.statusCode, 200)
    yield* TestClock.adjust("5 seconds")
    assert.isFalse(stream.destroyed)
    yield* send("POST", "/logout", { ...form, cookie })
    yield* TestClock.adjust("5 seconds")
    yield* Effect.promise(() => ended)
  }, { token })

  served("sees all sessions, and ends one of them or all, which the audit log shows", function*() {
    const mine = { ...localhost, cookie: (yield* signIn(token)).cookie }
    const other = { ...localhost, cookie: (yield* signIn(token)).cookie }
    const reader = { ...localhost, cookie: (yield* signIn(readToken)).cookie }
    const statusOf = (headers: Record<string, string>) =>
      Effect.map(send("GET", "/v1/streams", headers), ({ status }) => status)
    const { body: { items }, text } = yield* send("GET", "/v1/sessions", mine)
    const ofMine = items.find(({ current }: { current: boolean }) => current)
    const { expires_at, id, last_request_at, started_at, ...rest } = ofMine
    assert.match(id, /^[0-9a-f]{16}$/)
    assert.deepStrictEqual(rest, { right: "operate", address: "127.0.0.1", current: true })
    assert.isAtLeast(Date.parse(last_request_at), Date.parse(started_at))
    assert.strictEqual(Date.parse(expires_at) - Date.parse(last_request_at), 30 * 60_000)
    assert.deepStrictEqual(items.map(({ right }: { right: string }) => right).sort(), ["operate", "operate", "read"])
    for (const { cookie } of [mine, other, reader]) {
      const secret = cookie.split("=")[1] ?? ""
      assert.notInclude(text, secret)
      assert.notInclude(text, createHash("sha256").update(secret).digest("base64url"))
    }
    const [ofOther] = items.filter(({ current, right }: { current: boolean; right: string }) =>
      right === "operate" && !current
    )
    const end = (path: string, headers: Record<string, string>) => send("DELETE", path, headers)
    assert.strictEqual((yield* end(`/v1/sessions/${ofOther.id}`, reader)).status, 403)
    assert.strictEqual((yield* end("/v1/sessions", { ...mine, origin: "http://localhost:3000" })).status, 403)
    const ended = yield* end(`/v1/sessions/${ofOther.id}`, mine)
    assert.deepStrictEqual([ended.status, ended.body], [200, { ended: 1 }])
    assert.deepStrictEqual([yield* statusOf(mine), yield* statusOf(other), yield* statusOf(reader)], [200, 401, 200])
    assert.strictEqual((yield* end(`/v1/sessions/${ofOther.id}`, mine)).status, 404)
    const program = { ...localhost, authorization: `Bearer ${token}` }
    assert.deepStrictEqual((yield* end("/v1/sessions", program)).body, { ended: 2 })
    assert.deepStrictEqual([yield* statusOf(mine), yield* statusOf(reader)], [401, 401])
    const { body: log } = yield* send("GET", "/v1/audit", program)
    assert.deepStrictEqual(
      log.items.map(({ actor, command, detail, target }: Record<string, string>) => [command, target, detail, actor]),
      [["sessions.end", "all", "2 ended", "operate token"], ["sessions.end", ofOther.id, "1 ended", "session"]]
    )
    const { headers, status } = yield* send("POST", "/v1/sessions", { ...program, ...json })
    assert.deepStrictEqual([status, headers.allow], [405, "GET, HEAD, DELETE"])
  }, { token, readToken })

  it.live("gets the reason while the store does not answer, and keeps a session that this process knows", () => {
    let answers: Effect.Effect<void, StoreError> = Effect.void
    const fails = <A>(operation: Effect.Effect<A, StoreError>) =>
      Effect.suspend(() => Effect.andThen(answers, operation))
    const failing = Layer.effect(
      StoredSessions,
      Effect.map(StoredSessions, (stored) =>
        StoredSessions.of({
          start: (session) => fails(stored.start(session)),
          find: (key, isActivity) => fails(stored.find(key, isActivity)),
          list: fails(stored.list),
          end: (which, toAction) => fails(stored.end(which, toAction))
        }))
    )
    return Effect.gen(function*() {
      const { cookie } = yield* signIn(token)
      const { cookie: unknown } = yield* signIn(token)
      const get = (path: string, cookie: string) => send("GET", path, { ...localhost, cookie })
      assert.strictEqual((yield* get("/v1/streams", cookie)).status, 200)
      answers = Effect.fail(misconfigured("the disk is gone"))
      assert.strictEqual((yield* get("/v1/streams", cookie)).status, 200)
      const refused = yield* get("/v1/streams", unknown)
      assert.deepStrictEqual([refused.status, refused.body.detail], [503, "the disk is gone"])
      assert.strictEqual((yield* get("/health/live", unknown)).status, 200)
      assert.strictEqual((yield* get("/login", unknown)).status, 200)
      assert.strictEqual((yield* get("/v1/sessions", cookie)).status, 503)
      assert.strictEqual((yield* send("DELETE", "/v1/sessions", { ...localhost, cookie })).status, 503)
      const again = yield* signIn(token)
      assert.deepStrictEqual([again.status, again.headers["set-cookie"]], [503, undefined])
      assert.include(again.text, "You are not signed in, because the store does not answer: the disk is gone")
      assert.strictEqual((yield* send("POST", "/logout/everywhere", { ...form, cookie })).status, 503)
      const out = yield* send("POST", "/logout", { ...form, cookie })
      assert.strictEqual(out.status, 503)
      assert.include(out.text, "your session stays open until it expires: the disk is gone")
      assert.match(out.headers["set-cookie"]?.[0] ?? "", /^rollcall_8477=; /)
      assert.strictEqual((yield* get("/v1/streams", cookie)).status, 503)
      answers = Effect.void
      assert.strictEqual((yield* get("/v1/streams", unknown)).status, 200)
    }).pipe(
      Effect.provide(
        Running.server({ token }).pipe(Layer.provide(failing), Layer.provideMerge(MemoryStore.layer()))
      )
    )
  })

  served("that signs out everywhere ends all sessions, with the read token only those of readers", function*() {
    const statusOf = (cookie: string) =>
      Effect.map(send("GET", "/v1/streams", { ...localhost, cookie }), ({ status }) => status)
    const [operator, reader, other] = [yield* signIn(token), yield* signIn(readToken), yield* signIn(readToken)]
    const out = (headers: Record<string, string>) => send("POST", "/logout/everywhere", { ...form, ...headers })
    assert.strictEqual((yield* out({ cookie: reader.cookie, origin: "http://localhost:3000" })).status, 403)
    yield* out({})
    assert.strictEqual(yield* statusOf(other.cookie), 200)
    const left = yield* out({ cookie: reader.cookie })
    assert.deepStrictEqual([left.status, left.headers.location], [303, "/login"])
    assert.match(left.headers["set-cookie"]?.[0] ?? "", /^rollcall_8477=; /)
    assert.deepStrictEqual([yield* statusOf(operator.cookie), yield* statusOf(other.cookie)], [200, 401])
    const again = yield* signIn(readToken)
    yield* out({ cookie: operator.cookie })
    assert.deepStrictEqual([yield* statusOf(operator.cookie), yield* statusOf(again.cookie)], [401, 401])
  }, { token, readToken })

  served("is not redirected to another server after signing in", function*() {
    for (
      const to of [
        "//attacker.example",
        "https://attacker.example",
        "/\\attacker.example",
        "javascript:x",
        "/\t/a",
        ""
      ]
    ) {
      assert.strictEqual((yield* signIn(token, to)).headers.location, "/", to)
    }
    const { text, type } = yield* send("GET", "/login?to=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", page)
    assert.notInclude(text, "<script")
    assert.strictEqual(type, "text/html; charset=utf-8")
  }, { token })

  served("with a wrong token gets the form again and no cookie", function*() {
    const { headers, status, text } = yield* signIn("wrong")
    assert.deepStrictEqual([status, headers["set-cookie"]], [401, undefined])
    assert.include(text, "This token is wrong.")
    assert.strictEqual((yield* signIn("")).status, 400)
    assert.strictEqual((yield* send("POST", "/login", { ...form, ...json }, `{"token":"${token}"}`)).status, 400)
  }, { token })

  served("with the read token cannot run commands", function*() {
    const { cookie } = yield* signIn(readToken)
    assert.strictEqual((yield* send("GET", "/v1/events", { ...localhost, cookie })).status, 200)
    const { body, status } = yield* send("POST", stop, { ...localhost, ...json, cookie })
    assert.deepStrictEqual([status, body.type], [403, "urn:rollcall:problem:operate-token-required"])
  }, { token, readToken })

  served("behind TLS gets a cookie that is only sent over TLS, and no other cookie counts", function*() {
    const proxied = { ...form, host: "rollcall.example", origin: "https://rollcall.example" }
    const { attributes, cookie, headers } = yield* signIn(token, "/", proxied)
    assert.match(cookie, /^__Host-rollcall=/)
    assert.include(attributes, "Secure")
    assert.strictEqual(headers["strict-transport-security"], "max-age=31536000")
    const get = (cookie: string) => send("GET", "/v1/streams", { host: "rollcall.example", cookie })
    assert.strictEqual((yield* get(cookie)).status, 200)
    assert.strictEqual((yield* get(cookie.replace("__Host-", ""))).status, 401)
  }, { token, hosts: [{ name: "rollcall.example", https: true }] })

  served("on a page of another origin cannot use the session, sign in or sign out", function*() {
    const { cookie } = yield* signIn(token)
    const foreign = [
      { origin: "http://localhost:3000", "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" },
      { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" }
    ]
    for (const headers of foreign) {
      for (const path of ["/v1/events", "/", "/login"]) {
        const answer = yield* send("GET", path, { ...localhost, ...headers, cookie })
        assert.deepStrictEqual([answer.status, answer.headers["access-control-allow-origin"]], [403, undefined])
      }
      assert.strictEqual((yield* send("POST", "/logout", { ...form, ...headers, cookie })).status, 403)
      assert.strictEqual((yield* signIn(token, "/", { ...form, ...headers })).status, 403)
      assert.strictEqual((yield* send("POST", stop, { ...localhost, ...headers, ...json, cookie })).status, 403)
    }
    assert.strictEqual((yield* send("GET", "/v1/events", { ...localhost, cookie })).status, 200)
  }, { token })

  served("needs no session if no token is configured", function*() {
    assert.strictEqual((yield* send("GET", "/", page)).status, 200)
    const { headers, status } = yield* send("GET", "/login", page)
    assert.deepStrictEqual([status, headers.location], [303, "/"])
  })
})

describe("a program", () => {
  served("signs in with the token, and then needs only the session, also for commands and streams", function*() {
    const { url } = yield* Server.Server
    const answer = yield* Effect.promise(() =>
      fetch(`${url}/login`, { method: "POST", body: new URLSearchParams({ token }), redirect: "manual" })
    )
    assert.strictEqual(answer.status, 303)
    const cookie = answer.headers.getSetCookie()[0]?.split(";", 1)[0] ?? ""
    const call = (path: string, options: RequestInit = {}) =>
      Effect.promise(() =>
        fetch(`${url}${path}`, { redirect: "manual", ...options, headers: { ...options.headers, cookie } })
      )
    assert.strictEqual((yield* call("/v1/events")).status, 200)
    const body = JSON.stringify({ id: "workday:a", models: ["hris.skill"], account: "eu" })
    assert.strictEqual((yield* call("/v1/integrations", { method: "POST", headers: json, body })).status, 200)
    const stream = yield* call("/v1/events", { headers: { accept: "text/event-stream" } })
    assert.strictEqual(stream.headers.get("content-type"), "text/event-stream; charset=utf-8")
    yield* Effect.promise(() => stream.body?.cancel() ?? Promise.resolve())
    assert.strictEqual((yield* call("/logout", { method: "POST" })).status, 303)
    assert.strictEqual((yield* call("/v1/events")).status, 401)
  }, { token })
})

describe("every response", () => {
  served("has the security headers, also a refusal", function*() {
    const paths = [
      "/",
      "/docs",
      "/login",
      "/metrics",
      "/openapi.json",
      "/v1/events",
      "/v1/streams",
      "/health/live",
      "/none"
    ]
    for (const headers of [{}, { authorization: `Bearer ${token}` }, { host: "attacker.example" }]) {
      for (const path of paths) {
        const answer = yield* send("GET", path, headers)
        const found = Object.fromEntries(
          [
            "cache-control",
            "cross-origin-opener-policy",
            "cross-origin-resource-policy",
            "referrer-policy",
            "x-content-type-options",
            "x-frame-options"
          ].map((name) => [name, answer.headers[name]])
        )
        assert.deepStrictEqual(found, {
          "cache-control": "no-store",
          "cross-origin-opener-policy": "same-origin",
          "cross-origin-resource-policy": "same-origin",
          "referrer-policy": "same-origin",
          "x-content-type-options": "nosniff",
          "x-frame-options": "DENY"
        }, path)
        const policy = String(answer.headers["content-security-policy"])
        assert.match(policy, /^default-src 'none'; .*frame-ancestors 'none'(;|$)/, path)
        assert.notInclude(policy, "script-src 'unsafe-inline'")
        assert.isUndefined(answer.headers["strict-transport-security"])
      }
    }
  }, { token })

  served("with JSON is a file that browsers save under a fixed name, and show if the user opened a link", function*() {
    const byLink = { "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "same-origin" }
    const dispositionOf = (path: string, headers: Record<string, string>) =>
      Effect.map(send("GET", path, headers), (answer) => answer.headers["content-disposition"])
    const proof = { authorization: `Bearer ${token}` }
    for (
      const path of ["/v1/streams", "/v1/events/setup.bat", "/openapi.json", "/schemas/ats.tag/1", "/health/ready"]
    ) {
      assert.strictEqual(yield* dispositionOf(path, proof), `attachment; filename="api.json"`, path)
      assert.strictEqual(yield* dispositionOf(path, { ...proof, ...byLink }), `inline; filename="api.json"`, path)
      const inFrame = { ...byLink, "sec-fetch-dest": "iframe" }
      assert.strictEqual(
        yield* dispositionOf(path, { ...proof, ...inFrame }),
        `attachment; filename="api.json"`,
        path
      )
    }
    assert.strictEqual(yield* dispositionOf("/v1/streams", {}), `attachment; filename="api.json"`)
    for (const path of ["/", "/docs", "/metrics"]) assert.isUndefined(yield* dispositionOf(path, proof), path)
  }, { token })

  served("of /docs allows only the scripts that it contains, and no other server", function*() {
    const { headers, text } = yield* send("GET", "/docs")
    const policy = String(headers["content-security-policy"])
    assert.match(policy, /script-src 'sha256-\S+' 'sha256-\S+';/)
    assert.notMatch(policy, /https?:|\*|unsafe-eval/)
    assert.notMatch(text.replaceAll(/<script>[\s\S]*?<\/script>/g, ""), /(src|href)="?https?:/)
    assert.include(text, `"withDefaultFonts":false`)
  })
})
