import { assert, describe, it } from "vitest"
import { Api } from "./Api.ts"
import { findUnknownParameters, queryParametersOf } from "./UnknownParameters.ts"

const known = ["after", "limit", "integration", "model"]

describe("the parameters of a query", () => {
  it("are accepted if the endpoint has them, and if there are none", () => {
    for (const names of [[], ["after"], ["limit", "model"]]) {
      assert.isNull(findUnknownParameters(known, names), names.join())
    }
  })

  it("are refused if the endpoint does not have them, with the closest name and all names", () => {
    const problem = findUnknownParameters(known, ["limit", "modle", "x"])
    assert.strictEqual(problem?.detail, 'in the query: this endpoint has no parameter "modle" and 1 more')
    assert.strictEqual(problem?.hint, "did you mean `model`? The parameters are after, limit, integration, model")
    assert.deepStrictEqual(problem?.errors.map(({ path }) => path), [["query", "modle"], ["query", "x"]])
    assert.match(findUnknownParameters([], ["x"])?.hint ?? "", /no parameters/)
  })

  it("that name the record are refused with the parameter of the endpoint that takes its id", () => {
    for (const name of ["record", "record_id"]) {
      assert.match(findUnknownParameters(["before", "id"], [name])?.hint ?? "", /^did you mean `id`\?/)
    }
    assert.match(findUnknownParameters(["before", "limit"], ["record"])?.hint ?? "", /^did you mean `before`\?/)
  })

  it("are quoted only in part and not compared if their names are long, and listed only in part if they are many", () => {
    const long = "k".repeat(10_000)
    const problem = findUnknownParameters(known, [long])
    assert.isBelow(JSON.stringify(problem).length, 500)
    assert.notInclude(problem?.hint, "did you mean")
    const many = Array.from({ length: 1_000 }, (_, index) => `p${index}`)
    assert.isBelow(JSON.stringify(findUnknownParameters(known, many)).length, 1_500)
    assert.isNotNull(findUnknownParameters(known, ["__proto__", "constructor"]))
    assert.isNotNull(findUnknownParameters(known, ["\0"]))
  })

  it("are known for every endpoint of the contract", () => {
    for (const { endpoints } of Object.values(Api.groups)) {
      for (const endpoint of Object.values(endpoints)) {
        if (endpoint.query !== undefined) assert.isNotEmpty(queryParametersOf(endpoint), endpoint.path)
      }
    }
  })
})
