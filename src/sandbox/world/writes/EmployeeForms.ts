/**
 * The form for creating employees. Hides which fields an integration requires, and how the staffing entity changes them.
 *
 * Gotchas
 * - With a staffing entity the form asks for the employee's place in it, and omits the fields that the entity determines.
 */
import type { EmployeeForm, FormField } from "../../../api/Forms.ts"
import { isLive, type Records, type Row } from "../Records.ts"

type Entry = readonly [id: string, label: string, unified: string | null]

const commonFields = (label: string, required: boolean, unified: string | null, description: string) => ({
  label,
  required,
  description,
  unified_key: unified
})
type CommonFields = ReturnType<typeof commonFields>

const text = (about: CommonFields, min: number, max: number, pattern: string | null = null): FormField => ({
  ...about,
  type: "text",
  min_length: min,
  max_length: max,
  reg_exp: pattern
})
const date = (about: CommonFields): FormField => ({ ...about, type: "date" })
const number = (about: CommonFields, min: number, max: number): FormField => ({ ...about, type: "number", min, max })
const object = (about: CommonFields, properties: Readonly<Record<string, FormField>>): FormField => ({
  ...about,
  type: "object",
  properties
})
const array = (about: CommonFields, item: FormField, min: number, max: number): FormField => ({
  ...about,
  type: "array",
  item_type: item,
  min_items: min,
  max_items: max
})
const select = (about: CommonFields, entries: ReadonlyArray<Entry>): FormField => ({
  ...about,
  type: "single_select",
  options: {
    type: "inline",
    entries: entries.map(([id, label, unified], i) => ({
      id,
      label,
      unified_value: unified,
      remote_id: `option-${i + 1}`
    }))
  }
})

const contracts = ["FULL_TIME", "PART_TIME", "INTERNSHIP", "WORKING_STUDENT"]
const countries = ["DE", "FR", "GB", "SE", "US"]

const toLabel = (value: string): string => value[0] + value.slice(1).toLowerCase().replaceAll("_", " ")
const entryOf = (row: Row): Entry => [row.id, String(row.fields["name"]), null]

/** `staffingEntity`: the staffing entity the employee is created for, or null. */
export const employeeFormFor = (records: Records, staffingEntity: Row | null): EmployeeForm => {
  const options = (kind: string, values: ReadonlyArray<string>) =>
    values.map((value, i): Entry => [records.id(`form.${kind}`, i + 1), toLabel(value), value])
  const employers = staffingEntity?.many["legal_entities"] ?? records.rows("hris.legal_entity")
  return {
    properties: {
      first_name: text(commonFields("First name", true, "first_name", "As in the passport."), 1, 60),
      last_name: text(commonFields("Last name", true, "last_name", "As in the passport."), 1, 60),
      work_email: text(
        commonFields("Work e-mail", true, "work_email", "Must be unique."),
        6,
        120,
        "^[^@\\s]+@[^@\\s]+\\.[a-z]{2,}$"
      ),
      start_date: date(commonFields("First day of work", true, "start_date", "A day of the calendar.")),
      weekly_hours: number(commonFields("Hours a week", false, "weekly_hours", "As agreed in the contract."), 1, 48),
      home_address: object(commonFields("Home address", false, "home_address", "Where letters go."), {
        street: text(commonFields("Street", false, "street_1", "With the number."), 1, 120),
        city: text(commonFields("City", true, "city", "Without the postal code."), 1, 80),
        zip_code: text(
          commonFields("Postal code", true, "zip_code", "Capitals and digits."),
          3,
          10,
          "^[0-9A-Z][0-9A-Z -]*$"
        ),
        country: select(
          commonFields("Country", true, "country", "Where the address is."),
          options("country", countries)
        )
      }),
      cost_shares: array(
        commonFields("Cost shares", false, null, "The share of each cost center, in percent."),
        number(commonFields("Share", true, null, "In percent."), 0, 100),
        1,
        4
      ),
      emergency_contacts: array(
        commonFields("Emergency contacts", false, null, "The people to call in an emergency."),
        object(commonFields("Contact", true, null, "A person who can be reached."), {
          name: text(commonFields("Name", true, null, "First and last name."), 1, 120),
          phone: text(commonFields("Phone", true, null, "With the country's code."), 5, 20, "^\\+[0-9 ]+$")
        }),
        0,
        3
      ),
      ...(employers.some(isLive) && {
        legal_entity: select(
          commonFields("Employer", false, "legal_entity_id", "The company that employs."),
          employers.filter(isLive).map(entryOf)
        )
      }),
      ...(staffingEntity === null
        ? {
          job_title: text(commonFields("Job title", true, "job_title", "As in the contract."), 2, 80),
          contract: select(
            commonFields("Contract", true, "employment_type", "The kind of employment."),
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
    probation_months: number(commonFields("Probation", true, null, "In months; 0 for none."), 0, 12),
    ...(locations.length > 0 && {
      work_location: select(
        commonFields("Place of work", true, "work_location_id", "One of the locations of the staffing entity."),
        locations.map(entryOf)
      )
    }),
    ...(staffingEntity.fields["model_type"] === "REQUISITION" && {
      approval_number: text(commonFields("Approval", false, null, "Number of the approval."), 6, 6, "^R-[0-9]{4}$")
    })
  }
}
