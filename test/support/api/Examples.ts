/**
 * One full example of every schema of the contract: every field that the specification names, none of them null.
 */
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import type { ReadName } from "../../../src/api/Reads.ts"
import type { WriteBody, WriteName, WriteParams } from "../../../src/api/Writes.ts"

type Fields = Readonly<Record<string, unknown>>

const at = "2024-05-01T10:00:00.000Z"
const marks = { changed_at: at, remote_deleted_at: at, remote_data: { raw: [1, "two", null] } }
const remoteTimes = { remote_created_at: at, remote_updated_at: at }
const customised = { custom_fields: { shoe_size: 43 }, integration_fields: [{ key: "a", value: 1 }] }
const place = {
  city: "Bern",
  country: "CH",
  raw: "Bern, CH",
  state: "BE",
  street_1: "Marktgasse 1",
  street_2: null,
  zip_code: "3011"
}
const of = (id: string) => ({ id, remote_id: `r${id}` })
const money = { currency: "CHF", value: 12.5 }
const named = { ...of("n1"), name: "Named" }
const identity = { ...of("r1") }
const person = {
  ...of("p1"),
  first_name: "Ada",
  last_name: "L.",
  display_full_name: "Ada L.",
  work_email: "ada@example.org",
  remote_deleted_at: at
}
const email = { email_address: "ada@example.org", type: "PRIVATE" }
const cycle = { name: "2024", review_period_start_date: at, ...marks }
const scale = { ...of("s1"), type: "NUMERIC", min: 0, max: 5, step: 1, ordered_options: [named] }

const candidate = {
  ...of("c1"),
  first_name: "Ada",
  last_name: "L.",
  company: "Engines",
  title: "Countess",
  confidential: false,
  source: "Referral",
  phone_numbers: [{ phone_number: "+41 31 000 00 00", type: "HOME" }],
  email_addresses: [email],
  social_media: [{ link: "https://example.org", type: "YOUTUBE", username: "ada" }],
  location: place,
  ...customised,
  remote_url: "https://example.org/c/1",
  ...remoteTimes,
  ...marks,
  tags: [named]
}

/** One record of each list. */
export const listExamples: Record<IncrementalModel, Fields> = {
  "ats.application": {
    ...identity,
    outcome: "PENDING",
    rejection_reason_name: "none",
    rejected_at: at,
    current_stage_id: "st1",
    job_id: "j1",
    candidate_id: "c1",
    screening_question_answers: [
      { answer: { choice: "yes" }, question: { remote_id: "q1", title: "Visa?", type: "SINGLE_SELECT" } }
    ],
    ...customised,
    remote_url: "https://example.org/a/1",
    ...remoteTimes,
    ...marks,
    candidate,
    current_stage: { ...named, status: "ACTIVE", ...customised, index: 2 },
    job: named,
    interviews: [{ ...of("i1"), title: "First", starting_at: at, ending_at: at, location: place, canceled: false }],
    offers: [{ ...of("o1"), status: "ACCEPTED" }]
  },
  "ats.scorecard": {
    ...identity,
    candidate_id: "c1",
    application_id: "a1",
    interview_id: "i1",
    author_id: "u1",
    responses: [
      {
        answer: { label: "Good", remote_id: "1" },
        description: "How?",
        label: "Overall",
        remote_id: "q",
        required: true,
        type: "SINGLE_SELECT",
        options: [{ label: "Good", remote_id: "1" }]
      },
      { answer: [{ label: "A", remote_id: "1" }], label: "Skills", type: "MULTI_SELECT" },
      { answer: "fine", label: "Text", type: "TEXT" },
      { answer: true, label: "Hire?", type: "BOOLEAN" },
      { answer: 4.5, label: "Score", type: "NUMBER" },
      { answer: "2024-05-01", label: "Day", type: "DATE" },
      { answer: null, label: "Empty", type: "TEXT" }
    ],
    ...remoteTimes,
    ...marks,
    author: { ...of("u1"), first_name: "Bo", last_name: "M.", email: "bo@example.org" }
  },
  "ats.offer": {
    ...identity,
    status: "SENT",
    employment_start_date: at,
    application_id: "a1",
    ...customised,
    ...remoteTimes,
    ...marks,
    application: {
      candidate: { ...of("c1"), first_name: "Ada", last_name: "L.", email_addresses: [email] },
      job: named
    }
  },
  "ats.tag": { ...identity, name: "urgent", ...marks },
  "hris.payslip": {
    ...identity,
    ...marks,
    totals: { gross_pay: money, net_pay: money, paid_amount: money },
    employee: person,
    pay_run: { ...of("pr1"), start_date: "2024-05-01", end_date: "2024-05-31", legal_entity_id: "le1" },
    line_items: [{ ...named, amount: money }]
  },
  "hris.performance_review": {
    ...identity,
    type: "MANAGER",
    summary_comment: "Good work.",
    summary_rating: { type: "SINGLE_SELECT", ordered_options: ["low", "high"], value: "high" },
    ...marks,
    reviewee: person,
    reviewer: person,
    review_cycle: { ...of("rc1"), ...cycle }
  },
  "hris.performance_review_cycle": { ...identity, ...cycle },
  "hris.staffing_entity": {
    ...identity,
    name: "Engineer",
    model_type: "REQUISITION",
    description: "Builds.",
    status: "OPEN_LIMITED",
    employment_types: [{ remote_label: "Permanent", unified_type: "FULL_TIME" }],
    number_of_openings: 2,
    parent_id: "pos1",
    remote_url: "https://example.org/s/1",
    ...remoteTimes,
    ...marks,
    ...customised,
    locations: [{ ...named, type: "OFFICE" }],
    legal_entities: [named],
    groups: [{ ...named, type: "TEAM" }],
    skills: [{ skill_id: "sk1", skill: { ...named, proficiency_scale: scale }, expected_proficiency: 3 }]
  },
  "hris.legal_entity": { ...identity, name: "Engines Ltd", address: place, ...marks },
  "hris.skill": {
    ...identity,
    name: "Weaving",
    proficiency_scale_id: "s1",
    remote_created_at: at,
    ...marks,
    ...customised,
    proficiency_scale: { ...scale, type: "SINGLE_SELECT" }
  },
  "hris.absence_type": {
    ...identity,
    name: "Holiday",
    unit: "DAYS",
    half_days_supported: true,
    exact_times_supported: false,
    ...customised,
    ...marks
  }
}

