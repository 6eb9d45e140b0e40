/**
 * The form with which an integration creates employees: its recursive field definitions, and the answers to it.
 *
 * Source: docs/contract.md, "HRIS", "Other reads" and "Writes".
 *
 * Gotchas
 * - A field of an unknown type becomes an `OtherField`: check `isKnownField` before `switch (field.type)`.
 * - `multi_select` and `checkbox` are not in the specification but known from the public TypeScript client.
 * - Bounds are inclusive; null or absent means unbounded.
 */
import * as Schema from "effect/Schema"
import { boolean, list, nullish, number, oneOf, text } from "./Fields.ts"

const fieldTypes: ReadonlySet<string> = new Set([
  "text",
  "date",
  "number",
  "object",
  "array",
  "single_select",
  "multi_select",
  "checkbox"
])
const isKnownType = (type: string): boolean => fieldTypes.has(type)

/**
 * The fields of the unified employee that a field of a form can stand for. The specification does not list them; these are
 * the values that the public TypeScript client knows.
 */
export const unifiedKeys = [
  "first_name",
  "last_name",
  "date_of_birth",
  "gender",
  "home_address.city",
  "home_address.country",
  "home_address.state",
  "home_address.street_1",
  "home_address.street_2",
  "home_address.zip_code",
  "job_title",
  "legal_entity_id",
  "location_id",
  "mobile_phone_number",
  "home_phone_number",
  "nationality",
  "start_date",
  "work_email",
  "private_email",
  "yearly_salary"
] as const
export type UnifiedKey = (typeof unifiedKeys)[number]

const commonFields = {
  label: text,
  required: boolean,
  description: text,
  /** The corresponding field of the unified employee. */
  unified_key: oneOf(...unifiedKeys)
}

type CommonFields = Schema.Struct.Type<typeof commonFields>

const TextField = Schema.Struct({
  ...commonFields,
  type: Schema.Literal("text"),
  min_length: number,
  max_length: number,
  /** An untrusted pattern: never match it with a backtracking engine. */
  reg_exp: text
})
const DateField = Schema.Struct({ ...commonFields, type: Schema.Literal("date") })
const NumberField = Schema.Struct({ ...commonFields, type: Schema.Literal("number"), min: number, max: number })
/** The entries are absent if the options have to be read at a link. */
const options = nullish(Schema.Struct({
  type: text,
  entries: list(Schema.Struct({
    id: Schema.String,
    label: text,
    unified_value: text,
    remote_id: nullish(Schema.Union([Schema.String, Schema.Finite]))
  }))
}))
const SingleSelectField = Schema.Struct({ ...commonFields, type: Schema.Literal("single_select"), options })
const MultiSelectField = Schema.Struct({
  ...commonFields,
  type: Schema.Literal("multi_select"),
  options,
  min_items: number,
  max_items: number
})
const CheckboxField = Schema.Struct({ ...commonFields, type: Schema.Literal("checkbox") })
const OtherField = Schema.Struct({
  ...commonFields,
  type: Schema.String.check(
    Schema.makeFilter((type) => !isKnownType(type), { expected: "an unknown field type" })
  )
})

export type TextField = typeof TextField.Type
export type DateField = typeof DateField.Type
export type NumberField = typeof NumberField.Type
export type SingleSelectField = typeof SingleSelectField.Type
export type MultiSelectField = typeof MultiSelectField.Type
export type CheckboxField = typeof CheckboxField.Type
export type OtherField = typeof OtherField.Type
export interface ObjectField extends CommonFields {
  readonly type: "object"
  readonly properties?: Readonly<Record<string, FormField>> | null
}
export interface ArrayField extends CommonFields {
  readonly type: "array"
  readonly item_type?: FormField | null
  readonly min_items?: number | null
  readonly max_items?: number | null
}
export type KnownField =
  | TextField
  | DateField
  | NumberField
  | SingleSelectField
  | MultiSelectField
  | CheckboxField
  | ObjectField
  | ArrayField
export type FormField = KnownField | OtherField

/** Whether the field's type is one of those that `switch (field.type)` can distinguish. */
export const isKnownField = (field: FormField): field is KnownField => isKnownType(field.type)

const nested = Schema.suspend((): Schema.Codec<FormField> => FormField)

const ObjectField = Schema.Struct({
  ...commonFields,
  type: Schema.Literal("object"),
  properties: nullish(Schema.Record(Schema.String, nested))
})
const ArrayField = Schema.Struct({
  ...commonFields,
  type: Schema.Literal("array"),
  item_type: nullish(nested),
  min_items: number,
  max_items: number
})

export const FormField = Schema.Union([
  TextField,
  DateField,
  NumberField,
  SingleSelectField,
  MultiSelectField,
  CheckboxField,
  ObjectField,
  ArrayField,
  OtherField
]).annotate({ identifier: "FormField" })

/** A form to render; `properties` maps each answer's key to its field definition. */
export const EmployeeForm = Schema.Struct({ properties: Schema.Record(Schema.String, FormField) }).annotate({
  identifier: "EmployeeForm"
})
export type EmployeeForm = typeof EmployeeForm.Type

/** Id of the staffing entity to which the form belongs: 24 base58 characters. */
export const StaffingEntityId = Schema.String.check(Schema.isPattern(/^[1-9A-HJ-NP-Za-km-z]{24}$/u))

/** The answers to the form: the keys of its `properties`, dates as `YYYY-MM-DD`, a choice as the id of its option. */
export const CreateEmployee = Schema.Struct({
  staffing_entity_id: text,
  properties: Schema.Record(Schema.String, Schema.Json)
}).annotate({ identifier: "CreateEmployee" })

/** `id` is null while the API does not know the employee yet, for example a prehire. */
export const CreatedEmployee = Schema.Struct({
  id: Schema.NullOr(Schema.String),
  remote_id: text,
  prehire: nullish(Schema.Struct({ remote_id: text }))
}).annotate({ identifier: "CreatedEmployee" })
