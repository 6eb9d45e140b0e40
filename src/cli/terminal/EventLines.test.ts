import { assert, describe, it } from "@effect/vitest"
import { stripVTControlCharacters } from "node:util"
import { eventLine, eventLines, type EventView, lagOf } from "./EventLines.ts"
import { progressLine } from "./Tables.ts"

const event = (part: Partial<EventView>): EventView => ({
  model: "ats.application",
  id: "BCtNL7SMpJvCqP7bV2yiUKBC",
  version: 3,
  kind: "updated",
  origin: "poll",
  before: { changed_at: "2026-01-01T00:00:00.000Z" },
  after: { candidate: { first_name: "Ada", last_name: "Lovelace" } },
  changes: [],
  transitions: [],
  reason: null,
  restored: false,
  changed_at: "2026-01-01T10:00:00.000Z",
  detected_at: "2026-01-01T10:00:01.200Z",
  ...part
})

const shown = (part: Partial<EventView>) => stripVTControlCharacters(eventLine(event(part))).split(/ {2,}/).slice(1)

describe("Screen", () => {
  it("an event that a plugin caused names the plugin", () => {
    const cause = { plugin: "stage-tags", delivery: "1", depth: 1, paths: [""] }
    assert.deepStrictEqual(shown({ kind: "created", cause }).slice(2), ["created", "v3", "+1.2 s", "by stage-tags"])
  })

  it("a move between stages shows their names, the version and the delay", () => {
    const stage = (id: string, name: string) => ({
      current_stage: { id, name },
      candidate: { first_name: "Ada", last_name: "Lovelace" }
    })
    assert.deepStrictEqual(
      shown({
        before: stage("1", "Screening"),
        after: stage("2", "Interview"),
        transitions: [{ name: "stage_changed", from: "1", to: "2" }]
      }),
      ["ats.application", "Ada L.", "Screening → Interview", "v3", "+1.2 s"]
    )
  })

  it("a changed field shows both values, and an array item is shown without its id", () => {
    const change = (path: string, before: unknown, after: unknown) => shown({ changes: [{ path, before, after }] })[2]
    assert.strictEqual(change("/company", "A", "B"), "company A → B")
    assert.strictEqual(change("/interviews/WKJ3yP4hv1CDH5xyMrtB1MBL/title", "A", null), "interviews title A → –")
    assert.strictEqual(change("/interviews/PLEDmHJxdLUDNYXKMyjFAsru", null, { id: "x" }), "interviews added")
    assert.strictEqual(change("/offers/hb5T2SywyPeBJw8gsSbQjTWg", null, { id: "x" }), "offers added")
    assert.strictEqual(change("/offers/hb5T2SywyPeBJw8gsSbQjTWg", { id: "x" }, null), "offers removed")
  })

  it("long values are cut around their first difference", () => {
    const change = (before: string, after: string) => shown({ changes: [{ path: "/description", before, after }] })[2]
    const same = "Delivers reliably and helps others to do the same."
    assert.strictEqual(change(`${same} Yes.`, `${same} No.`), "description …e same. Yes. → …e same. No.")
    assert.strictEqual(
      change(`A ${same}`, `B ${same}`),
      "description A Delivers reliably and helps o… → B Delivers reliably and helps o…"
    )
    assert.strictEqual(change(same, `${same} More.`), "description …he same. → …he same. More.")
  })

  it("equal changes of several records are one line, where the first of them was", () => {
    const renamed = (id: string, after = "Lyon (new)") =>
      event({
        id,
        model: "hris.staffing_entity",
        changes: [{ path: "/name", before: "Lyon", after }],
        changed_at: null
      })
    const lines = eventLines([
      event({ id: "first" }),
      renamed("a"),
      event({ id: "second" }),
      renamed("b"),
      renamed("c"),
      renamed("d", "Lyon (old)"),
      renamed("e", "Lyon (old)")
    ]).map((each) => stripVTControlCharacters(each).split(/ {2,}/).slice(2, 4).join(" "))
    assert.deepStrictEqual(lines, [
      "Ada L. changed",
      "3 records name Lyon → Lyon (new)",
      "Ada L. changed",
      "Ada L. name Lyon → Lyon (old)",
      "Ada L. name Lyon → Lyon (old)"
    ])
  })

  it("several changes of one record are not folded", () => {
    assert.lengthOf(eventLines([event({ version: 1 }), event({ version: 2 }), event({ version: 3 })]), 3)
  })

  it("a delete shows its reason and the name of the record before", () => {
    const before = { name: "on hold", changed_at: null }
    assert.deepStrictEqual(shown({ kind: "deleted", before, after: null, reason: "flagged", changed_at: null }), [
      "ats.application",
      "on hold",
      "deleted (flagged)",
      "v3"
    ])
  })

  it("a record without a name is shown by its id, and a long name is truncated", () => {
    assert.strictEqual(shown({ after: {} })[1], "BCtNL7SMpJvCqP7bV2yiUKBC")
    assert.strictEqual(shown({ after: { name: "x".repeat(80) } })[1], `${"x".repeat(23)}…`)
  })

  it("the delay is shown only if changed_at moved and the event is not from a backfill", () => {
    assert.closeTo(lagOf(event({})) ?? NaN, 1.2, 0.001)
    assert.isNull(lagOf(event({ origin: "backfill" })))
    assert.isNull(lagOf(event({ changed_at: null })))
    assert.isNull(lagOf(event({ changed_at: "2026-01-01T00:00:00.000Z" })))
    assert.closeTo(lagOf(event({ changed_at: "2026-01-01T12:00:00+02" })) ?? NaN, 1.2, 0.001)
    assert.isNull(lagOf(event({ changed_at: "soon" })))
  })

  it("progress shows records, rate and time left, and ends when every record is read", () => {
    assert.match(
      stripVTControlCharacters(progressLine("backfill", 2_000, 5_000, 2)),
      / 40 % {2}2,000 of 5,000 records {2}1,000\/s {2}3 s left$/
    )
    assert.match(stripVTControlCharacters(progressLine("backfill", 0, 5_000, 0)), / 0 % .* starting$/)
    for (
      const [elapsed, left] of [[200, "3 min 20 s"], [3_599.2, "1 h 0 min"], [18_720, "5 h 12 min"], [
        273_600,
        "3 d 4 h"
      ]] as const
    ) {
      assert.include(stripVTControlCharacters(progressLine("backfill", 100, 200, elapsed)), ` ${left} left`)
    }
    assert.match(stripVTControlCharacters(progressLine("backfill", 5_000, 5_000, 4)), /100 % .* done$/)
    assert.match(stripVTControlCharacters(progressLine("backfill", 0, 0, 0)), /100 % .* done$/)
  })
})
