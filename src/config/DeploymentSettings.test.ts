import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { complete as load, faultsIn, settingsOf } from "../../test/support/config/Checked.ts"
import { temporaryFolder } from "../../test/support/TemporaryFolder.ts"
import * as Config from "./Config.ts"

const long = "0123456789abcdef0123456789abcdef"
const other = "fedcba9876543210fedcba9876543210"
const open = { ROLLCALL_HTTP_HOST: "0.0.0.0", ROLLCALL_ALLOW_PLAINTEXT: "http" }

const httpOf = (variables: Record<string, string>) => Effect.map(settingsOf(variables), ({ http }) => http)

const faultsOf = (variables: Record<string, string>) =>
  Effect.map(load(variables), (raw) => faultsIn(raw).map(({ message, where }) => `${where} ${message}`))

describe("the settings of the operating API", () => {
  const remote = { ROLLCALL_HTTP_HOST: "0.0.0.0", ROLLCALL_HTTP_TOKEN: long }
  const same = { ROLLCALL_HTTP_TOKEN: long, ROLLCALL_HTTP_READ_TOKEN: long }
  const server = { ROLLCALL_HTTP_TLS_CERT_FILE: "/tls/cert.pem", ROLLCALL_HTTP_TLS_KEY_FILE: "/tls/key.pem" }
  const clients = { ROLLCALL_HTTP_TLS_CLIENT_CA_FILE: "/tls/clients.pem" }
  const own = {
    ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE: "/tls/own.pem",
    ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE: "/tls/own.key"
  }
  const notSendable = /^ROLLCALL_HTTP_TOKEN contains white space or characters outside ASCII/
  const notHost = /^ROLLCALL_HTTP_HOSTS .* is not a host name$/

  it.effect.each<[Record<string, string>, RegExp]>([
    [{ ...open, ROLLCALL_HTTP_TOKEN: long.slice(1) }, /^ROLLCALL_HTTP_TOKEN is shorter than 32 .* 0\.0\.0\.0/],
    [
      { ...open, ROLLCALL_HTTP_TOKEN: long, ROLLCALL_HTTP_READ_TOKEN: other.slice(1) },
      /^ROLLCALL_HTTP_READ_TOKEN is shorter than 32 characters, but .* 0\.0\.0\.0/
    ],
    [{ ROLLCALL_HTTP_READ_TOKEN: long }, /^ROLLCALL_HTTP_READ_TOKEN is set, but ROLLCALL_HTTP_TOKEN is not/],
    [same, /^ROLLCALL_HTTP_READ_TOKEN is the same as ROLLCALL_HTTP_TOKEN$/],
    [{ ROLLCALL_HTTP_TOKEN: "two words" }, notSendable],
    [{ ROLLCALL_HTTP_TOKEN: "…" }, notSendable],
    [{ ROLLCALL_HTTP_TOKEN: "schlüssel" }, notSendable],
    [{ ROLLCALL_HTTP_TOKEN: "two\u200bwords" }, notSendable],
    [{ ROLLCALL_HTTP_HOSTS: "http://rollcall.example.com" }, notHost],
    [{ ROLLCALL_HTTP_HOSTS: "*" }, notHost],
    [{ ROLLCALL_HTTP_HOSTS: "*.example.com" }, notHost],
    [{ ROLLCALL_HTTP_HOSTS: "a b" }, notHost],
    [{ ROLLCALL_HTTP_HOSTS: "rollcall.example.com/path" }, notHost],
    [remote, /^ROLLCALL_HTTP_TLS_CERT_FILE is not set, but the operating API listens on 0\.0\.0\.0, so tokens/],
    [{ ...remote, ROLLCALL_HTTP_HOSTS: "rollcall", ROLLCALL_ALLOW_PLAINTEXT: "api" }, /TLS_CERT_FILE is not set/],
    [clients, /^ROLLCALL_HTTP_TLS_CERT_FILE is not set, so the operating API does not use TLS, but/],
    [
      { ...server, ...clients, ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE: "/tls/own.pem" },
      /^ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE is not set$/
    ]
  ])("with %o have one fault, which quotes no token (I11)", ([variables, message]) =>
    Effect.gen(function*() {
      const [fault = "", ...others] = yield* faultsOf(variables)
      assert.match(fault, message)
      assert.isEmpty(others)
      for (const [name, value] of Object.entries(variables)) if (name.endsWith("TOKEN")) assert.notInclude(fault, value)
    }))

  it.effect.each<Record<string, string>>([
    { ROLLCALL_HTTP_TOKEN: "short" },
    { ...open, ROLLCALL_HTTP_TOKEN: long },
    { ...remote, ...server },
    { ...remote, ROLLCALL_HTTP_HOSTS: "https://rollcall.example.com" },
    { ...remote, ROLLCALL_ALLOW_PLAINTEXT: "http" },
    { ...remote, ROLLCALL_HTTP_HOST: "127.0.0.1" }
  ])(
    "with %o have no fault",
    (variables) => Effect.map(faultsOf(variables), (faults) => assert.deepStrictEqual(faults, []))
  )

  it.effect("are two tokens, hosts with https:// if a proxy terminates TLS, and the name to listen on", () =>
    Effect.gen(function*() {
      const { hosts, readToken, token } = yield* httpOf({
        ROLLCALL_HTTP_TOKEN: long,
        ROLLCALL_HTTP_READ_TOKEN: other,
        ROLLCALL_HTTP_HOST: "rollcall.internal",
        ROLLCALL_HTTP_HOSTS: "Rollcall:8477, https://rollcall.example.com/"
      })
      assert.deepStrictEqual([token, readToken].map((one) => one?.initial.map(Redacted.value)), [[long], [other]])
      assert.deepStrictEqual(hosts, [
        { name: "rollcall:8477", https: false },
        { name: "rollcall.example.com", https: true },
        { name: "rollcall.internal", https: false }
      ])
    }))

  it.effect("name the certificates of the server and of its clients, and the one of commands", () =>
    Effect.gen(function*() {
      const client = { certFile: "/tls/own.pem", keyFile: "/tls/own.key" }
      assert.deepStrictEqual((yield* httpOf({ ...server, ...clients, ...own })).tls, {
        certFile: "/tls/cert.pem",
        keyFile: "/tls/key.pem",
        clientCaFile: "/tls/clients.pem",
        client
      })
      const command = Config.checkHttpClient(yield* load({ ...own, ROLLCALL_HTTP_TLS_CA_FILE: "/tls/ca.pem" }))
      assert.deepStrictEqual(Result.getOrThrow(command).tls, { certFile: null, caFile: "/tls/ca.pem", client })
      const unused = Config.checkHttpClient(yield* load(own))
      assert.match(
        Result.isFailure(unused) ? unused.failure.message : "",
        /ROLLCALL_HTTP_TLS_CA_FILE: is not set, so commands do not/
      )
    }))

  it.effect("a command does not send its token unencrypted to another machine", () =>
    Effect.gen(function*() {
      const succeeds = (variables: Record<string, string>) =>
        Effect.map(load({ ROLLCALL_HTTP_TOKEN: long, ...variables }), (raw) =>
          Result.isSuccess(Config.checkHttpClient(raw)))
      const remote = { ROLLCALL_HTTP_HOST: "rollcall.internal" }
      assert.isFalse(yield* succeeds(remote))
      assert.isTrue(yield* succeeds({ ...remote, ROLLCALL_HTTP_TLS_CA_FILE: "/tls/ca.pem" }))
      assert.isTrue(yield* succeeds({ ...remote, ROLLCALL_ALLOW_PLAINTEXT: "http" }))
      assert.isTrue(yield* succeeds({ ROLLCALL_HTTP_HOST: "0.0.0.0" }))
    }))

  it.effect("commands send the operate token, or the read token if only that is set", () =>
    Effect.gen(function*() {
      const tokenOf = (variables: Record<string, string>) =>
        Effect.map(load({ ...open, ...variables }), (raw) =>
          Result.map(Config.checkHttpClient(raw), ({ token }) => token && Redacted.value(token)))
      assert.deepStrictEqual(yield* tokenOf({ ROLLCALL_HTTP_READ_TOKEN: other }), Result.succeed(other))
      assert.deepStrictEqual(
        yield* tokenOf({ ROLLCALL_HTTP_TOKEN: long, ROLLCALL_HTTP_READ_TOKEN: other }),
        Result.succeed(long)
      )
      assert.isTrue(Result.isFailure(yield* tokenOf({})))
    }))

  it.effect("a command does not send a token that a header cannot carry, and names its variable without quoting it (I11)", () =>
    Effect.gen(function*() {
      for (const name of ["ROLLCALL_HTTP_TOKEN", "ROLLCALL_HTTP_READ_TOKEN"]) {
        const result = Config.checkHttpClient(yield* load({ ...open, [name]: `${long}…` }))
        const faults = Result.isFailure(result) ? result.failure.faults : []
        assert.deepStrictEqual(faults.map(({ where }) => where), [name])
        assert.notInclude(JSON.stringify(faults), long)
      }
    }))

  it.effect("a token's file has the token and the previous one, and commands send the first (I11)", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "token")
      const variables = { ...open, ROLLCALL_HTTP_TOKEN_FILE: file }
      writeFileSync(file, `${long}\r\n${other}\n`)
      const { token } = yield* httpOf(variables)
      assert.deepStrictEqual(token?.initial.map(Redacted.value), [long, other])
      const sent = Result.getOrThrow(Config.checkHttpClient(yield* load(variables))).token
      assert.strictEqual(sent && Redacted.value(sent), long)
      const [clash] = yield* faultsOf({ ...variables, ROLLCALL_HTTP_READ_TOKEN: other })
      assert.strictEqual(clash, "ROLLCALL_HTTP_READ_TOKEN is the same as ROLLCALL_HTTP_TOKEN")
      const source = token?.file ?? assert.fail("the token is not in a file")
      assert.strictEqual(source.variable, "ROLLCALL_HTTP_TOKEN_FILE")
      const reread = Effect.map(source.read, (tokens) => tokens.map(Redacted.value))
      writeFileSync(file, `${other}\n`)
      assert.deepStrictEqual(yield* reread, [other])
      const unusable: ReadonlyArray<[content: string, reason: RegExp]> = [
        [" \n", /^ROLLCALL_HTTP_TOKEN_FILE names a file that is empty or cannot be read$/],
        [long.slice(1), /^ROLLCALL_HTTP_TOKEN_FILE is shorter than 32 characters, but/],
        [`${long}\n${other.slice(1)}`, /^ROLLCALL_HTTP_TOKEN_FILE is shorter than 32 characters, but/],
        [`${long} ${other}`, /^ROLLCALL_HTTP_TOKEN_FILE contains white space/],
        [`${long}\n${other}\n${long}`, /^ROLLCALL_HTTP_TOKEN_FILE contains 3 lines$/]
      ]
      for (const [content, reason] of unusable) {
        writeFileSync(file, content)
        const fault = yield* Effect.flip(reread)
        assert.match(fault.message, reason)
        assert.notInclude(JSON.stringify(fault), long.slice(1))
        if (content !== " \n") assert.match((yield* faultsOf(variables)).join(), /^ROLLCALL_HTTP_TOKEN /)
      }
      rmSync(file)
      assert.match((yield* Effect.flip(reread)).message, /is empty or cannot be read$/)
    }))
})
