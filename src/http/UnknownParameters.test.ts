import { assert, describe, it } from "vitest"
import { Api } from "./Api.ts"
import { findUnknownParameters, queryParametersOf } from "./UnknownParameters.ts"

const known = ["after", "limit", "integration", "model"]

describe("the parameters of a query", () => {
  it("are accepted if the endpoint has them, also more than once, empty or without a query", () => {
    for (
      const url of ["/v1/events", "/v1/events?", "/v1/events?after=1&limit=&after=2", "/v1/events?m%6Fdel=ats.tag"]
    ) {
      assert.isNull(findUnknownParameters(known, url), url)
    }
  })

  it("are refused if the endpoint does not have them, with the closest name and all names", () => {
    const problem = findUnknownParameters(known, "/v1/events?limit=1&modle=ats.tag&x=1")
    assert.strictEqual(problem?.detail, 'in the query: this endpoint has no parameter "modle" and 1 more')
    assert.strictEqual(problem?.hint, "did you mean `model`? The parameters are after, limit, integration, model")
    assert.deepStrictEqual(problem?.errors.map(({ path }) => path), [["query", "modle"], ["query", "x"]])
    assert.match(findUnknownParameters([], "/health/live?x")?.hint ?? "", /no parameters/)
  })

  it("are quoted only in part and not compared if their names are long, and listed only in part if they are many", () => {
    const long = "k".repeat(10_000)
    const problem = findUnknownParameters(known, `/v1/events?${long}=1`)
    assert.isBelow(JSON.stringify(problem).length, 500)
    assert.notInclude(problem?.hint, "did you mean")
    const many = Array.from({ length: 1_000 }, (_, index) => `p${index}=1`).join("&")
    assert.isBelow(JSON.stringify(findUnknownParameters(known, `/v1/events?${many}`)).length, 1_500)
    assert.isNotNull(findUnknownParameters(known, "/v1/events?__proto__=1&constructor=2"))
    assert.isNotNull(findUnknownParameters(known, "/v1/events?%00=1"))
  })

  it("are known for every endpoint of the contract", () => {
    for (const { endpoints } of Object.values(Api.groups)) {
      for (const endpoint of Object.values(endpoints)) {
        if (endpoint.query !== undefined) assert.isNotEmpty(queryParametersOf(endpoint), endpoint.path)
      }
    }
  })
})
