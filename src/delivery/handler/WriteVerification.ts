/**
 * Finds out whether a write of unknown outcome took effect, by reading the API.
 *
 * Gotchas
 * - The API may show an effect late. A missing effect means "not done" only `settlingMillis` after the write.
 * - A list may lack rows for many reasons, so a missing application does not prove that it was not created. A second one would do harm. So
 *   if the application is not found, an operator decides.
 * - Only data that the API lists can be checked: the tags of a candidate, as applications show them, and the title and times of an
 *   interview. The API does not show the interviewers.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Application } from "../../api/Records.ts"
import type { CreateApplication, TagCandidate, UpdateInterview } from "../../api/Recruiting.ts"
import { type WriteBody, type WriteData, type WriteName, type WriteParams, writes } from "../../api/Writes.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { WriteOptions } from "../../plugin/Capabilities.ts"
import type { HandlerError } from "../../plugin/Failure.ts"
import type { Page, PageRequest, Source } from "../../source/Source.ts"
import type { AttemptJournal } from "../../store/AttemptJournal.ts"
import * as ErrorMapping from "./ErrorMapping.ts"
import type { IntegrationAccounts } from "./IntegrationAccounts.ts"

export interface Services {
  readonly journal: AttemptJournal
  readonly source: Source["Service"]
  readonly accounts: Pick<IntegrationAccounts, "of">
}

/** A write that a handler requests. */
export interface RequestedWrite<W extends WriteName> {
  readonly integration: string
  readonly write: W
  readonly params: WriteParams<W>
  readonly body: WriteBody<W>
  readonly options: WriteOptions<W>
}

export type Verification<W extends WriteName> =
  | { readonly _tag: "Done"; readonly data: WriteData<W> }
  | { readonly _tag: "NotDone" }
  | { readonly _tag: "NotYet"; readonly retryAfter: Duration.Duration }
  | { readonly _tag: "Undetermined" }

/** How long the API may take to show the effect of a write. */
export const settlingMillis = Duration.toMillis("5 minutes")
/** Maximum number of applications that are read for one candidate, and of pages that are read for a new application. */
const limits = { applications: 50, pages: 40 }
/** Clocks differ, so the search for a new application starts this long before the write was sent. */
const clockSkewMillis = Duration.toMillis("10 minutes")

type Evidence = "yes" | "no" | "unknown"

interface Listed {
  /** Null if the list has too many pages. */
  readonly found: ReadonlyArray<Application> | null
  /** The API's clock − ours, in ms; 0 if its responses do not show it. */
  readonly offset: number
}

const decode = Schema.decodeUnknownOption(Application)

const applications = Effect.fnUntraced(function*(
  { accounts, source }: Services,
  integration: string,
  filter: Pick<PageRequest, "ids" | "updatedAfter">
): Effect.fn.Return<Listed, HandlerError> {
  const account = yield* accounts.of(integration)
  const found: Array<Application> = []
  let cursor: string | null = null
  let offset = 0
  for (let page = 0; page < limits.pages; page++) {
    const response: Page = yield* Effect.mapError(
      source.page({ account, integration, model: "ats.application", priority: "write", cursor, ...filter }),
      (error) => ErrorMapping.fromApi("checking whether a write took effect", error, account)
    )
    for (const row of response.results) {
      const record = decode(row.value)
      if (record._tag === "Some") found.push(record.value)
    }
    if (response.serverTime !== null) offset = response.serverTime - response.requestedAt
    if (response.next === null) return { found, offset }
    cursor = response.next
  }
  return { found: null, offset }
})

type Application = typeof Application.Type

const evidenceOf = (
  applications: ReadonlyArray<Application> | null,
  judge: (all: ReadonlyArray<Application>) => Evidence
) => applications === null ? "unknown" : judge(applications)

/** All applications that show the candidate must have, or lack, the tag, because a single copy may be outdated. */
const tagged = (candidate: string, tag: string) => (all: ReadonlyArray<Application>): Evidence => {
  const copies = all.flatMap((application) => application.candidate?.id === candidate ? [application.candidate] : [])
  const [first, ...others] = copies.map(({ tags }) => tags?.some(({ name }) => name === tag) === true)
  return first === undefined || others.some((other) => other !== first) ? "unknown" : first ? "yes" : "no"
}

const sameTime = (a: string | null | undefined, b: string): boolean => {
  const time = parseTime(a)
  return time !== null && time === parseTime(b)
}

