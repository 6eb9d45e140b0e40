/**
 * Rules for events of candidates, which have no list of their own: the published applications that show a candidate decide (N5, N6).
 *
 * Gotchas
 * - No candidate is deleted in these worlds. A candidate ends only when every application that showed it was emptied,
 *   including those that were deleted before.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { JsonObject, Row } from "../world/Table.ts"
import { contentOf } from "./Content.ts"
import { checkSequence } from "./EventRules.ts"
import { type ObservedStream, type PublishedRecord, type ReportViolation, unpublished } from "./ObservedStream.ts"

export const model = "ats.candidate"

/** The candidate that a published application shows. */
export const candidateIn = (application: JsonObject | null): (JsonObject & { readonly id: string }) | null => {
  const candidate = application?.["candidate"]
  return typeof candidate === "object" && candidate !== null && "id" in candidate
    ? candidate as JsonObject & { readonly id: string }
    : null
}

const stampOf = (candidate: JsonObject): number => Date.parse(String(candidate["changed_at"]))

type PublishedCandidate = Pick<PublishedRecord, "version" | "after" | "afterText">

/** The candidates of one integration. */
export class Candidates {
  #published = new Map<string, PublishedCandidate>()
  /** Application → the candidate that it showed when it was published last, even if it is flagged as deleted since. */
  #shown = new Map<string, string>()
  /** Candidates that a vanished application showed: if it was the last one, they stay (N6). */
  #orphans = new Set<string>()

  get published(): ReadonlyMap<string, PublishedCandidate> {
    return this.#published
  }

  copy(): Candidates {
    const copy = new Candidates()
    copy.#published = new Map(this.#published)
    copy.#shown = new Map(this.#shown)
    copy.#orphans = new Set(this.#orphans)
    return copy
  }

  /** Every live candidate is published again, as version 1, unless it is hidden. */
  adopted(isHidden: (id: string) => boolean): void {
    this.#published = new Map(
      [...this.#published].map(([id, published]) => [
        id,
        published.after === null || isHidden(id)
          ? { version: 0, after: null, afterText: null }
          : { ...published, version: 1 }
      ])
    )
  }

  /** Called when an application is published. */
  applicationPublished({ after, id, reason }: NewEvent): void {
    const candidate = after === null ? null : candidateIn(JSON.parse(after))
    const before = this.#shown.get(id)
    if (reason === "absent" && before !== undefined) this.#orphans.add(before)
    if (candidate !== null) this.#shown.set(id, candidate.id)
    else if (after !== null || reason !== "flagged") this.#shown.delete(id)
  }

  /** Called when an application that was forgotten may be stored again: its candidate is not known until it is published. */
  applicationAllowed(id: string): void {
    this.#shown.delete(id)
  }

  /** Applications that showed the candidate last, and were not emptied when they were deleted. */
  #showing(id: string): ReadonlyArray<string> {
    return [...this.#shown].flatMap(([application, candidate]) => candidate === id ? [application] : [])
  }

  /** `erased`: candidates of applications that were emptied in the same transaction. */
  checkEvent(
    applications: ObservedStream,
    event: NewEvent,
    erased: ReadonlySet<string>,
    reportAll: ReportViolation
  ): void {
    const report: ReportViolation = (invariant, what) =>
      reportAll(invariant, `${event.kind} ${event.version} of candidate ${event.id}: ${what}`)
    const previous = this.#published.get(event.id) ?? unpublished
    checkSequence(event, previous, report)
    const after: JsonObject | null = event.after === null ? null : JSON.parse(event.after)
    this.#published.set(event.id, { version: event.version, after, afterText: event.after })
    const copies = copiesOf(applications, event.id)
    if (after === null && event.reason === "forgotten") return
    if (after === null) {
      const flagged = this.#showing(event.id)
      if (event.reason !== "erased" || (!erased.has(event.id) && flagged.length === 0)) {
        report("N6", `${event.reason}, but none of its applications was erased`)
      }
      if (copies.length > 0) report("N6", "a live application shows it")
      if (!flagged.every((id) => wasShownBlank(applications, id) || isForgotten(applications, id))) {
        report("N6", "a deleted application that was not emptied showed it")
      }
      for (const id of flagged) this.#shown.delete(id)
      return
    }
    // The latest `changed_at` wins, then the smallest application id.
    const newest = copies.filter(({ stamp }) => stamp === Math.max(...copies.map(({ stamp }) => stamp)))
    const [chosen] = newest.sort((a, b) => a.parent < b.parent ? -1 : 1)
    if (chosen === undefined) return report("N5", "no application shows it")
    if (contentOf(chosen.candidate) !== contentOf(after)) report("N5", "another application shows newer content")
    if (previous.after !== null && stampOf(after) < stampOf(previous.after)) {
      report("N5", "it went back to an earlier copy")
    }
  }

  /** Every candidate of a live application is published with its newest copy; a newer copy may be gone (I8, N6). */
  conclude(applications: ObservedStream, report: ReportViolation): void {
    const { forgettings, pending, table } = applications
    const { integration } = table
    const live = [...table.byId.values()].flatMap((row) => {
      const truth = row.history.at(-1)!
      const isShown = truth.live && !forgettings.hides({ integration, model: table.model, id: row.id })
      const candidate = isShown ? candidateIn(forgettings.shown(integration, truth.record)) : null
      return candidate === null ? [] : [candidate]
    })
    for (const [id, copies] of Map.groupBy(live, ({ id }) => id)) {
      const newest = copies.reduce((best, copy) => stampOf(copy) > stampOf(best) ? copy : best)
      const published = this.#published.get(id)?.after ?? null
      if (published !== null && (contentOf(published) === contentOf(newest) || stampOf(published) > stampOf(newest))) {
        continue
      }
      // An application of which only `changed_at` moved is not published again, so its copy counts with the published time.
      const publishedCopies = copiesOf(applications, id)
      const latest = Math.max(...publishedCopies.map(({ stamp }) => stamp))
      const counted = publishedCopies.find(({ stamp }) => stamp === latest)
      if (published !== null && counted !== undefined && contentOf(published) === contentOf(counted.candidate)) continue
      report(
        "I8",
        `candidate ${id} is ${contentOf(newest)}, published as ${published === null ? "gone" : contentOf(published)}`
      )
    }
    for (const [id, { after }] of this.#published) {
      const showing = this.#showing(id)
      const isErased = showing.length > 0 && !this.#orphans.has(id) &&
        showing.every((application) =>
          isForgotten(applications, application) ||
          (!pending.has(application) && isListedBlank(table.byId.get(application)))
        )
      if (isErased && after !== null) {
        report("D11", `candidate ${id} is live, but every application that showed it is erased`)
      }
    }
  }
}

const isForgotten = ({ forgettings, table: { integration, model } }: ObservedStream, id: string): boolean =>
  forgettings.hides({ integration, model, id })

const isListedBlank = (row: Row | undefined): boolean => row?.blank === true && !row.gone

/** Whether a page showed the application as deleted and emptied since it was last published. */
const wasShownBlank = ({ records, servedAt, table }: ObservedStream, id: string): boolean => {
  const published = records.get(id)?.state ?? -1
  return [...servedAt.get(id)?.keys() ?? []].some((state) => {
    const served = table.byId.get(id)?.history[state]
    return state >= published && served?.live === false && candidateIn(served.record) === null
  })
}

const copiesOf = ({ records }: ObservedStream, id: string) =>
  [...records].flatMap(([parent, { after }]) => {
    const candidate = candidateIn(after)
    return candidate?.id === id ? [{ parent, candidate, stamp: stampOf(candidate) }] : []
  })
