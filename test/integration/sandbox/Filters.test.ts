/** Checks every filter of every list over HTTP against the records themselves. */
import { assert, describe, it } from "@effect/vitest"
import { type IncrementalModel, incrementalModels, lists, timeFilters } from "../../../src/api/Lists.ts"
import { withSandbox } from "./Client.ts"

type Shown = Readonly<Record<string, unknown>>

/** Filter → the path in a record that holds its value. */
const valuePaths: Readonly<Record<string, ReadonlyArray<string>>> = {
  outcome: ["outcome"],
  outcomes: ["outcome"],
  job_ids: ["job_id"],
  job_remote_ids: ["job", "remote_id"],
  current_stage_ids: ["current_stage_id"],
  candidate_ids: ["candidate_id"],
  application_ids: ["application_id"],
  employee_ids: ["employee", "id"],
  payrun_ids: ["pay_run", "id"],
  legal_entity_ids: ["pay_run", "legal_entity_id"],
  types: ["type"],
  review_cycle_ids: ["review_cycle", "id"],
  reviewee_ids: ["reviewee", "id"],
  model_types: ["model_type"],
  statuses: ["status"],
  ids: ["id"],
  remote_ids: ["remote_id"]
}
const valueAt = (record: Shown, filter: string): unknown =>
  (valuePaths[filter] ?? []).reduce<unknown>((inner, name) => (inner as Shown | null)?.[name], record)

const filtersOf = (model: IncrementalModel): ReadonlyArray<string> =>
  ["ids", "remote_ids", ...lists[model].filters].filter((filter) =>
    filter !== "name_contains" && !timeFilters.includes(filter)
  )

describe("filters", () => {
  it.live.each(incrementalModels)(
    "of %s select records with one of the values; an empty filter selects all (U33)",
    (model) =>
      withSandbox({}, async ({ get }) => {
        const read = async (query: string) =>
          (await get(`${lists[model].path}?page_size=250&include_deleted=true&${query}`)).json.data.results
        const all = await read("")
        for (const filter of filtersOf(model)) {
          const values: ReadonlyArray<unknown> = [...new Set(all.map((record) => valueAt(record, filter)))].filter((
            value
          ) => value != null)
          const chosen = values.slice(0, 2)
          const wanted = all.filter((record) => chosen.includes(valueAt(record, filter)))
          assert.isNotEmpty(wanted, filter)
          assert.sameDeepMembers([...await read(`${filter}=${chosen.join()}`)], wanted, filter)
          assert.lengthOf(await read(`${filter}=`), all.length, filter)
        }
      })
  )

  it.live.each(incrementalModels)("of %s combine with AND (U34)", (model) =>
    withSandbox({}, async ({ get }) => {
      const read = async (query: string) =>
        (await get(`${lists[model].path}?page_size=250&include_deleted=true&${query}`)).json.data.results
      const [first, second] = await read("")
      assert.lengthOf(await read(`ids=${first?.["id"]}&remote_ids=${first?.["remote_id"]}`), 1)
      assert.lengthOf(await read(`ids=${first?.["id"]}&remote_ids=${second?.["remote_id"]}`), 0)
      assert.lengthOf(await read(`ids=${first?.["id"]}&updated_after=2090-01-01`), 0)
      for (const filter of filtersOf(model).filter((filter) => filter !== "ids")) {
        assert.lengthOf(await read(`ids=${first?.["id"]}&${filter}=${valueAt(first as Shown, filter)}`), 1, filter)
      }
    }))

  it.live("of legal entities match part of the name, ignoring case (U35)", () =>
    withSandbox({}, async ({ get }) => {
      const read = async (query: string) => (await get(`/hris/legal-entities?${query}`)).json.data.results
      const all = await read("")
      const name = String(all[0]?.["name"])
      const wanted = all.filter((entity) => String(entity["name"]).includes(name.slice(1, 5)))
      assert.sameDeepMembers(
        [...await read(`name_contains=${encodeURIComponent(name.slice(1, 5).toUpperCase())}`)],
        wanted
      )
      assert.lengthOf(await read("name_contains=Qqq"), 0)
    }))

  it.live("of applications by the time of their creation take a day or a time, and reject anything else (U33)", () =>
    withSandbox({}, async ({ get }) => {
      const read = (value: string) => get(`/ats/applications?page_size=250&remote_created_after=${value}`)
      const createdAt = (row: Shown) => String(row["remote_created_at"])
      const all = [...(await get("/ats/applications?page_size=250")).json.data.results].sort((a, b) =>
        createdAt(a) < createdAt(b) ? -1 : 1
      )
      const middle = createdAt(all[Math.floor(all.length / 2)] as Shown)
      for (const value of [middle, middle.slice(0, 10)]) {
        const wanted = all.filter((row) => createdAt(row) >= value)
        assert.sameDeepMembers([...(await read(value)).json.data.results], wanted, value)
      }
      for (const wrong of ["2026-02-30", "", "yesterday", `${middle},${middle}`]) {
        assert.strictEqual((await read(wrong)).status, 400, wrong)
      }
    }))

  it.live.each(incrementalModels)(
    "hide the deleted records of %s by default, and show them on request (U36)",
    (model) =>
      withSandbox({}, async ({ control, get, handle: { integrations, world } }) => {
        const [integration = ""] = integrations
        const [id] = world.ids(integration, model)
        await control("POST", "/mutations", { op: "delete", integration, model, id })
        const read = async (query: string) => (await get(`${lists[model].path}?ids=${id}${query}`)).json.data.results
        assert.deepStrictEqual([await read(""), await read("&include_deleted=false")], [[], []])
        const [deleted] = await read("&include_deleted=true")
        assert.match(String(deleted?.["remote_deleted_at"]), /Z$/)
        const since = String(deleted?.["changed_at"])
        assert.lengthOf(await read(`&updated_after=${since}`), 0)
        assert.lengthOf(await read(`&include_deleted=true&updated_after=${since}`), 1)
      })
  )
})
