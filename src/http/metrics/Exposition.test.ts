import { assert, describe, it } from "@effect/vitest"
import { Exposition, labelText } from "./Exposition.ts"

const rows = { name: "rollcall_rows", description: "Rows, with a \\ and a\nline break" }
const age = { name: "rollcall_age_seconds", description: "Age" }

describe("the text of gauges", () => {
  it("has the lines of a gauge together, after its description and type", () => {
    const out = new Exposition()
    out.set(rows, 1, labelText({ integration: "a:1", model: "ats.tag" }))
    out.set(age, Infinity)
    out.set(rows, 0.5, labelText({ integration: "a:2", model: "ats.tag" }))
    out.set(age, -Infinity, labelText({ of: "x" }))
    assert.deepStrictEqual(out.text.split("\n"), [
      "# HELP rollcall_rows Rows, with a \\\\ and a\\nline break",
      "# TYPE rollcall_rows gauge",
      'rollcall_rows{integration="a:1",model="ats.tag"} 1',
      'rollcall_rows{integration="a:2",model="ats.tag"} 0.5',
      "# HELP rollcall_age_seconds Age",
      "# TYPE rollcall_age_seconds gauge",
      "rollcall_age_seconds +Inf",
      'rollcall_age_seconds{of="x"} -Inf',
      ""
    ])
  })

  it("escapes the values of labels, so that no name of an integration can add a line or a label", () => {
    assert.strictEqual(labelText({ integration: 'a"b\\c\nd', model: "m" }), 'integration="a\\"b\\\\c\\nd",model="m"')
  })

  it("is empty without a series", () => assert.strictEqual(new Exposition().text, ""))
})
