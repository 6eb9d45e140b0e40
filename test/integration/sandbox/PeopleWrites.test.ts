import { assert, describe, it } from "@effect/vitest"
import type { EmployeeForm } from "../../../src/api/Forms.ts"
import { type Answer, type Client, mutate, pause, refused, row, since, succeeded, withSandbox } from "./Client.ts"

describe("POST /hris/employees/form", () => {
  const optionOf = (form: EmployeeForm, key: string): string => {
    const field = form.properties[key]
    return field?.type === "single_select" && "options" in field ? field.options?.entries?.[0]?.id ?? "" : ""
  }
  const ada = { first_name: "Ada", last_name: "King", work_email: "ada@work.example", start_date: "2031-01-01" }

  it.live("creates an employee from answers that match the form, once per work e-mail (U63)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const form = (await send("GET", "/hris/employees/form")).json.data as unknown as EmployeeForm
      const properties = {
        ...ada,
        job_title: "Analyst",
        contract: optionOf(form, "contract"),
        cost_shares: [60, 40],
        emergency_contacts: [{ name: "Annabella", phone: "+44 555 0199" }]
      }
      const answer = await send("POST", "/hris/employees/form", { properties })
      succeeded("createEmployee", answer)
      const employee = (await truth("hris.employee")).find(({ id }) => id === answer.json.data["id"])
      assert.deepInclude(employee, properties)
      assert.deepStrictEqual(await row(client, "/hris/employees", String(employee?.["id"])), employee)
      assert.deepInclude(answer.json.data, { remote_id: employee?.["remote_id"] })
      assert.match(String((answer.json.data["prehire"] as { remote_id: string }).remote_id), /^PRE-/)
      refused(await send("POST", "/hris/employees/form", { properties }), 409, "HRIS.EMPLOYEE_ALREADY_EXISTS")
      const placed = (await send("GET", `/hris/employees/form?staffing_entity_id=${ids.staffing_entity}`)).json
        .data as unknown as EmployeeForm
      succeeded(
        "createEmployee",
        await send("POST", "/hris/employees/form", {
          staffing_entity_id: ids.staffing_entity,
          properties: {
            ...ada,
            work_email: "ida@work.example",
            probation_months: 6,
            ...("work_location" in placed.properties && { work_location: optionOf(placed, "work_location") })
          }
        })
      )
    }))

  it.live("validates the form, and reports every violation at once (U64)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const before = await truth("hris.employee")
      const answer = await send("POST", "/hris/employees/form", {
        properties: {
          first_name: "",
          work_email: "no-address",
          start_date: "2026-02-30",
          weekly_hours: 60,
          home_address: { city: "Bern", zip_code: "?", country: "XX" },
          cost_shares: [1, 2, 3, 4, 101],
          emergency_contacts: [{ name: "A" }],
          job_title: 7,
          contract: "FULL_TIME",
          shoe_size: 43
        }
      })
      refused(answer, 400)
      for (
        const place of [
          "first_name",
          "last_name",
          "work_email",
          "start_date",
          "weekly_hours",
          "home_address/zip_code",
          "home_address/country",
          "cost_shares",
          "cost_shares/4",
          "emergency_contacts/0/phone",
          "job_title",
          "contract",
          "shoe_size"
        ]
      ) assert.include(answer.json.error.message, `properties/${place} `)
      const forPlace = { ...ada, probation_months: 3 }
      refused(await send("POST", "/hris/employees/form", { properties: forPlace }), 400)
      await mutate(client, {
        op: "update",
        model: "hris.staffing_entity",
        id: ids.staffing_entity,
        fields: { status: "CLOSED" }
      })
      refused(
        await send("POST", "/hris/employees/form", { staffing_entity_id: ids.staffing_entity, properties: forPlace }),
        409,
        "HRIS.STAFFING_ENTITY_CLOSED"
      )
      assert.deepStrictEqual(await truth("hris.employee"), before)
    }))
})

interface Skill {
  readonly id: string
  readonly proficiency_scale: {
    readonly id: string
    readonly type: string
    readonly min: number
    readonly max: number
    readonly step: number | null
    readonly ordered_options?: ReadonlyArray<{ readonly id: string }>
  }
}

/** One skill for each kind of proficiency scale. */
const skillsByScale = async ({ get }: Client) => {
  const skills = (await get("/hris/skills?page_size=250")).json.data.results as unknown as ReadonlyArray<Skill>
  const find = (fits: (scale: Skill["proficiency_scale"]) => boolean) =>
    skills.find(({ proficiency_scale }) => fits(proficiency_scale)) ?? assert.fail("no such scale")
  return {
    stepped: find(({ step, type }) => type === "NUMERIC" && step !== null),
    continuous: find(({ step, type }) => type === "NUMERIC" && step === null),
    chosen: find(({ type }) => type === "SINGLE_SELECT")
  }
}

