import { assert, describe, it } from "@effect/vitest"
import { Exposition } from "./Exposition.ts"

const rows = { name: "rollcall_rows", description: "Rows, with a \\ and a\nline break" }
const age = { name: "rollcall_age_seconds", description: "Age" }
const work = { name: "rollcall_work_seconds_total", description: "Work", type: "counter" } as const

describe("the text of metrics", () => {
  it("has the lines of a metric together, after its description and type", () => {
    const out = new Exposition()
    out.set(rows, 1, { model: "ats.tag" })
    out.set(age, Infinity)
    out.set(rows, 0.5, { model: "ats.job", state: "ok" })
    out.set(age, -Infinity, { of: "x" })
    out.set(work, 2)
    assert.deepStrictEqual(out.text.split("\n"), [
      "# HELP rollcall_rows Rows, with a \\\\ and a\\nline break",
      "# TYPE rollcall_rows gauge",
      'rollcall_rows{model="ats.tag"} 1',
      'rollcall_rows{model="ats.job",state="ok"} 0.5',
      "# HELP rollcall_age_seconds Age",
      "# TYPE rollcall_age_seconds gauge",
      "rollcall_age_seconds +Inf",
      'rollcall_age_seconds{of="x"} -Inf',
      "# HELP rollcall_work_seconds_total Work",
      "# TYPE rollcall_work_seconds_total counter",
      "rollcall_work_seconds_total 2",
      ""
    ])
  })

  it("escapes the values of labels, so that no name of a plugin can add a line or a label", () => {
    const out = new Exposition()
    out.set(rows, 1, { plugin: 'a"b\\c\nd', handler: "m" })
    assert.strictEqual(out.text.split("\n")[2], 'rollcall_rows{plugin="a\\"b\\\\c\\nd",handler="m"} 1')
  })

  it("is empty without a series", () => assert.strictEqual(new Exposition().text, ""))
})
