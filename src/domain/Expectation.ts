/**
 * What each of the twelve writes comes to show in the records that are read, and what it is recognised by there.
 *
 * Invariants
 * 1. Of what was written only hashes are kept   (I11)
 *
 * Gotchas
 * - Third-party systems trim, change case and write times their own way: values are compared beyond that.
 * - Until the answer tells its id, an application is told by its job, the e-mail address and the names (E2); where these
 *   are redacted, by the id alone.
 */
import { hash } from "node:crypto"
import { proficiencyValue } from "../api/Proficiency.ts"
import type { WriteBody, WriteData, WriteName, WriteParams } from "../api/Writes.ts"
import type { JsonValue } from "./Canonical.ts"
import type { Model } from "./Model.ts"
import { parseTime } from "./Watermark.ts"

/** Whose write it is. */
export interface Author {
  readonly plugin: string
  readonly delivery: string
  /** 1 = in reaction to a change of the world, 2 = to a change of depth 1, … */
  readonly depth: number
}

/** JSON Pointer; "" = the whole record. */
export type Pointer = string
export type Hash = string

/** What a write is recognised by in a record that comes to show it. */
export type Matcher =
  /** The record appears, with these values. */
  | { readonly kind: "created"; readonly values: Readonly<Record<Pointer, Hash>> }
  /** These values stand there, null = any; `whole` may appear with them at once. */
  | {
    readonly kind: "values"
    readonly values: Readonly<Record<Pointer, Hash | null>>
    readonly orWhole: Pointer | null
  }
  /** The array has, or has no more, a member whose property is so. */
  | {
    readonly kind: "member"
    readonly array: Pointer
    readonly property: string
    readonly value: Hash
    readonly present: boolean
  }
  /** The record is gone, unless it is one of these. */
  | { readonly kind: "gone"; readonly except: ReadonlyArray<string> }

/** What is to be seen of a write in one model. */
export interface Expectation {
  readonly model: Model
  /** One of the `keysOf` every record that may show it. */
  readonly key: string
  /** What is written to: of two writes to the same place the earlier may never be seen. */
  readonly target: string
  readonly matcher: Matcher
  /** Every record of the key shows it, not just one. */
  readonly everywhere: boolean
  /** Somebody is told if it is never seen. */
  readonly required: boolean
}

/** A write that is about to leave. */
export interface PluginWrite extends Author {
  /** Unique to the write; the same when it is sent again. */
  readonly write: string
  readonly name: WriteName
  readonly integration: string
}

/** An expectation that is not met, or not everywhere. */
export interface OpenExpectation extends Expectation, Omit<PluginWrite, "integration"> {
  /** In the order of writing. */
  readonly id: number
  /** Ids of the records that showed it. */
  readonly fulfilledIn: ReadonlyArray<string>
}

// ---- values and keys ----------------------------------------------------------------------------------------------

/** As a third-party system may spell it too. */
const normalizeValue = (value: JsonValue): JsonValue => {
  if (typeof value !== "string") return value
  const time = /^\d{4}-\d{2}-\d{2}T/.test(value) ? parseTime(value) : null
  return time === null ? value.trim().toLowerCase() : new Date(time).toISOString()
}
/** Equal for what counts as the same value. */
export const valueHash = (value: JsonValue): Hash => hash("sha256", JSON.stringify(normalizeValue(value)), "base64url")

const escaped = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1")
const pointer = (...names: ReadonlyArray<string>): Pointer => names.map((name) => `/${escaped(name)}`).join("")

export const keyOf = (id: string): string => `id:${id}`
/** Key of whichever record of a model. */
export const anyRecord = "any"
/** The id in a key that stands for one record, and of the candidate that records of a key show. */
export const recordIdIn = (key: string): string | null => key.startsWith("id:") ? key.slice(3) : null
export const candidateIdIn = (key: string): string | null => key.startsWith("candidate:") ? key.slice(10) : null

const expectTag = (candidate: string, name: string, present: boolean): ReadonlyArray<Expectation> => {
  const value = valueHash(name)
  const member = (array: Pointer): Matcher => ({ kind: "member", array, property: "name", value, present })
  const target = `${candidate} ${value}`
  const details = { target, everywhere: false, required: false }
  return [
    {
      ...details,
      model: "ats.application",
      key: `candidate:${candidate}`,
      matcher: member("/candidate/tags"),
      everywhere: true,
      required: true
    },
    { ...details, model: "ats.candidate", key: keyOf(candidate), matcher: member("/tags") },
    // a tag of a new name is a new record
    ...present
      ? [
        {
          ...details,
          model: "ats.tag",
          key: `name:${value}`,
          matcher: { kind: "created", values: { "/name": value } }
        } as const
      ]
      : []
  ]
}