describe("POST /hris/staffing-entities/{id}/skills", () => {
  it.live("attaches a skill, updates its expectation, and makes the unchanged staffing entity match (U65)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const known = await skillsByScale(client)
      /** A skill that no staffing entity has yet. */
      const newSkill = ({ proficiency_scale: { id } }: Skill) =>
        mutate(client, { op: "create", model: "hris.skill", links: { proficiency_scale: id } })
      const [stepped, continuous] = [await newSkill(known.stepped), await newSkill(known.continuous)]
      const path = `/hris/staffing-entities/${ids.staffing_entity}/skills`
      const { changed_at } = await row(client, "/hris/staffing-entities", ids.staffing_entity)
      const expected = async () =>
        ((await row(client, "/hris/staffing-entities", ids.staffing_entity))["skills"] as ReadonlyArray<
          { skill_id: string; expected_proficiency: unknown }
        >).filter(({ skill_id }) => [stepped, continuous].includes(skill_id))
          .map((entry) => [entry.skill_id, entry.expected_proficiency])
      const steps: ReadonlyArray<readonly [object, ReadonlyArray<unknown>]> = [
        [{ skill_id: stepped, expected_proficiency: 3 }, [[stepped, { type: "NUMERIC", value: 3 }]]],
        [{ skill_id: stepped, expected_proficiency: 4 }, [[stepped, { type: "NUMERIC", value: 4 }]]],
        [{ skill_id: stepped }, [[stepped, null]]],
        [{ skill_id: continuous, expected_proficiency: 0.125 }, [
          [stepped, null],
          [continuous, { type: "NUMERIC", value: 0.125 }]
        ]]
      ]
      for (const [body, skills] of steps) {
        const began = await pause()
        const answer = await send("POST", path, body)
        succeeded("expectSkill", answer)
        assert.deepInclude(answer.json.data, { staffing_entity_id: ids.staffing_entity })
        assert.deepStrictEqual(await expected(), skills)
        assert.deepStrictEqual(await since(client, "/hris/staffing-entities", began), [ids.staffing_entity])
        const later = await pause()
        succeeded("expectSkill", await send("POST", path, body))
        assert.deepStrictEqual(await since(client, "/hris/staffing-entities", later), [])
      }
      assert.strictEqual((await row(client, "/hris/staffing-entities", ids.staffing_entity))["changed_at"], changed_at)
    }))

  it.live("validates the expectation strictly against the scale of the skill (U66)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send } = client
      const { chosen, continuous, stepped } = await skillsByScale(client)
      const path = `/hris/staffing-entities/${ids.staffing_entity}/skills`
      const [option] = chosen.proficiency_scale.ordered_options ?? []
      const { max, min, step } = stepped.proficiency_scale
      for (const value of [min - 1, max + 1, min + (step ?? 1) / 2, "3", option?.id, null, true]) {
        refused(await send("POST", path, { skill_id: stepped.id, expected_proficiency: value }), 400)
      }
      for (const value of [1, "no option", "Beginner"]) {
        refused(await send("POST", path, { skill_id: chosen.id, expected_proficiency: value }), 400)
      }
      refused(await send("POST", path, { skill_id: continuous.id, expected_proficiency: 100.001 }), 400)
      refused(await send("POST", path, { skill_id: "none" }), 400)
      const answer = await send("POST", path, { skill_id: chosen.id, expected_proficiency: option?.id })
      succeeded("expectSkill", answer)
      assert.deepStrictEqual(answer.json.data["expected_proficiency"], {
        type: "SINGLE_SELECT",
        selected_option_id: option?.id
      })
    }))
})

