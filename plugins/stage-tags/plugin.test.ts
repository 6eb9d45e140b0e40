/** Tags of candidates that follow the stages of their applications. */
import * as Testing from "#testing"
import { assert, describe, it } from "@effect/vitest"
import plugin from "./plugin.ts"

const applied = { id: "st1", name: "Applied" }
const interview = { id: "st2", name: "Interview" }
type Stage = typeof applied

const tags = (...names: ReadonlyArray<string>) => names.map((name) => ({ id: `tag-${name}`, name }))
const at = (id: string, stage: Stage, more: object = {}) => ({
  id,
  candidate_id: "c1",
  outcome: "PENDING",
  current_stage_id: stage.id,
  current_stage: stage,
  candidate: { id: "c1", tags: tags("vip") },
  ...more
})
const moved = (id: string, from: Stage, to: Stage, before: ReadonlyArray<string> = [], version = 2) => {
  const candidate = { id: "c1", tags: tags("vip", ...before) }
  return Testing.event("ats.application.updated", {
    version,
    before: at(id, from, { candidate }),
    after: at(id, to, { candidate })
  })
}
const liveTags = (testing: Testing.Testing, application = "a1") =>
  testing.live("ats.application", application)?.candidate?.tags?.map(({ name }) => name).sort()
const writesOf = ({ writes }: Testing.Result) =>
  writes.map((done) =>
    done.write === "addTag" || done.write === "removeTag" ? `${done.write} ${done.body.tag.name}` : "?"
  )