/** Compares the requested title and times with those that the API shows; "unknown" if none was requested. */
const interviewMatches = (wanted: UpdateInterview) => (all: ReadonlyArray<Application>): Evidence => {
  const interview = all.flatMap(({ interviews }) => interviews ?? []).find(({ id }) => id === wanted.interview_id)
  const { end_time, start_time, title } = wanted
  if (interview === undefined || (title ?? start_time ?? end_time ?? null) === null) return "unknown"
  const same = (title == null || interview.title === title) &&
    (start_time == null || sameTime(interview.starting_at, start_time)) &&
    (end_time == null || sameTime(interview.ending_at, end_time))
  return same ? "yes" : "no"
}

const isApplicationOf =
  (job: string, { candidate }: CreateApplication, since: number) => (application: Application): boolean =>
    application.job_id === job &&
    (application.remote_created_at == null || (parseTime(application.remote_created_at) ?? -Infinity) >= since) &&
    application.candidate?.first_name === candidate.first_name &&
    application.candidate?.last_name === candidate.last_name &&
    application.candidate?.email_addresses?.some(
        ({ email_address }) => email_address?.toLowerCase() === candidate.email_address.toLowerCase()
      ) === true

/** Whether the API shows the effect of `wanted`. `data`: the result of the write, such as the new application. */
const inspect = Effect.fnUntraced(function*(
  services: Services,
  wanted: RequestedWrite<WriteName>,
  begunAt: number
): Effect.fn.Return<{ readonly found: Evidence; readonly data: unknown }, HandlerError> {
  const { body, integration, params, write } = wanted
  const from = (filter: Partial<Pick<PageRequest, "ids" | "updatedAfter">>) =>
    applications(services, integration, { ids: null, updatedAfter: null, ...filter })
  switch (write) {
    case "addTag":
    case "removeTag": {
      const { candidate_id } = params as { readonly candidate_id: string }
      const ids = yield* Effect.mapError(
        services.journal.applicationsOf(integration, candidate_id, limits.applications),
        ErrorMapping.fromStore
      )
      if (ids.length === 0) return { found: "unknown", data: null }
      const { name } = (body as TagCandidate).tag
      const found = evidenceOf((yield* from({ ids })).found, tagged(candidate_id, name))
      if (found === "unknown" || write === "addTag") return { found, data: {} }
      return { found: found === "yes" ? "no" : "yes", data: {} }
    }
    case "updateInterview": {
      const { application_id } = params as { readonly application_id: string }
      return {
        found: evidenceOf((yield* from({ ids: [application_id] })).found, interviewMatches(body as UpdateInterview)),
        data: {}
      }
    }
    case "createApplication": {
      const { job_id } = params as { readonly job_id: string }
      const early = yield* from({ updatedAfter: begunAt - clockSkewMillis })
      // the API sets dates by its own clock, which may be far behind ours   (W4)
      const since = begunAt - clockSkewMillis + Math.min(0, early.offset)
      const late = early.offset < -clockSkewMillis / 2 ? yield* from({ updatedAfter: since }) : early
      // an empty list may mean that `updated_after` never finds anything   (C6)
      const { found: all } = late.found?.length === 0 ? yield* from({}) : late
      const [first, ...others] = (all ?? []).filter(isApplicationOf(job_id, body as CreateApplication, since))
      if (all === null || others.length > 0) return { found: "unknown", data: null }
      return first === undefined ? { found: "no", data: null } : { found: "yes", data: first }
    }
    default:
      return { found: "unknown", data: null }
  }
})

export const verifyWrite = Effect.fn("Plugin.verifyWrite")(function*<W extends WriteName>(
  services: Services,
  wanted: RequestedWrite<W>,
  begunAt: number
): Effect.fn.Return<Verification<W>, HandlerError> {
  const { data, found } = yield* inspect(services, wanted, begunAt)
  if (found === "unknown") return { _tag: "Undetermined" }
  // `inspect` returns the data of this write
  if (found === "yes") return { _tag: "Done", data: data as WriteData<W> }
  const left = begunAt + settlingMillis - (yield* Clock.currentTimeMillis)
  // The clock was set back since the write was sent, so we cannot know how long ago that was   (W4)
  if (left > 2 * settlingMillis) return { _tag: "Undetermined" }
  if (left > 0) return { _tag: "NotYet", retryAfter: Duration.millis(left) }
  return { _tag: writes[wanted.write].resolutionPolicy === "find" ? "Undetermined" : "NotDone" }
})