const course = {
  ...identity,
  provider_id: "pv1",
  origin_id: "or1",
  remote_created_at: at,
  ...marks,
  ...customised,
  provider: named,
  revisions: [{
    ...of("rv1"),
    course_id: "r1",
    title: "Looms",
    description: "How to weave.",
    remote_url: "https://example.org/courses/1",
    status: "ACTIVE",
    remote_created_at: at,
    ...marks,
    ...customised,
    skill_assignments: [{ skill: named }]
  }]
}
const rating = {
  ...identity,
  employee_id: "e1",
  skill_id: "sk1",
  proficiency: { type: "SINGLE_SELECT", selected_option_id: "op1" },
  rating_source: "EXTERNAL",
  rating_provider_id: "rp1",
  ...marks,
  ...customised
}
const expectation = {
  id: "x1",
  staffing_entity_id: "se1",
  skill_id: "sk1",
  expected_proficiency: { type: "NUMERIC", value: 3 },
  changed_at: at,
  remote_deleted_at: at
}
const attachment = {
  ...identity,
  type: "CV",
  data_url: "https://example.org/files/1",
  file_name: "cv.pdf",
  content_type: "application/pdf",
  ...remoteTimes
}
const assessmentPackage = { id: "p1", name: "Logic", description: "Riddles.", updated_at: at, type: "SKILLS_TEST" }
const supported = { id: "employees", label: "Employees", coverage_status: "SUPPORTED" }
const covered = { ...supported, fields: [{ id: "first_name", coverage_status: "UNSUPPORTED" }] }
const tool = {
  id: "greenhouse",
  label: "Greenhouse",
  internal_label: "Greenhouse (EU)",
  assets: {
    logo_url: "https://example.org/logo.svg",
    icon_url: "https://example.org/icon.svg",
    icon_black_url: "https://example.org/black.svg"
  },
  paid_api_details_markdown: "Free.",
  fast_track_details_markdown: "Fast.",
  partner_only_details_markdown: "Open.",
  connection_guide_url: "https://example.org/guide",
  coverage: { read_models: [covered], write_actions: [covered], features: [supported] }
}

/** One record of each kind that no list contains. */
export const recordExamples = { candidate, course, rating, expectation, attachment, assessmentPackage, tool }

const described = {
  label: "Label",
  required: true,
  description: "The description of the field.",
  unified_key: "first_name"
}