describe("stage-tags", () => {
  it("a new application's candidate is tagged, and not again for a stage with the same tag", async () => {
    const testing = Testing.make(plugin)
    const run = await testing.deliver(Testing.event("ats.application.created", { after: at("a1", applied) }))
    assert.deepStrictEqual(writesOf(run), ["addTag Stage: Applied"])
    const candidate = { id: "c1", tags: tags("vip", "Stage: Applied") }
    const renamed = Testing.event("ats.application.updated", {
      before: at("a1", applied, { candidate }),
      after: at("a1", { ...applied, id: "st9" }, { candidate })
    })
    assert.deepStrictEqual(writesOf(await testing.deliver(renamed)), [])
  })

  it("a move to another stage changes the stage tag and no other tag", async () => {
    const testing = Testing.make(plugin)
    const run = await testing.deliver(moved("a1", applied, interview, ["Stage: Applied"]))
    assert.deepStrictEqual(writesOf(run), ["addTag Stage: Interview", "removeTag Stage: Applied"])
    assert.deepStrictEqual(liveTags(testing), ["Stage: Interview", "vip"])
  })

  it("the tag is removed when the application is hired, declined or deleted", async () => {
    const before = at("a1", applied, { candidate: { id: "c1", tags: tags("vip", "Stage: Applied") } })
    for (const outcome of ["HIRED", "DECLINED"]) {
      const closed = Testing.event("ats.application.updated", { before, after: { ...before, outcome } })
      assert.deepStrictEqual(writesOf(await Testing.make(plugin).deliver(closed)), ["removeTag Stage: Applied"])
    }
    const deleted = Testing.event("ats.application.deleted", { before })
    assert.deepStrictEqual(writesOf(await Testing.make(plugin).deliver(deleted)), ["removeTag Stage: Applied"])
  })

  it("the tag of a stage stays while another application of the candidate is in that stage", async () => {
    const candidate = { id: "c1", tags: tags("Stage: Applied") }
    const other = at("a2", applied, { candidate })
    const testing = Testing.make(plugin, { records: [Testing.record("ats.application", other)] })
    assert.deepStrictEqual(writesOf(await testing.deliver(moved("a1", applied, interview, ["Stage: Applied"]))), [
      "addTag Stage: Interview"
    ])
    const both = at("a2", applied, { candidate: { id: "c1", tags: tags("Stage: Applied", "Stage: Interview") } })
    const left = Testing.event("ats.application.updated", { before: both, after: { ...both, outcome: "DECLINED" } })
    assert.deepStrictEqual(writesOf(await testing.deliver(left)), ["removeTag Stage: Applied"])
  })

  it("both candidates are updated when an application moves from one to the other", async () => {
    const before = at("a1", applied, { candidate: { id: "c1", tags: tags("Stage: Applied") } })
    const after = at("a1", applied, { candidate_id: "c2", candidate: { id: "c2", tags: [] } })
    const run = await Testing.make(plugin).deliver(Testing.event("ats.application.updated", { before, after }))
    assert.deepStrictEqual(run.writes.map(({ id, write }) => [write, id]), [["removeTag", "c1"], ["addTag", "c2"]])
  })

  it("a table maps stages by name or id; stages may share a tag or have none", async () => {
    const table = plugin.with({ values: { STAGE_TAGS_TABLE: { Applied: "new", st2: "talking" } } })
    const run = await Testing.make(table).deliver(moved("a1", applied, interview, ["new", "Stage: Applied"]))
    assert.deepStrictEqual(writesOf(run), ["addTag talking", "removeTag new"])
    const nowhere = moved("a1", interview, { id: "st3", name: "Offer" }, ["talking"])
    assert.deepStrictEqual(writesOf(await Testing.make(table).deliver(nowhere)), ["removeTag talking"])
  })

  it("a change of tags alone, by this plugin or by others, is not delivered (L1)", async () => {
    const before = at("a1", applied)
    const after = { ...before, candidate: { id: "c1", tags: tags("vip", "Stage: Applied") } }
    const run = await Testing.make(plugin).deliver(Testing.event("ats.application.updated", { before, after }))
    assert.deepStrictEqual(run.deliveries, [])
  })

  it("a delete of a forgotten application, which has no content, changes nothing", async () => {
    const forgotten = Testing.event("ats.application.deleted", { reason: "forgotten" })
    assert.deepStrictEqual(writesOf(await Testing.make(plugin).deliver(forgotten)), [])
  })

  it("a deleted candidate is not changed", async () => {
    const candidate = { id: "c1", remote_deleted_at: "2026-01-01T00:00:00.000Z", tags: [] }
    const event = Testing.event("ats.application.created", { after: at("a1", applied, { candidate }) })
    assert.deepStrictEqual(writesOf(await Testing.make(plugin).deliver(event)), [])
  })

  it("the tags of an entered and a left stage are written, regardless of what the API shows (L2)", async () => {
    const offer = { id: "st3", name: "Offer" }
    // the API's list lags: it still shows the tag of the stage before the one that the application leaves
    const run = await Testing.make(plugin).deliver(moved("a1", interview, offer, ["Stage: Applied"], 3))
    assert.deepStrictEqual(writesOf(run), [
      "addTag Stage: Offer",
      "removeTag Stage: Applied",
      "removeTag Stage: Interview"
    ])
    const back = await Testing.make(plugin).deliver(moved("a1", interview, applied, ["Stage: Applied"], 3))
    assert.deepStrictEqual(writesOf(back), ["addTag Stage: Applied", "removeTag Stage: Interview"])
  })

  it("a tag that the API refuses to remove is checked for five minutes, then the delivery fails (L2)", async () => {
    const refused = (times: number): Testing.Setup => ({ faults: [{ on: "removeTag", fail: "Rejected", times }] })
    const event = moved("a1", applied, interview, ["Stage: Applied"])
    const still = await Testing.make(plugin, refused(1_000)).deliver(event)
    assert.propertyVal(still.failure, "refusal", "Rejected")
    assert.strictEqual(still.deliveries[0]?.attempts, 11)
    const late = await Testing.make(plugin, refused(9)).deliver(event)
    assert.deepStrictEqual([late.failure, late.deliveries[0]?.attempts], [null, 10])
    const denied: Testing.Setup = { faults: [{ on: "removeTag", fail: "Forbidden" }] }
    assert.strictEqual((await Testing.make(plugin, denied).deliver(event)).deliveries[0]?.attempts, 1)
  })

  it("after a crash at any point the tags are right, and only an unrecorded write is sent twice (L5)", async () => {
    const event = moved("a1", applied, interview, ["Stage: Applied"])
    const crashes = await Testing.make(plugin).crashes(event)
    assert.isAbove(crashes.length, 5)
    for (const { at, result } of crashes) {
      assert.isNull(result.failure, at)
      const sent = writesOf(result)
      assert.sameMembers([...new Set(sent)], ["addTag Stage: Interview", "removeTag Stage: Applied"], at)
      assert.strictEqual(sent.length, /^(add|remove)Tag: done, response not recorded$/.test(at) ? 3 : 2, at)
    }
  })
})
