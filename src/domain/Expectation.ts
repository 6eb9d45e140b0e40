/**
 * For each of the twelve writes: which changes the write causes in later reads, and how to recognize them.
 *
 * Invariants
 * 1. Written values are kept only as hashes   (I11)
 *
 * Gotchas
 * - Third-party systems trim texts, change upper and lower case, and format times differently, so values are normalized before they are
 *   compared.
 * - A created application is recognized by its job, e-mail address and names until its id is known from the response (E2). If these
 *   fields are redacted, it can only be recognized by its id.
 */
import * as JsonPointer from "effect/JsonPointer"
import { hash } from "node:crypto"
import { proficiencyValue } from "../api/Proficiency.ts"
import type { WriteBody, WriteData, WriteName, WriteParams } from "../api/Writes.ts"
import type { JsonValue } from "./Canonical.ts"
import type { Model } from "./Model.ts"
import { storableId } from "./Observation.ts"
import { parseTime } from "./Watermark.ts"

/** The plugin and delivery that made a write. */
export interface Author {
  readonly plugin: string
  readonly delivery: string
  /** 1 for a reaction to an external change, 2 for a reaction to a change of depth 1, … */
  readonly depth: number
}

/** JSON Pointer; "" is the whole record. */
export type Pointer = string
export type Hash = string

/** How to recognize a write in the change of a record. */
export type Matcher =
  /** The record is created with these values. */
  | { readonly kind: "created"; readonly values: Readonly<Record<Pointer, Hash>> }
  /** The record has these values; null matches any value. The object at `orWhole` may be created together with them. */
  | {
    readonly kind: "values"
    readonly values: Readonly<Record<Pointer, Hash | null>>
    readonly orWhole: Pointer | null
  }
  /** The array contains (`present`), or no longer contains, a member whose `property` has this value. */
  | {
    readonly kind: "member"
    readonly array: Pointer
    readonly property: string
    readonly value: Hash
    readonly present: boolean
  }
  /** The record is deleted, and its id is not in `except`. */
  | { readonly kind: "gone"; readonly except: ReadonlyArray<string> }

/** The change that a write is expected to cause in one model. */
export interface Expectation {
  readonly model: Model
  /** A key that `keysOf` returns for each record that may show the change. */
  readonly key: string
  /** The record or path that is written. If two writes have the same target, the effect of the earlier write may never become visible. */
  readonly target: string
  readonly matcher: Matcher
  /** True if every record with the key shows the change; false if one of them does. */
  readonly everywhere: boolean
  /** True if an operator is notified when the change is never seen. */
  readonly required: boolean
}

/** A write that is about to be sent. */
export interface PluginWrite extends Author {
  /** Identifies the write; unchanged when the write is sent again. */
  readonly write: string
  readonly name: WriteName
  readonly integration: string
}

/** An expectation that is not fulfilled yet, or is not fulfilled in every record. */
export interface OpenExpectation extends Expectation, Omit<PluginWrite, "integration"> {
  /** In the order of writing. */
  readonly id: number
  /** Ids of the records that have shown the change. */
  readonly fulfilledIn: ReadonlyArray<string>
}

// ---- values and keys ----------------------------------------------------------------------------------------------

/** Removes differences that a third-party system may introduce: white space, case and the format of times. */
const normalizeValue = (value: JsonValue): JsonValue => {
  if (typeof value !== "string") return value
  const time = /^\d{4}-\d{2}-\d{2}T/.test(value) ? parseTime(value) : null
  return time === null ? value.trim().toLowerCase() : new Date(time).toISOString()
}
/** Hash of the normalized value, so values that differ only in case, white space or time format have the same hash. */
export const valueHash = (value: JsonValue): Hash => hash("sha256", JSON.stringify(normalizeValue(value)), "base64url")

const pointer = (...names: ReadonlyArray<string>): Pointer =>
  names.map((name) => `/${JsonPointer.escapeToken(name)}`).join("")

export const keyOf = (id: string): string => `id:${id}`
/** Key that every record of a model has. */
export const anyRecord = "any"
/** Key that no record has, for a record that is recognized only when its id is known. */
const noRecord = "none"
/** The record id in a key of one record, and the candidate id in a key of a candidate's records; null for other keys. */
export const recordIdIn = (key: string): string | null => key.startsWith("id:") ? key.slice(3) : null
export const candidateIdIn = (key: string): string | null => key.startsWith("candidate:") ? key.slice(10) : null

const expectation = (
  model: Model,
  key: string,
  target: string,
  matcher: Matcher,
  { everywhere = false, required = false }: Partial<Pick<Expectation, "everywhere" | "required">> = {}
): Expectation => ({ model, key, target, matcher, everywhere, required })