const hashesOf = (values: Readonly<Record<Pointer, JsonValue>>): Readonly<Record<Pointer, Hash>> =>
  Object.fromEntries(Object.entries(values).map(([at, value]) => [at, valueHash(value)]))

// ---- by write -----------------------------------------------------------------------------------------------------

type ExpectationBuilders = {
  readonly [W in WriteName]: (params: WriteParams<W>, body: WriteBody<W>) => ReadonlyArray<Expectation>
}

const nothing = (): ReadonlyArray<Expectation> => []

/** By write; docs/plugins/echo.md shows this as a table. */
const expectationBuilders: ExpectationBuilders = {
  createApplication: ({ job_id }, { candidate: { email_address, first_name, last_name } }) => {
    const applicant = (at: Pointer): Matcher => ({
      kind: "created",
      values: hashesOf({
        [`${at}/email_addresses`]: email_address,
        [`${at}/first_name`]: first_name,
        [`${at}/last_name`]: last_name
      })
    })
    const target = `${job_id} ${valueHash(email_address)}`
    return [
      {
        model: "ats.application",
        key: `job:${job_id}`,
        target,
        matcher: applicant("/candidate"),
        everywhere: false,
        required: true
      },
      // the person may be known already
      {
        model: "ats.candidate",
        key: `email:${valueHash(email_address)}`,
        target,
        matcher: applicant(""),
        everywhere: false,
        required: false
      }
    ]
  },
  addTag: ({ candidate_id }, { tag }) => expectTag(candidate_id, tag.name, true),
  removeTag: ({ candidate_id }, { tag }) => expectTag(candidate_id, tag.name, false),
  updateInterview: ({ application_id }, { end_time, interview_id, location, start_time, title }) => {
    const set = (name: string, value: JsonValue | undefined, anyValue = false): ReadonlyArray<Expectation> => {
      if (value == null) return []
      const at = pointer("interviews", interview_id, name)
      return [{
        model: "ats.application",
        key: keyOf(application_id),
        target: application_id + at,
        matcher: { kind: "values", values: { [at]: anyValue ? null : valueHash(value) }, orWhole: null },
        everywhere: false,
        required: !anyValue
      }]
    }
    return [
      ...set("title", title),
      ...set("starting_at", start_time),
      ...set("ending_at", end_time),
      // an address is one text when it is sent, and shown in parts
      ...set("location", location?.address, true)
    ]
  },
  expectSkill: ({ staffing_entity_id }, { expected_proficiency, skill_id }) => {
    const orWhole = pointer("skills", skill_id)
    const value = expected_proficiency === undefined ? null : valueHash(proficiencyValue(expected_proficiency))
    return [{
      model: "hris.staffing_entity",
      key: keyOf(staffing_entity_id),
      target: staffing_entity_id + orWhole,
      matcher: { kind: "values", values: { [`${orWhole}/expected_proficiency`]: value }, orWhole },
      everywhere: false,
      required: true
    }]
  },
  replacePackages: (_, { packages }) => {
    const details = { model: "assessment.package", target: "packages" } as const
    return [
      ...packages.map(({ description, id, name, type }): Expectation => ({
        ...details,
        key: keyOf(id),
        matcher: {
          kind: "values",
          values: hashesOf({ "/name": name, "/type": type, "/description": description }),
          orWhole: ""
        },
        everywhere: false,
        required: true
      })),
      {
        ...details,
        key: anyRecord,
        matcher: { kind: "gone", except: packages.map(({ id }) => id) },
        everywhere: true,
        required: false
      }
    ]
  },
  addResultLink: nothing,
  addCandidateAttachment: nothing,
  createEmployee: nothing,
  uploadDocument: nothing,
  rateSkill: nothing,
  deactivateCourse: nothing
}

/** What will be seen of a write, in the models that can show it; of most writes nothing ever is. */
export const expectationsOf = <W extends WriteName>(
  write: W,
  params: WriteParams<W>,
  body: WriteBody<W>
): ReadonlyArray<Expectation> => expectationBuilders[write](params, body)

/** Ids of what a write created, as its answer tells them. */
export const createdIds = <W extends WriteName>(
  write: W,
  data: WriteData<W>
): Readonly<Partial<Record<Model, string>>> => {
  if (write !== "createApplication") return {}
  const { candidate, candidate_id, id } = data as WriteData<"createApplication">
  const person = candidate?.id ?? candidate_id
  return { "ats.application": id, ...person == null ? {} : { "ats.candidate": person } }
}

/** The same, now that its id is known: nothing else tells it any more. */
export const expectById = (id: string): Pick<Expectation, "key" | "matcher"> => ({
  key: keyOf(id),
  matcher: { kind: "created", values: {} }
})
