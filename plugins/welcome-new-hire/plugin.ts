/**
 * Creates an employee in the HR system for each applicant who is hired in the applicant tracking system.
 *
 * Invariants
 * 1. One application makes at most one employee, however often it is hired and whenever the process crashes   (T1, L5)
 * 2. No failure and no log line contains an answer to the form   (I11)
 *
 * Gotchas
 * - An employee is recognized by the id in the response. If a creation was interrupted, only a person can find out whether it took effect.
 */
import * as Plugin from "#plugin"
import * as ByteSize from "effect/ByteSize"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type FieldTemplates, fillForm, fillTemplate } from "./FormFilling.ts"

const nothing: Readonly<Record<string, string>> = {}
const FieldTemplates: Schema.Codec<FieldTemplates> = Schema.Record(
  Schema.String,
  Schema.Union([Schema.String, Schema.suspend(() => FieldTemplates)])
)

const config = Config.all({
  /** The integration in which employees are created. */
  hris: Config.String("WELCOME_HRIS"),
  /** URL of an employee, for the link on the application: a text with `{/id}` or `{/remote_id}`. */
  employeeUrl: Config.String("WELCOME_EMPLOYEE_URL"),
  label: Config.String("WELCOME_LABEL").pipe(Config.withDefault("Employee record")),
  /** The staffing entity that the applicant is hired for: an id, or a text with placeholders such as `{/custom_fields/opening}`. */
  staffingEntity: Config.option(Config.String("WELCOME_STAFFING_ENTITY")),
  /** Form key → answer, for fields whose default answer is wrong or missing. */
  fields: Config.schema(FieldTemplates, "WELCOME_FIELDS").pipe(Config.withDefault(nothing)),
  /** Attachment type → document category. Attachments of other types are not uploaded. */
  documents: Config.Record(Schema.String, Schema.String, "WELCOME_DOCUMENTS").pipe(Config.withDefault(nothing)),
  largestDocument: Config.ByteSize("WELCOME_LARGEST_DOCUMENT").pipe(Config.withDefault(ByteSize.mebibytes(10)))
})
type Settings = Config.Success<typeof config>
type Hired = Plugin.EventOf<"ats.application.hired">

const Employee = Schema.Struct({
  /** null while the API does not know the employee yet. */
  id: Schema.NullOr(Schema.String),
  remote_id: Schema.optionalKey(Schema.NullOr(Schema.String))
})
type Employee = typeof Employee.Type

// ---- the employee -------------------------------------------------------------------------------------------------

/** The accepted offer. It contains the first day of work. */
const offerOf = Effect.fnUntraced(function*({ after }: Hired) {
  const id = after.offers?.find(({ status }) => status === "ACCEPTED")?.id
  if (id == null) return null
  return (yield* Plugin.Records.get("ats.offer", id)) ?? (yield* (yield* Plugin.Api).live("ats.offer", id))
})

const create = Effect.fnUntraced(function*(event: Hired, { fields, hris, staffingEntity }: Settings) {
  const people = yield* Plugin.Api.for(hris)
  const text = Option.getOrNull(staffingEntity)
  const id = text === null ? null : fillTemplate(text, event.after)
  if (text !== null && typeof id !== "string") {
    return yield* new Plugin.Permanent({ message: `the application has no staffing entity: ${text} has no value` })
  }
  const staffing_entity_id = typeof id === "string" ? id : null
  const staffing_entity = staffing_entity_id === null
    ? null
    : yield* Plugin.Records.get("hris.staffing_entity", staffing_entity_id, hris)
  const form = yield* people.employeeForm(...(staffing_entity_id === null ? [] : [staffing_entity_id]))
  const properties = fillForm(form, fields, { ...event.after, offer: yield* offerOf(event), staffing_entity })
  return yield* people.createEmployee({ staffing_entity_id, properties }, { form })
})

// ---- the documents ------------------------------------------------------------------------------------------------

