import { assert, describe, it } from "@effect/vitest"
import { toolOf } from "../../api/Tools.ts"
import { Account } from "./Account.ts"
import { allowedMethods, endpointOf, endpoints } from "./Endpoints.ts"

describe("the rate limit", () => {
  it("gives each window the same budget, starting with the first request in it", () => {
    const account = new Account()
    account.set({ rateLimit: { requests: 2, seconds: 10 } })
    const at = (now: number) => {
      const { exceeded, headers, reset } = account.countRequest(now)
      return [exceeded, headers["ratelimit-remaining"], reset]
    }
    assert.deepStrictEqual(at(1000), [false, "1", 10])
    assert.deepStrictEqual(at(5001), [false, "0", 6])
    assert.deepStrictEqual(at(10_999), [true, "0", 1])
    assert.deepStrictEqual(at(11_000), [false, "1", 10])
  })
})

describe("the concurrency limit", () => {
  it("takes no slot for a rejected request, and releases each slot", () => {
    const account = new Account()
    account.set({ concurrencyLimit: 2 })
    const remaining = () => account.acquireSlot("a:b")
    const [one, two, three] = [remaining(), remaining(), remaining()]
    assert.deepStrictEqual([one, two, three].map(({ exceeded }) => exceeded), [false, false, true])
    assert.deepStrictEqual([one, two, three].map(({ headers }) => headers["concurrency-remaining"]), [..."100"])
    assert.isFalse(account.acquireSlot("c:d").exceeded)
    three.release()
    assert.isTrue(account.acquireSlot("a:b").exceeded)
    two.release()
    assert.isFalse(account.acquireSlot("a:b").exceeded)
  })
})

describe("settings", () => {
  it("are looked up by own property names only", () => {
    const account = new Account()
    account.set({ unavailable: { greenhouse: ["addTag"] }, unsupportedFilters: {} })
    assert.isFalse(account.hasEndpoint("greenhouse", endpointOf("addTag")))
    assert.isTrue(account.hasEndpoint("lever", endpointOf("addTag")))
    assert.isTrue(account.hasEndpoint("constructor", endpointOf("addTag")))
    assert.deepStrictEqual(account.unsupportedFilters("toString"), [])
  })
})

describe("the table of endpoints", () => {
  it("has 27 endpoints, each once, and finds the methods of a path", () => {
    assert.lengthOf(endpoints, 27)
    assert.strictEqual(new Set(endpoints.map(({ method, path }) => `${method} ${path}`)).size, 27)
    assert.deepStrictEqual(allowedMethods("/v1/hris/employees/form"), ["GET", "POST"])
    assert.deepStrictEqual(allowedMethods("/v1/ats/candidates/x/tags"), ["POST", "DELETE"])
    assert.deepStrictEqual(allowedMethods("/v1/ats/candidates/x/y/tags"), [])
    assert.strictEqual(toolOf("greenhouse:acme:eu"), "greenhouse")
  })
})
