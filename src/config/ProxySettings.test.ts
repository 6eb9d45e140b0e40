import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { faultsOf, settingsOf } from "../../test/support/config/Checked.ts"
import { proxyFor } from "../network/Proxies.ts"

/** The proxies of requests to https, of the account and of everything else. */
const proxiesOf = (variables: Readonly<Record<string, string>>, file?: object) =>
  Effect.map(settingsOf(variables, file), ({ accounts, proxies }) => {
    const own = accounts["default"]?.proxies ?? proxies
    return [own, proxies].map((each) => {
      const proxy = proxyFor("https://api.example.com", each)
      return proxy === null ? null : Redacted.value(proxy)
    })
  })

describe("the proxy", () => {
  it.effect.each(
    [
      [{}, null],
      [{ HTTP_PROXY: "http://proxy:3128" }, null],
      [{ HTTPS_PROXY: "http://proxy:3128" }, "http://proxy:3128/"],
      [{ HTTPS_PROXY: "http://upper:1", https_proxy: "http://lower:1" }, "http://lower:1/"],
      [{ HTTPS_PROXY: "proxy.example.com:3128" }, "http://proxy.example.com:3128/"],
      [{ HTTPS_PROXY: "user:p%40ss@proxy:3128" }, "http://user:p%40ss@proxy:3128/"],
      [{ HTTPS_PROXY: "https://proxy" }, "https://proxy/"],
      [{ HTTPS_PROXY: "http://proxy:3128", NO_PROXY: "localhost,.example.com" }, null],
      [{ HTTPS_PROXY: "http://proxy:3128", NO_PROXY: "example.com", no_proxy: "other" }, "http://proxy:3128/"]
    ] as const
  )(
    "for https with %o is %s",
    ([variables, proxy]) =>
      Effect.map(proxiesOf(variables), (proxies) => assert.deepStrictEqual(proxies, [proxy, proxy]))
  )

  it.effect("of an account takes precedence over that of the environment and its exceptions, or switches it off", () =>
    Effect.gen(function*() {
      const environment = { HTTPS_PROXY: "http://all:1", NO_PROXY: "*.example.org" }
      assert.deepStrictEqual(yield* proxiesOf({ ...environment, ROLLCALL_API_PROXY: "http://u:p@own:2" }), [
        "http://u:p@own:2/",
        "http://all:1/"
      ])
      assert.deepStrictEqual(yield* proxiesOf({ ...environment, ROLLCALL_API_PROXY: "none" }), [null, "http://all:1/"])
      const inFile = (proxy: string) => proxiesOf(environment, { accounts: { default: { proxy } } })
      assert.deepStrictEqual(yield* inFile("own:2"), ["http://own:2/", "http://all:1/"])
      assert.deepStrictEqual(yield* inFile("none"), [null, "http://all:1/"])
    }))

  it.effect("that cannot be used is a mistake, which quotes no part of the address", () =>
    Effect.gen(function*() {
      for (
        const text of [
          "socks5://user:p4ss@proxy:1080",
          "http://user:p4ss%@proxy:3128",
          "http://user:p4ss@",
          "http://user:p4ss@proxy:3128/path"
        ]
      ) {
        const [fault] = yield* faultsOf({ HTTPS_PROXY: text })
        assert.strictEqual(fault?.where, "HTTPS_PROXY")
        assert.match(fault?.message ?? "", /is not the address of an HTTP proxy|has a login that cannot be decoded/)
        assert.notInclude(JSON.stringify(fault), "p4ss")
      }
      const [fault] = yield* faultsOf({}, { accounts: { default: { proxy: "http://user:p4ss@proxy:3128" } } })
      assert.deepInclude(fault, {
        where: "rollcall.config.ts, accounts.default.proxy",
        message: "contains a login"
      })
      assert.include(fault?.hint, "secret(")
      assert.notInclude(JSON.stringify(fault), "p4ss")
    }))
})
