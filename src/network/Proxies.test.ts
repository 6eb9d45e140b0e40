import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import { describe as shown, noProxies, type Proxies, proxyFor } from "./Proxies.ts"

const both: Proxies = {
  http: Redacted.make("http://plain:3128/"),
  https: Redacted.make("http://user:s3cret@secure:3128/"),
  except: []
}
const way = (url: string, except: ReadonlyArray<string> = [], proxies = both) => {
  const proxy = proxyFor(url, { ...proxies, except })
  return proxy === null ? "directly" : shown(proxy)
}

describe("a request", () => {
  it("goes through the proxy for the scheme of its address, which is shown without its login", () => {
    assert.strictEqual(way("http://api.example.com/v1"), "http://plain:3128")
    assert.strictEqual(way("https://api.example.com/v1"), "http://secure:3128")
    assert.strictEqual(way("https://api.example.com/v1", [], { ...both, https: null }), "directly")
    assert.strictEqual(way("https://api.example.com/v1", [], noProxies), "directly")
  })

  it("to a loopback address never goes through a proxy", () => {
    for (const host of ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "[::1]", "127.1"]) {
      assert.strictEqual(way(`http://${host}:8477/`), "directly", host)
    }
  })

  for (
    const [entry, excepted, others] of [
      ["*", ["https://api.example.com", "https://10.0.0.1"], []],
      ["example.com", ["https://example.com", "https://api.EXAMPLE.com", "https://example.com./"], [
        "https://notexample.com",
        "https://example.com.org"
      ]],
      [".example.com", ["https://example.com", "https://api.example.com"], ["https://notexample.com"]],
      ["*.Example.com", ["https://api.example.com"], ["https://example.org"]],
      ["example.com:443", ["https://example.com"], ["https://example.com:8443", "http://example.com"]],
      ["10.1.2.3", ["http://10.1.2.3:80", "https://10.1.2.3"], ["http://10.1.2.30", "http://10.1.2.3.example.com"]],
      ["10.1.2.3:8080", ["http://10.1.2.3:8080"], ["http://10.1.2.3"]],
      ["10.0.0.0/8", ["http://10.255.0.1"], ["http://11.0.0.1", "http://[fd00::1]", "http://a.example.com"]],
      ["fd00::/8", ["http://[fd12::1]"], ["http://[fe80::1]", "http://10.0.0.1"]],
      ["fd00::1", ["http://[fd00:0::1]:8080"], ["http://[fd00::2]"]],
      ["[fd00::1]:8080", ["http://[fd00::1]:8080"], ["http://[fd00::1]"]],
      ["10.0.0.0/99", [], ["http://10.0.0.1"]],
      ["", [], ["http://10.0.0.1", "https://example.com"]]
    ] as const
  ) {
    it(`with the exception "${entry}" goes directly to the servers that it names, and to no other`, () => {
      for (const url of excepted) assert.strictEqual(way(url, [entry]), "directly", url)
      for (const url of others) assert.notStrictEqual(way(url, [entry]), "directly", url)
    })
  }
})
