/**
 * Answers to an employee form: hides what in an application stands for what the form asks, and how each field wants it.
 *
 * Invariants
 * 1. What is configured is answered as configured; what is guessed and does not fit is left out, unless it is required
 * 2. An optional object that cannot be answered whole is left out
 *
 * Gotchas
 * - Forms differ by staffing entity: what is configured for a field that this form does not have is not used.
 */
import { checkForm, type EmployeeForm, type FormField } from "#plugin"
import { unescapeToken } from "effect/JsonPointer"
import type * as Schema from "effect/Schema"

type Json = Schema.Json

/** A text with placeholders by the form's keys; nested where the form is. */
export interface FieldTemplates {
  readonly [key: string]: string | FieldTemplates
}

// ---- texts --------------------------------------------------------------------------------------------------------

/** `{/pointer}`, or `{/pointer|handle}`; the pointer leads into the source. */
const placeholder = /\{(\/[^{}|]*)(\|handle)?\}/g
const wholePlaceholder = /^\{(\/[^{}|]*)\}$/

const entry = (value: Json | undefined, name: string): Json | undefined => {
  if (typeof value !== "object" || value === null) return undefined
  if (Array.isArray(value) && name === "only") return value.length === 1 ? value[0] : undefined
  return Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined
}

/** What stands at a JSON Pointer, in which `only` is the entry of a list of one; undefined: nothing. */
const valueAt = (source: Json, pointer: string): Json | undefined =>
  pointer.split("/").slice(1).map(unescapeToken).reduce<Json | undefined>(entry, source) ?? undefined

/** Letters that are no base letter with an accent. */
const transliterations: Readonly<Record<string, string>> = {
  ß: "ss",
  æ: "ae",
  œ: "oe",
  ø: "o",
  ł: "l",
  đ: "d",
  ð: "d",
  þ: "th",
  ı: "i"
}

/** As in an address: lower case, without accents, everything but letters and digits turned into hyphens. */
const slugOf = (text: string): string =>
  text.toLowerCase().normalize("NFKD").replaceAll(/\p{M}/gu, "")
    .replaceAll(/[^a-z0-9]/g, (letter) => transliterations[letter] ?? "-").replaceAll(/-+/g, "-").replaceAll(
      /^-|-$/g,
      ""
    )

/**
 * The text with its placeholders replaced; what stands there as it is, if the text is one placeholder and no more.
 * Undefined if there is nothing for one of them.
 */
export const fillTemplate = (text: string, source: Json): Json | undefined => {
  const [, pointer] = wholePlaceholder.exec(text) ?? []
  if (pointer !== undefined) return valueAt(source, pointer)
  let isWhole = true
  const result = text.replaceAll(placeholder, (_, pointer: string, handle?: string) => {
    const found = String(valueAt(source, pointer) ?? "")
    const value = handle === undefined ? found : slugOf(found)
    isWhole &&= value !== ""
    return value
  })
  return isWhole ? result : undefined
}

// ---- fields -------------------------------------------------------------------------------------------------------

/** Where a field is answered from unless it is configured, by the unified employee's field that it stands for. */
const defaultTemplates: Readonly<Record<string, string>> = {
  first_name: "{/candidate/first_name}",
  last_name: "{/candidate/last_name}",
  personal_email: "{/candidate/email_addresses/0/email_address}",
  mobile_phone_number: "{/candidate/phone_numbers/0/phone_number}",
  start_date: "{/offer/employment_start_date}",
  job_title: "{/job/name}",
  employment_type: "{/staffing_entity/employment_types/only/unified_type}",
  legal_entity_id: "{/staffing_entity/legal_entities/only/id}",
  work_location_id: "{/staffing_entity/locations/only/id}",
  street_1: "{/candidate/location/street_1}",
  street_2: "{/candidate/location/street_2}",
  city: "{/candidate/location/city}",
  state: "{/candidate/location/state}",
  zip_code: "{/candidate/location/zip_code}",
  country: "{/candidate/location/country}"
}

/** The value as this type of field takes it, or as it is, if that makes no sense. */
const toFieldType = (field: FormField, value: Json | undefined): Json | undefined => {
  if (value === undefined) return undefined
  switch (field.type) {
    case "text":
      return typeof value === "number" || typeof value === "boolean" ? String(value) : value
    case "date":
      return typeof value === "string" ? value.slice(0, "2026-03-01".length) : value
    case "number":
      return typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : value
    case "single_select": {
      const meant = String(value).toLowerCase()
      const { entries } = "options" in field && field.options != null ? field.options : { entries: null }
      const option = entries?.find(({ id, label, remote_id, unified_value }) =>
        [id, unified_value, remote_id, label].some((name) => name?.toLowerCase() === meant)
      )
      return option?.id ?? value
    }
    default:
      return value
  }
}

const fits = (field: FormField, value: Json): boolean =>
  checkForm({ properties: { it: field } }, { it: value }).length === 0

const fieldAnswer = (field: FormField, given: string | FieldTemplates | undefined, source: Json): Json | undefined => {
  if ("item_type" in field && field.item_type != null && given !== undefined) {
    const item = fieldAnswer(field.item_type, given, source)
    return item === undefined || Array.isArray(item) ? item : [item]
  }
  if ("properties" in field && typeof given !== "string") {
    const answers = formAnswers(field.properties ?? {}, given ?? {}, source)
    return Object.keys(answers).length > 0 || field.required === true ? answers : undefined
  }
  const text = typeof given === "string" ? given : defaultTemplates[field.unified_key ?? ""]
  return text === undefined ? undefined : toFieldType(field, fillTemplate(text, source))
}

const formAnswers = (
  fields: Readonly<Record<string, FormField>>,
  given: FieldTemplates,
  source: Json
): Readonly<Record<string, Json>> =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([key, field]) => {
      const value = fieldAnswer(field, given[key], source)
      const isGuess = given[key] === undefined && field.required !== true
      return value === undefined || (isGuess && !fits(field, value)) ? [] : [[key, value]]
    })
  )

/** What is sent for a form. `source`: the application, with its `offer` and the `staffing_entity` beside. */
export const fillForm = (form: EmployeeForm, given: FieldTemplates, source: Json) =>
  formAnswers(form.properties, given, source)