/** A field of each type; objects and arrays have content. */
export const form = {
  properties: {
    first_name: { ...described, type: "text", min_length: 1, max_length: 40, reg_exp: "^[A-Z]" },
    start_date: { ...described, type: "date" },
    hours: { ...described, type: "number", min: 1, max: 40 },
    address: {
      ...described,
      type: "object",
      properties: { city: { ...described, type: "text", min_length: 1, max_length: 20, reg_exp: null } }
    },
    lucky_numbers: {
      ...described,
      type: "array",
      item_type: { ...described, type: "number", min: 0, max: 9 },
      min_items: 1,
      max_items: 3
    },
    contract: {
      ...described,
      type: "single_select",
      options: {
        type: "inline",
        entries: [
          { id: "op1", label: "Full time", unified_value: "FULL_TIME", remote_id: "1" },
          { id: "op2", label: "Intern", unified_value: null, remote_id: null }
        ]
      }
    }
  }
}

/** Answers that match the form. */
export const answers = {
  first_name: "Ada",
  start_date: "2024-02-29",
  hours: 32.5,
  address: { city: "Bern" },
  lucky_numbers: [7, 9],
  contract: "op1"
}

/** `data` of each response. */
export const readExamples: Record<ReadName, Fields> = {
  attachments: { results: [attachment] },
  employeeForm: form,
  assessmentPackages: { packages: [assessmentPackage] },
  tools: { tools: [tool] }
}

interface WriteExample<W extends WriteName> {
  readonly params: WriteParams<W>
  readonly body: WriteBody<W>
  /** `data` of the response. */
  readonly data: Fields
}

const upload = { name: "cv.pdf", content_type: "application/pdf", data: "JVBERi0xLjQ=" }

export const writeExamples: { readonly [W in WriteName]: WriteExample<W> } = {
  createApplication: {
    params: { job_id: "j1" },
    body: {
      stage_id: "st1",
      candidate: {
        first_name: "Ada",
        last_name: "L.",
        email_address: "ada@example.org",
        company: "Engines",
        title: "Countess",
        phone_number: "+41 31 000 00 00",
        location: { city: "Bern", country: "CH", state: "BE", zip_code: "3011" },
        gender: "MALE",
        availability_date: "2024-05-01",
        salary_expectations: { period: "YEAR", amount: 90_000.5 }
      },
      attachments: [{ ...upload, type: "CV" }],
      screening_question_answers: [
        { question_id: "q1", answer: "yes" },
        { question_id: "q2", answer: ["op1", "op2"] }
      ]
    },
    data: listExamples["ats.application"]
  },
  addResultLink: {
    params: { application_id: "a1" },
    body: {
      label: "Logic test",
      url: "https://example.org/results/1",
      details: { custom_field_name_prefix: "Acme: ", attributes: [{ key: "Score", value: "97 %" }] },
      remote_fields: { system: { flag: true } }
    },
    data: {}
  },
  addTag: { params: { candidate_id: "c1" }, body: { tag: { name: "Excellent" } }, data: {} },
  removeTag: { params: { candidate_id: "c1" }, body: { tag: { name: "Excellent" } }, data: {} },
  updateInterview: {
    params: { application_id: "a1" },
    body: {
      interview_id: "i1",
      title: "Second",
      start_time: at,
      end_time: at,
      interviewer_user_ids: ["u1", "u2"],
      organizer_user_id: "u1",
      location: { address: "Marktgasse 1" }
    },
    data: {}
  },
  addCandidateAttachment: {
    params: { candidate_id: "c1" },
    body: { attachment: { ...upload, type: "CV" } },
    data: {}
  },
  createEmployee: {
    params: {},
    body: { staffing_entity_id: "5tQ2mWcXyZ7aBcDeFgHjKLMN", properties: answers },
    data: { ...of("e1"), prehire: { remote_id: "pre1" } }
  },
  uploadDocument: {
    params: { employee_id: "e1" },
    body: { category_id: "dc1", document: upload },
    data: {}
  },
  rateSkill: {
    params: {},
    body: { employee_id: "e1", skill_id: "sk1", rating: { rating_source: "EXTERNAL", proficiency: 3 } },
    data: rating
  },
  expectSkill: {
    params: { staffing_entity_id: "se1" },
    body: { skill_id: "sk1", expected_proficiency: 3 },
    data: expectation
  },
  replacePackages: {
    params: {},
    body: { packages: [{ id: "p1", type: "SKILLS_TEST", name: "Logic", description: "Riddles." }] },
    data: {}
  },
  deactivateCourse: { params: { course_id: "remote:42/b" }, body: {}, data: course }
}