describe("POST /hris/skill-proficiency-ratings", () => {
  it.live("overwrites the rating of the same source, and keeps it when only the skill is assigned again (U67)", () =>
    withSandbox({}, async (client) => {
      const { handle: { ids }, send, truth } = client
      const { chosen, stepped } = await skillsByScale(client)
      const [option] = chosen.proficiency_scale.ordered_options ?? []
      const rate = async (skill_id: string, rating?: object) => {
        const answer = await send("POST", "/hris/skill-proficiency-ratings", {
          employee_id: ids.employee,
          skill_id,
          ...(rating && { rating })
        })
        succeeded("rateSkill", answer)
        return answer.json.data
      }
      const first = await rate(stepped.id, { rating_source: "EXTERNAL", proficiency: 2 })
      const second = await rate(stepped.id, { rating_source: "EXTERNAL", proficiency: 5 })
      const own = await rate(stepped.id, { rating_source: "SELF", proficiency: 1 })
      assert.deepInclude(second, {
        id: first["id"],
        proficiency: { type: "NUMERIC", value: 5 },
        rating_source: "EXTERNAL",
        employee_id: ids.employee,
        skill_id: stepped.id
      })
      assert.match(String(first["rating_provider_id"]), /^[1-9A-HJ-NP-Za-km-z]{24}$/)
      assert.strictEqual(own["rating_provider_id"], first["rating_provider_id"])
      assert.notStrictEqual(own["id"], first["id"])
      assert.deepStrictEqual(await rate(stepped.id), second)
      assert.deepInclude(await rate(chosen.id), { proficiency: null })
      assert.deepInclude(await rate(chosen.id, { rating_source: "EXTERNAL", proficiency: option?.id }), {
        proficiency: { type: "SINGLE_SELECT", selected_option_id: option?.id }
      })
      assert.lengthOf(await truth("hris.rating"), 3)
      for (
        const wrong of [
          { employee_id: "none", skill_id: stepped.id },
          { employee_id: ids.employee, skill_id: "none" },
          { employee_id: ids.employee, skill_id: stepped.id, rating: { rating_source: "EXTERNAL", proficiency: 99 } },
          { employee_id: ids.employee, skill_id: stepped.id, rating: { proficiency: 1 } }
        ]
      ) refused(await send("POST", "/hris/skill-proficiency-ratings", wrong), 400)
      assert.lengthOf(await truth("hris.rating"), 3)
    }))
})

describe("PUT /assessment/packages", () => {
  it.live("replaces the whole list, and gives a new date only to changed packages (U68)", () =>
    withSandbox({}, async ({ send, truth }) => {
      const one = { id: "logic", type: "SKILLS_TEST", name: "Logic", description: "Riddles." }
      const two = { id: "talk", type: "VIDEO_INTERVIEW", name: "Talk", description: "Ten minutes." }
      const put = async (...packages: ReadonlyArray<object>) =>
        succeeded("replacePackages", await send("PUT", "/assessment/packages", { packages }))
      const packages = async () =>
        (await send("GET", "/assessment/packages")).json.data["packages"] as ReadonlyArray<Record<string, string>>
      await put(one, two)
      const first = await packages()
      assert.deepStrictEqual(
        first.map(({ description, id, name, type }) => ({ id, type, name, description })),
        [one, two]
      )
      await pause()
      await put(one, { ...two, name: "Long talk" })
      const second = await packages()
      assert.deepStrictEqual(second[0], first[0])
      assert.isAbove(Date.parse(second[1]?.["updated_at"] ?? ""), Date.parse(first[1]?.["updated_at"] ?? ""))
      await put(two)
      assert.deepStrictEqual((await packages()).map(({ id }) => id), ["talk"])
      refused(await send("PUT", "/assessment/packages", { packages: [one, one] }), 400)
      refused(await send("PUT", "/assessment/packages", { packages: [{ id: "x" }] }), 400)
      assert.lengthOf(await truth("assessment.package"), 1)
      await put()
      assert.deepStrictEqual(await packages(), [])
    }))
})

describe("POST /lms/courses/{id}/deactivate", () => {
  it.live("accepts the course's id or remote id, and changes the course once (U69)", () =>
    withSandbox({}, async ({ handle: { ids }, send, truth }) => {
      const [, second] = await truth("lms.course")
      const statuses = (data: Answer["json"]["data"]) =>
        (data["revisions"] as ReadonlyArray<{ status: string }>).map(({ status }) => status)
      assert.deepStrictEqual(statuses(second as never), ["ACTIVE"])
      const skills = new Set((await truth("hris.skill")).map(({ id }) => id))
      const taught = (second as { revisions: ReadonlyArray<{ skill_assignments: ReadonlyArray<{ skill: object }> }> })
        .revisions.flatMap(({ skill_assignments }) => skill_assignments.map(({ skill }) => skill as { id: string }))
      assert.isNotEmpty(taught)
      for (const { id } of taught) assert.isTrue(skills.has(id), id)
      const one = await send("POST", `/lms/courses/${ids.course}/deactivate`, {})
      const remote = encodeURIComponent(`remote:${second?.["remote_id"]}`)
      const two = await send("POST", `/lms/courses/${remote}/deactivate`, {})
      for (const answer of [one, two]) {
        succeeded("deactivateCourse", answer)
        assert.deepStrictEqual(statuses(answer.json.data), ["INACTIVE"])
      }
      assert.strictEqual(two.json.data["id"], second?.["id"])
      await pause()
      const again = await send("POST", `/lms/courses/${ids.course}/deactivate`, {})
      assert.deepStrictEqual(again.json.data, one.json.data)
      refused(await send("POST", "/lms/courses/remote:/deactivate", {}), 400)
      refused(await send("POST", `/lms/courses/remote:${ids.course}/deactivate`, {}), 404)
    }))
})
