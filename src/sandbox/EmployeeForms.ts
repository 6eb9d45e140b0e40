/**
 * The form employees are created from: hides what an integration asks for, and how the staffing entity changes it.
 *
 * Gotchas
 * - With a staffing entity the form asks where in it the employee will stand, and no longer for what the entity says.
 */
import type { EmployeeForm, FormField } from "../api/Forms.ts"
import { isLive, type Records, type Row } from "./Records.ts"

type Entry = readonly [id: string, label: string, unified: string | null]

const basics = (label: string, required: boolean, unified: string | null, description: string) => ({
  label,
  required,
  description,
  unified_key: unified
})
type Basics = ReturnType<typeof basics>

const text = (about: Basics, min: number, max: number, pattern: string | null = null): FormField => ({
  ...about,
  type: "text",
  min_length: min,
  max_length: max,
  reg_exp: pattern
})
const date = (about: Basics): FormField => ({ ...about, type: "date" })
const number = (about: Basics, min: number, max: number): FormField => ({ ...about, type: "number", min, max })
const object = (about: Basics, properties: Readonly<Record<string, FormField>>): FormField => ({
  ...about,
  type: "object",
  properties
})
const array = (about: Basics, item: FormField, min: number, max: number): FormField => ({
  ...about,
  type: "array",
  item_type: item,
  min_items: min,
  max_items: max
})
const select = (about: Basics, entries: ReadonlyArray<Entry>): FormField => ({
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

const worded = (value: string): string => value[0] + value.slice(1).toLowerCase().replaceAll("_", " ")
const entryOf = (row: Row): Entry => [row.id, String(row.fields["name"]), null]

/** `staffingEntity`: the one the employee is created for, null if for none. */
export const formOf = (records: Records, staffingEntity: Row | null): EmployeeForm => {
  const options = (kind: string, values: ReadonlyArray<string>) =>
    values.map((value, i): Entry => [records.id(`form.${kind}`, i + 1), worded(value), value])
  const employers = staffingEntity?.many["legal_entities"] ?? records.rows("hris.legal_entity")
  return {
    properties: {
      first_name: text(basics("First name", true, "first_name", "As in the passport."), 1, 60),
      last_name: text(basics("Last name", true, "last_name", "As in the passport."), 1, 60),
      work_email: text(
        basics("Work e-mail", true, "work_email", "Nobody else may have it."),
        6,
        120,
        "^[^@\\s]+@[^@\\s]+\\.[a-z]{2,}$"
      ),
      start_date: date(basics("First day of work", true, "start_date", "A day of the calendar.")),
      weekly_hours: number(basics("Hours a week", false, "weekly_hours", "As agreed in the contract."), 1, 48),
      home_address: object(basics("Home address", false, "home_address", "Where letters go."), {
        street: text(basics("Street", false, "street_1", "With the number."), 1, 120),
        city: text(basics("City", true, "city", "Without the postal code."), 1, 80),
        zip_code: text(
          basics("Postal code", true, "zip_code", "Capitals and digits."),
          3,
          10,
          "^[0-9A-Z][0-9A-Z -]*$"
        ),
        country: select(basics("Country", true, "country", "Where the address is."), options("country", countries))
      }),
      cost_shares: array(
        basics("Cost shares", false, null, "What each cost centre bears, in per cent."),
        number(basics("Share", true, null, "In per cent."), 0, 100),
        1,
        4
      ),
      emergency_contacts: array(
        basics("Emergency contacts", false, null, "Whom to call."),
        object(basics("Contact", true, null, "Somebody who can be reached."), {
          name: text(basics("Name", true, null, "First and last name."), 1, 120),
          phone: text(basics("Phone", true, null, "With the country's code."), 5, 20, "^\\+[0-9 ]+$")
        }),
        0,
        3
      ),
      ...(employers.some(isLive) && {
        legal_entity: select(
          basics("Employer", false, "legal_entity_id", "The company that employs."),
          employers.filter(isLive).map(entryOf)
        )
      }),
      ...(staffingEntity === null
        ? {
          job_title: text(basics("Job title", true, "job_title", "As in the contract."), 2, 80),
          contract: select(
            basics("Contract", true, "employment_type", "What kind of employment."),
            options("contract", contracts)
          )
        }
        : placementOf(staffingEntity))
    }
  }
}

const placementOf = (staffingEntity: Row): Readonly<Record<string, FormField>> => {
  const locations = (staffingEntity.many["locations"] ?? []).filter(isLive)
  return {
    probation_months: number(basics("Probation", true, null, "In months; 0 for none."), 0, 12),
    ...(locations.length > 0 && {
      work_location: select(
        basics("Place of work", true, "work_location_id", "One of the places this entity is staffed at."),
        locations.map(entryOf)
      )
    }),
    ...(staffingEntity.fields["model_type"] === "REQUISITION" && {
      approval_number: text(basics("Approval", false, null, "Number of the approval."), 6, 6, "^R-[0-9]{4}$")
    })
  }
}