/** Whether the response is final. 4xx: the file is missing or access is denied, and a retry would not help. */
const isSettled = (status: number): boolean => status < 300 || (status >= 400 && status < 500 && status !== 429)

/** The file; null if it cannot be read or is larger than `maxSize`, at which point reading stops. */
const download = Effect.fnUntraced(function*(url: string, maxSize: ByteSize.ByteSize) {
  const response = yield* Plugin.send(HttpClientRequest.get(url), isSettled)
  if (response.status >= 400) return null
  const chunks: Array<Uint8Array> = []
  let size = 0
  yield* response.stream.pipe(
    Stream.takeWhile((chunk) => (size += chunk.length) <= maxSize),
    Stream.runForEach((chunk) => Effect.sync(() => chunks.push(chunk))),
    Effect.mapError(() => new Plugin.Transient({ message: "the download of a file was interrupted" }))
  )
  return size > maxSize ? null : Buffer.concat(chunks)
})

/** Uploads the file as a document of the employee; returns false if it was left out. */
const upload = Effect.fnUntraced(
  function*(file: Plugin.Attachment, employeeId: string, category_id: string, settings: Settings) {
    const data = file.data_url == null ? null : yield* download(file.data_url, settings.largestDocument)
    if (data === null) {
      yield* Effect.logWarning("attachment not uploaded: it is too large or cannot be read")
      return false
    }
    const people = yield* Plugin.Api.for(settings.hris)
    const name = file.file_name ?? file.id
    const content_type = file.content_type ?? "application/octet-stream"
    yield* people.uploadDocument(employeeId, {
      category_id,
      document: { name, content_type, data: Base64.encode(data) }
    })
    return true
  }
)

const uploadAll = Effect.fnUntraced(function*(event: Hired, employee: Employee, settings: Settings) {
  const { documents } = settings
  if (Object.keys(documents).length === 0) return []
  const { results } = yield* (yield* Plugin.Api).attachments(event.recordId)
  const wanted = results.flatMap((file) => {
    const category = documents[file.type ?? "OTHER"]
    return category === undefined ? [] : [{ file, category }]
  })
  const employeeId = employee.id
  if (employeeId === null) {
    yield* Effect.logWarning("no document uploaded: the API has not assigned an id to the new employee")
    return wanted.map(() => false)
  }
  return yield* Effect.forEach(
    wanted,
    ({ category, file }) =>
      Plugin.Journal.oncePerRecord(`document ${file.id}`, Schema.Boolean, upload(file, employeeId, category, settings))
  )
})

// ---- the link -----------------------------------------------------------------------------------------------------

const link = Effect.fnUntraced(function*(
  event: Hired,
  employee: Employee,
  uploaded: ReadonlyArray<boolean>,
  settings: Settings
) {
  const url = fillTemplate(settings.employeeUrl, employee)
  if (typeof url !== "string") {
    return yield* new Plugin.Permanent({
      message: `the link cannot be made: the employee has no value for a placeholder of ${settings.employeeUrl}`
    })
  }
  const count = `${uploaded.filter(Boolean).length} of ${uploaded.length}`
  yield* (yield* Plugin.Api).addResultLink(event.recordId, {
    label: settings.label,
    url,
    ...(uploaded.length > 0 && { details: { attributes: [{ key: "documents", value: count }] } })
  })
  return url
})

export default Plugin.make("welcome-new-hire", {
  config,
  needs: { reads: ["employeeForm", "attachments"], writes: ["createEmployee", "uploadDocument", "addResultLink"] }
}).on(
  "ats.application.hired",
  { timeout: "2 minutes" },
  Effect.fn("WelcomeNewHire.hired")(function*(event, { config: settings }) {
    const employee = yield* Plugin.Journal.oncePerRecord("employee", Employee, create(event, settings))
    const uploaded = yield* uploadAll(event, employee, settings)
    yield* Plugin.Journal.oncePerRecord("link", Schema.String, link(event, employee, uploaded, settings))
  })
)