const expectTag = (candidate: string, name: string, present: boolean): ReadonlyArray<Expectation> => {
  const value = valueHash(name)
  const member = (array: Pointer): Matcher => ({ kind: "member", array, property: "name", value, present })
  const target = `${candidate} ${value}`
  const created: Matcher = { kind: "created", values: { "/name": value } }
  return [
    expectation("ats.application", `candidate:${candidate}`, target, member("/candidate/tags"), {
      everywhere: true,
      required: true
    }),
    expectation("ats.candidate", keyOf(candidate), target, member("/tags")),
    // a tag with a new name is also created as a record
    ...present ? [expectation("ats.tag", `name:${value}`, target, created)] : []
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
      expectation("ats.application", `job:${job_id}`, target, applicant("/candidate"), { required: true }),
      // not required, because the candidate may already exist
      expectation("ats.candidate", `email:${valueHash(email_address)}`, target, applicant(""))
    ]
  },
  addTag: ({ candidate_id }, { tag }) => expectTag(candidate_id, tag.name, true),
  removeTag: ({ candidate_id }, { tag }) => expectTag(candidate_id, tag.name, false),
  updateInterview: ({ application_id }, { end_time, interview_id, location, start_time, title }) => {
    const set = (name: string, value: JsonValue | undefined, anyValue = false): ReadonlyArray<Expectation> => {
      if (value == null) return []
      const at = pointer("interviews", interview_id, name)
      const values = { [at]: anyValue ? null : valueHash(value) }
      const matcher: Matcher = { kind: "values", values, orWhole: null }
      const target = application_id + at
      return [expectation("ats.application", keyOf(application_id), target, matcher, { required: !anyValue })]
    }
    return [
      ...set("title", title),
      ...set("starting_at", start_time),
      ...set("ending_at", end_time),
      // an address is sent as one text but shown in parts, so any value matches
      ...set("location", location?.address, true)
    ]
  },
  expectSkill: ({ staffing_entity_id }, { expected_proficiency, skill_id }) => {
    const orWhole = pointer("skills", skill_id)
    const value = expected_proficiency === undefined ? null : valueHash(proficiencyValue(expected_proficiency))
    const matcher: Matcher = { kind: "values", values: { [`${orWhole}/expected_proficiency`]: value }, orWhole }
    const target = staffing_entity_id + orWhole
    return [expectation("hris.staffing_entity", keyOf(staffing_entity_id), target, matcher, { required: true })]
  },
  replacePackages: (_, { packages }) => {
    const others: Matcher = { kind: "gone", except: packages.map(({ id }) => id) }
    return [
      ...packages.map(({ description, id, name, type }) => {
        const values = hashesOf({ "/name": name, "/type": type, "/description": description })
        const matcher: Matcher = { kind: "values", values, orWhole: "" }
        return expectation("assessment.package", keyOf(id), "packages", matcher, { required: true })
      }),
      expectation("assessment.package", anyRecord, "packages", others, { everywhere: true })
    ]
  },
  addResultLink: nothing,
  addCandidateAttachment: nothing,
  // recognized by the id in the response alone, because the form of each system asks for other values
  createEmployee: () => [expectation("hris.employee", noRecord, noRecord, { kind: "created", values: {} })],
  uploadDocument: nothing,
  rateSkill: nothing,
  deactivateCourse: nothing
}

/** The changes that a write will cause in the models that can show it; empty for most writes. */
export const expectationsOf = <W extends WriteName>(
  write: W,
  params: WriteParams<W>,
  body: WriteBody<W>
): ReadonlyArray<Expectation> => expectationBuilders[write](params, body)

/** Ids of the records that a write created, from its response. An id that no store can hold is left out: its record is quarantined. */
export const createdIds = <W extends WriteName>(
  write: W,
  data: WriteData<W>
): Readonly<Partial<Record<Model, string>>> => {
  if (write === "createEmployee") {
    const employee = storableId((data as WriteData<"createEmployee">).id)
    return employee === null ? {} : { "hris.employee": employee }
  }
  if (write !== "createApplication") return {}
  const { candidate, candidate_id, id } = data as WriteData<"createApplication">
  const [application, person] = [storableId(id), storableId(candidate?.id ?? candidate_id)]
  return {
    ...application === null ? {} : { "ats.application": application },
    ...person === null ? {} : { "ats.candidate": person }
  }
}

/** Replaces key and matcher once the record's id is known: from then on the record is recognized only by its id. */
export const expectById = (id: string): Pick<Expectation, "key" | "matcher"> => ({
  key: keyOf(id),
  matcher: { kind: "created", values: {} }
})
