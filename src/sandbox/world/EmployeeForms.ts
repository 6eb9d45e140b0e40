/**
 * The form for creating employees: the required fields, and how the staffing entity changes them.
 *
 * Gotchas
 * - With a staffing entity the form asks for the employee's place in it, and omits the fields that the entity determines.
 */
import type { EmployeeForm, FormField, UnifiedKey } from "../../api/Forms.ts"
import { isLive, type Records, type Row } from "./Records.ts"
import { toLabel } from "./SampleData.ts"

type Entry = readonly [id: string, label: string, unified: string]

/** The unified keys are those of the public TypeScript client, which rejects a form with any other. */
type About = readonly [label: string, required: boolean, unified: UnifiedKey | null, description: string]

const about = ([label, required, unified_key, description]: About) => ({ label, required, description, unified_key })

const text = (field: About, min_length: number, max_length: number, reg_exp: string | null = null): FormField => ({
  ...about(field),
  type: "text",
  min_length,
  max_length,
  reg_exp
})
const date = (field: About): FormField => ({ ...about(field), type: "date" })
const number = (field: About, min: number, max: number): FormField => ({ ...about(field), type: "number", min, max })
const object = (field: About, properties: Readonly<Record<string, FormField>>): FormField => ({
  ...about(field),
  type: "object",
  properties
})
const array = (field: About, item_type: FormField, min_items: number, max_items: number): FormField => ({
  ...about(field),
  type: "array",
  item_type,
  min_items,
  max_items
})
const select = (field: About, entries: ReadonlyArray<Entry>): FormField => ({
  ...about(field),
  type: "single_select",
  options: {
    type: "inline",
    entries: entries.map(([id, label, unified_value], i) => ({
      id,
      label,
      unified_value,
      remote_id: `option-${i + 1}`
    }))
  }
})

const contracts = ["FULL_TIME", "PART_TIME", "INTERNSHIP", "WORKING_STUDENT"]
const countries = ["DE", "FR", "GB", "SE", "US"]

const entryOf = (row: Row): Entry => [row.id, String(row.fields["name"]), row.id]

/** `staffingEntity`: the staffing entity the employee is created for, or null. */
export const employeeFormFor = (records: Records, staffingEntity: Row | null): EmployeeForm => {
  const options = (kind: string, values: ReadonlyArray<string>) =>
    values.map((value, i): Entry => [records.id(`form.${kind}`, i + 1), toLabel(value), value])
  const employers = staffingEntity?.many["legal_entities"] ?? records.rows("hris.legal_entity")
  return {
    properties: {
      first_name: text(["First name", true, "first_name", "As in the passport."], 1, 60),
      last_name: text(["Last name", true, "last_name", "As in the passport."], 1, 60),
      work_email: text(
        ["Work e-mail", true, "work_email", "Must be unique."],
        6,
        120,
        "^[^@\\s]+@[^@\\s]+\\.[a-z]{2,}$"
      ),
      start_date: date(["First day of work", true, "start_date", "A day of the calendar."]),
      weekly_hours: number(["Hours a week", false, null, "As agreed in the contract."], 1, 48),
      home_address: object(["Home address", false, null, "Where letters go."], {
        street: text(["Street", false, "home_address.street_1", "With the number."], 1, 120),
        city: text(["City", true, "home_address.city", "Without the postal code."], 1, 80),
        zip_code: text(
          ["Postal code", true, "home_address.zip_code", "Capitals and digits."],
          3,
          10,
          "^[0-9A-Z][0-9A-Z -]*$"
        ),
        country: select(
          ["Country", true, "home_address.country", "Where the address is."],
          options("country", countries)
        )
      }),
      cost_shares: array(
        ["Cost shares", false, null, "The share of each cost center, in percent."],
        number(["Share", true, null, "In percent."], 0, 100),
        1,
        4
      ),
      emergency_contacts: array(
        ["Emergency contacts", false, null, "The people to call in an emergency."],
        object(["Contact", true, null, "A person who can be reached."], {
          name: text(["Name", true, null, "First and last name."], 1, 120),
          phone: text(["Phone", true, null, "With the country's code."], 5, 20, "^\\+[0-9 ]+$")
        }),
        0,
        3
      ),
      ...(employers.some(isLive) && {
        legal_entity: select(
          ["Employer", false, "legal_entity_id", "The company that employs."],
          employers.filter(isLive).map(entryOf)
        )
      }),
      ...(staffingEntity === null
        ? {
          job_title: text(["Job title", true, "job_title", "As in the contract."], 2, 80),
          contract: select(
            ["Contract", true, null, "The kind of employment."],
            options("contract", contracts)
          )
        }
        : placementFields(staffingEntity))
    }
  }
}

const placementFields = (staffingEntity: Row): Readonly<Record<string, FormField>> => {
  const locations = (staffingEntity.many["locations"] ?? []).filter(isLive)
  return {
    probation_months: number(["Probation", true, null, "In months; 0 for none."], 0, 12),
    ...(locations.length > 0 && {
      work_location: select(
        ["Place of work", true, "location_id", "One of the locations of the staffing entity."],
        locations.map(entryOf)
      )
    }),
    ...(staffingEntity.fields["model_type"] === "REQUISITION" && {
      approval_number: text(["Approval", false, null, "Number of the approval."], 6, 6, "^R-[0-9]{4}$")
    })
  }
}
