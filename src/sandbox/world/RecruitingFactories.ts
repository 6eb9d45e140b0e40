/** The factories of the records of recruiting. */
import { named, person, type RecordFactory } from "./RecordDraft.ts"
import { iso, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"

const day = 86_400_000

/** Fraction of the applications whose candidate has applied before. */
const returningCandidates = 0.08

const application: RecordFactory = (draft) => {
  const { given, isNew, moment, random, records } = draft
  const stages = records.rows("ats.stage")
  const outcome = random.boolean(0.45) ? "PENDING" : random.boolean(0.25) ? "HIRED" : "DECLINED"
  const declined = !isNew && outcome === "DECLINED"
  const hired = !isNew && outcome === "HIRED"
  return {
    fields: {
      outcome: isNew ? "PENDING" : outcome,
      rejection_reason_name: declined ? random.pick(SampleData.rejections) : null,
      rejected_at: declined ? iso(moment.changedAt) : null
    },
    one: {
      candidate: given["candidate"] ?? (random.boolean(returningCandidates) ? draft.pick("ats.candidate") : null) ??
        draft.create("ats.candidate"),
      current_stage: (isNew ? stages[0] : hired ? stages.at(-1) : stages[random.int(0, stages.length - 2)]) ?? null,
      job: draft.pick("ats.job", (job) => job.fields["status"] !== "CLOSED")
    },
    many: { interviews: [], offers: [] }
  }
}

export const recruitingFactories = {
  "ats.user": person,
  "ats.job": ({ count, random }) => ({
    fields: { name: SampleData.jobTitle(random), status: count % 10 === 9 ? "CLOSED" : "OPEN" }
  }),
  "ats.stage": (draft) => ({ fields: { ...named(SampleData.stageNames)(draft).fields, index: draft.count } }),
  "ats.tag": named(SampleData.tagNames),
  "ats.candidate": (draft) => ({ ...person(draft), many: { tags: draft.pickSome("ats.tag", 2) } }),
  "ats.application": application,
  "ats.interview": (draft) => {
    const startingAt = draft.moment.createdAt + draft.random.int(1, 14) * day
    return {
      fields: {
        title: draft.random.pick(SampleData.interviewTitles),
        starting_at: iso(startingAt),
        ending_at: iso(startingAt + 3_600_000),
        canceled: false
      },
      one: { application: draft.linked("application", "ats.application") }
    }
  },
  "ats.offer": (draft) => ({
    fields: { status: draft.random.pick(["SENT", "SENT", "ACCEPTED", "DECLINED", "DRAFT", "APPROVED", "ABANDONED"]) },
    one: { application: draft.linked("application", "ats.application") }
  }),
  "ats.scorecard": (draft) => {
    const application = draft.linked("application", "ats.application")
    return {
      fields: { responses: SampleData.scorecardResponses(draft.random, draft.moment.createdAt) },
      one: {
        application,
        candidate: application?.one["candidate"] ?? null,
        interview: application?.many["interviews"]?.at(-1) ?? null,
        author: draft.pick("ats.user")
      }
    }
  },
  "ats.attachment": (draft) => {
    const application = draft.linked("application", "ats.application")
    const type = draft.random.pick(["CV", "CV", "COVER_LETTER", "OTHER"])
    return {
      fields: {
        type,
        file_name: `${type.toLowerCase()}.txt`,
        content_type: "text/plain",
        data: SampleData.fileContent(type)
      },
      one: { application, candidate: application?.one["candidate"] ?? null }
    }
  },
  "ats.result_link": (draft) => ({
    fields: { label: "Result", url: "https://results.example/1", details: null, remote_fields: null },
    one: { application: draft.linked("application", "ats.application") }
  })
} satisfies Partial<Record<WorldModel, RecordFactory>>
