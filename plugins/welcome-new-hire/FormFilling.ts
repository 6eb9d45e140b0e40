/**
 * Fills in an employee form.
 *
 * Invariants
 * 1. A configured answer is always used; a default answer that does not fit is left out, unless its field is required
 * 2. An optional object that cannot be answered completely is left out
 *
 * Gotchas
 * - Forms differ by staffing entity: a configured answer for a field that this form does not have is ignored.
 */
import { checkForm, type EmployeeForm, type FormField } from "#plugin"
import { unescapeToken } from "effect/JsonPointer"
import type * as Schema from "effect/Schema"

type Json = Schema.Json

/** Form key → text with placeholders; nested like the form. */
export interface FieldTemplates {
  readonly [key: string]: string | FieldTemplates
}

// ---- texts --------------------------------------------------------------------------------------------------------

/** `{/pointer}` or `{/pointer|handle}`; the JSON Pointer points into the source. */
const placeholder = /\{(\/[^{}|]*)(\|handle)?\}/g
const wholePlaceholder = /^\{(\/[^{}|]*)\}$/

const entry = (value: Json | undefined, name: string): Json | undefined => {
  if (typeof value !== "object" || value === null) return undefined
  if (Array.isArray(value) && name === "only") return value.length === 1 ? value[0] : undefined
  return Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined
}

/** The value at a JSON Pointer, in which `only` means the entry of a list with exactly one; undefined if there is none. */
const valueAt = (source: Json, pointer: string): Json | undefined =>
  pointer.split("/").slice(1).map(unescapeToken).reduce<Json | undefined>(entry, source) ?? undefined

/** Letters that cannot be decomposed into a base letter and an accent. */
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

/** A form for e-mail addresses: lower case, no accents, and hyphens in place of everything except letters and digits. */
const slugOf = (text: string): string =>
  text.toLowerCase().normalize("NFKD").replaceAll(/\p{M}/gu, "")
    .replaceAll(/[^a-z0-9]/g, (letter) => transliterations[letter] ?? "-").replaceAll(/-+/g, "-").replaceAll(
      /^-|-$/g,
      ""
    )

/**
 * Replaces the placeholders of a text. If the text is exactly one placeholder, returns its value unconverted. Returns undefined
 * if a placeholder has no value.
 */
export const fillTemplate = (text: string, source: Json): Json | undefined => {
  const [, pointer] = wholePlaceholder.exec(text) ?? []
  if (pointer !== undefined) return valueAt(source, pointer)
  let isComplete = true
  const result = text.replaceAll(placeholder, (_, pointer: string, handle?: string) => {
    const found = String(valueAt(source, pointer) ?? "")
    const value = handle === undefined ? found : slugOf(found)
    isComplete &&= value !== ""
    return value
  })
  return isComplete ? result : undefined
}

// ---- fields -------------------------------------------------------------------------------------------------------

/** Default answers, by the `unified_key` of the field. */
const defaultTemplates: Readonly<Record<string, string>> = {
  first_name: "{/candidate/first_name}",
  last_name: "{/candidate/last_name}",
  private_email: "{/candidate/email_addresses/0/email_address}",
  mobile_phone_number: "{/candidate/phone_numbers/0/phone_number}",
  start_date: "{/offer/employment_start_date}",
  job_title: "{/job/name}",
  legal_entity_id: "{/staffing_entity/legal_entities/only/id}",
  location_id: "{/staffing_entity/locations/only/id}",
  "home_address.street_1": "{/candidate/location/street_1}",
  "home_address.street_2": "{/candidate/location/street_2}",
  "home_address.city": "{/candidate/location/city}",
  "home_address.state": "{/candidate/location/state}",
  "home_address.zip_code": "{/candidate/location/zip_code}",
  "home_address.country": "{/candidate/location/country}"
}

/** Converts a value to the field's type; returns it unchanged if it cannot be converted. */
const toFieldType = (field: FormField, value: Json | undefined): Json | undefined => {
  if (value === undefined) return undefined
  switch (field.type) {
    case "text":
      return typeof value === "number" || typeof value === "boolean" ? String(value) : value
    case "date":
      return typeof value === "string" ? value.slice(0, "2026-03-01".length) : value
    case "number":
      return typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : value
    case "single_select":
      return optionOf(field, value)
    case "multi_select":
      return [value].flat().map((value: Json) => optionOf(field, value))
    case "checkbox":
      return value === "true" ? true : value === "false" ? false : value
    default:
      return value
  }
}

/** The id of the option with this id, unified value, remote id or label; the value itself if there is none. */
const optionOf = (field: FormField, value: Json): Json => {
  const wanted = String(value).toLowerCase()
  const { entries } = "options" in field && field.options != null ? field.options : { entries: null }
  const option = entries?.find(({ id, label, remote_id, unified_value }) =>
    [id, unified_value, remote_id, label].some((name) => name != null && String(name).toLowerCase() === wanted)
  )
  return option?.id ?? value
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

/** The answers to send for a form. `source`: the application, with the additional properties `offer` and `staffing_entity`. */
export const fillForm = (form: EmployeeForm, given: FieldTemplates, source: Json) =>
  formAnswers(form.properties, given, source)
