/** The records of recruiting, and the attachments of applications. */
import { iso, type Row } from "../Records.ts"
import * as SampleData from "../SampleData.ts"
import { generateAnswers } from "../ScreeningQuestions.ts"
import { SeededRandom } from "../SeededRandom.ts"
import {
  changeFields,
  entries,
  handle,
  idFields,
  linkedIds,
  location,
  nameFields,
  noCustomFields,
  one,
  remoteTimes,
  type Rendered,
  renderGeneric,
  renderWritten,
  stored,
  text
} from "./RenderedFields.ts"

const emails = (row: Row): ReadonlyArray<Rendered> => [
  { email_address: `${handle(row)}${row.serial}@mail.example`, type: "PRIVATE" }
]

const stage = (row: Row): Rendered => ({
  ...nameFields(row),
  status: "ACTIVE",
  ...noCustomFields,
  index: row.fields["index"] ?? 0
})

/** The e-mail addresses of a candidate; two candidates with the same address are the same person. */
export const emailsOf = (row: Row): ReadonlyArray<string> => {
  const known = row.fields["email_addresses"] ?? emails(row)
  return (known as ReadonlyArray<Rendered>).map(({ email_address }) => text(email_address))
}

const candidate = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  return {
    ...idFields(row),
    first_name: null,
    last_name: null,
    company: random.pick(SampleData.companies),
    title: random.pick(SampleData.titles),
    confidential: random.boolean(0.05),
    source: random.pick(SampleData.sources),
    phone_numbers: [{ phone_number: `+49 30 555${random.int(10_000, 99_999)}`, type: "HOME" }],
    email_addresses: emails(row),
    social_media: random.boolean(0.5)
      ? [{ link: `https://videos.example/@${handle(row)}`, type: "YOUTUBE", username: handle(row) }]
      : [],
    location: location(random),
    custom_fields: random.boolean(0.5)
      ? { notice_period_weeks: random.int(2, 12), relocates: random.boolean(0.4) }
      : null,
    integration_fields: [],
    remote_url: `https://ats.example/candidates/${row.remoteId}`,
    remote_data: { id: row.remoteId, gdpr_consent: random.boolean(0.9), locale: "en" },
    ...row.fields,
    ...remoteTimes(row),
    ...changeFields(row),
    tags: entries(row, "tags", nameFields)
  }
}

const interview = (row: Row): Rendered => ({
  ...idFields(row),
  ...stored(row, "title", "starting_at", "ending_at"),
  location: row.fields["location"] ?? location(new SeededRandom(row.salt)),
  canceled: row.fields["canceled"] ?? false
})

const application = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  return {
    ...idFields(row),
    outcome: "PENDING",
    rejection_reason_name: null,
    rejected_at: null,
    screening_question_answers: generateAnswers(row.serial, random),
    custom_fields: { expected_salary: random.int(40, 120) * 1000, source_campaign: random.pick(["spring", "autumn"]) },
    integration_fields: [],
    remote_url: `https://ats.example/applications/${row.remoteId}`,
    remote_data: { id: row.remoteId, pipeline: random.int(1, 4), credited_to: random.pick(SampleData.sources) },
    ...row.fields,
    ...linkedIds(row, "current_stage", "job", "candidate"),
    ...changeFields(row),
    ...remoteTimes(row),
    candidate: one(row, "candidate", candidate),
    current_stage: one(row, "current_stage", stage),
    job: one(row, "job", nameFields),
    interviews: entries(row, "interviews", interview),
    offers: entries(row, "offers", (offer) => ({ ...idFields(offer), ...stored(offer, "status") }))
  }
}

const offer = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  return {
    ...idFields(row),
    status: null,
    employment_start_date: iso(row.createdAt + random.int(20, 120) * 86_400_000),
    custom_fields: random.boolean(0.5) ? { signing_bonus: random.int(0, 10) * 500 } : null,
    integration_fields: [],
    remote_data: { id: row.remoteId, template: `T-${random.int(1, 9)}` },
    ...row.fields,
    ...linkedIds(row, "application"),
    ...changeFields(row),
    ...remoteTimes(row),
    application: one(row, "application", (application) => ({
      candidate: one(application, "candidate", (candidate) => ({
        ...idFields(candidate),
        ...stored(candidate, "first_name", "last_name"),
        email_addresses: candidate.fields["email_addresses"] ?? emails(candidate)
      })),
      job: one(application, "job", nameFields)
    }))
  }
}

const scorecard = (row: Row): Rendered => ({
  ...idFields(row),
  responses: [],
  remote_data: { id: row.remoteId, form: "standard" },
  ...row.fields,
  ...linkedIds(row, "candidate", "application", "interview", "author"),
  ...remoteTimes(row),
  ...changeFields(row),
  author: one(row, "author", (author) => ({
    ...idFields(author),
    ...stored(author, "first_name", "last_name"),
    email: `${handle(author)}@work.example`
  }))
})

/** An attachment in the response of an application's attachments; the file's address depends on the request's host. */
export const renderAttachment = (row: Row, dataUrl: string): Rendered => ({
  ...idFields(row),
  ...stored(row, "type"),
  data_url: dataUrl,
  ...stored(row, "file_name", "content_type"),
  ...remoteTimes(row)
})

export const recruitingRenderers = {
  "ats.application": application,
  "ats.scorecard": scorecard,
  "ats.offer": offer,
  "ats.tag": renderGeneric,
  "ats.attachment": renderWritten,
  "ats.result_link": renderWritten
}
