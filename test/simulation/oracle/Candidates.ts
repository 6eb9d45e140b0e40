/**
 * What may be told of candidates, who have no list: judged by the published applications that show them (N5, N6).
 *
 * Gotchas
 * - Nobody deletes a candidate in these worlds: all that ends one is that every application that showed it was emptied,
 *   those among them that were deleted before.
 */
import type { NewEvent } from "../../../src/domain/ChangeEvent.ts"
import type { JsonObject, Row } from "../world/World.ts"
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

/** Of one integration. */
export class Candidates {
  #told = new Map<string, PublishedCandidate>()
  /** By application: whom it showed as published, last of all if it is flagged as deleted since. */
  #shown = new Map<string, string>()
  /** Shown by an application that vanished: if that was the last, they stay (N6). */
  #orphans = new Set<string>()

  get published(): ReadonlyMap<string, PublishedCandidate> {
    return this.#told
  }

  copy(): Candidates {
    const copy = new Candidates()
    copy.#told = new Map(this.#told)
    copy.#shown = new Map(this.#shown)
    copy.#orphans = new Set(this.#orphans)
    return copy
  }

  /** Every live one is published anew as version 1. */
  adopted(): void {
    this.#told = new Map([...this.#told].map(([id, told]) => [id, { ...told, version: told.after === null ? 0 : 1 }]))
  }

  /** An application is published. */
  applicationPublished({ after, id, reason }: NewEvent): void {
    const candidate = after === null ? null : candidateIn(JSON.parse(after))
    const before = this.#shown.get(id)
    if (reason === "absent" && before !== undefined) this.#orphans.add(before)
    if (candidate !== null) this.#shown.set(id, candidate.id)
    else if (after !== null || reason !== "flagged") this.#shown.delete(id)
  }

  /** Applications that showed a candidate last, and were not emptied when they were deleted. */
  #showing(id: string): ReadonlyArray<string> {
    return [...this.#shown].flatMap(([application, candidate]) => candidate === id ? [application] : [])
  }

  /** `erased`: candidates of which an application was emptied in the same transaction. */
  checkEvent(
    applications: ObservedStream,
    event: NewEvent,
    erased: ReadonlySet<string>,
    reportAll: ReportViolation
  ): void {
    const report: ReportViolation = (invariant, what) =>
      reportAll(invariant, `${event.kind} ${event.version} of candidate ${event.id}: ${what}`)
    const known = this.#told.get(event.id) ?? unpublished
    checkSequence(event, known, report)
    const after: JsonObject | null = event.after === null ? null : JSON.parse(event.after)
    this.#told.set(event.id, { version: event.version, after, afterText: event.after })
    const copies = copiesOf(applications, event.id)
    if (after === null) {
      const flagged = this.#showing(event.id)
      if (event.reason !== "erased" || (!erased.has(event.id) && flagged.length === 0)) {
        report("N6", `${event.reason}, and nobody erased it`)
      }
      if (copies.length > 0) report("N6", "an application shows it")
      if (!flagged.every((id) => wasShownBlank(applications, id))) {
        report("N6", "an application that is deleted showed it")
      }
      for (const id of flagged) this.#shown.delete(id)
      return
    }
    // the greatest `changed_at`, then the smallest id of an application
    const newest = copies.filter(({ stamp }) => stamp === Math.max(...copies.map(({ stamp }) => stamp)))
    const [chosen] = newest.sort((a, b) => a.parent < b.parent ? -1 : 1)
    if (chosen === undefined) return report("N5", "no application shows it")
    if (contentOf(chosen.candidate) !== contentOf(after)) report("N5", "another application shows it later")
    if (known.after !== null && stampOf(after) < stampOf(known.after)) report("N5", "it went back to an earlier copy")
  }

  /** Whoever a live application shows is told of, as the newest copy is; one that was newer may be gone (I8, N6). */
  conclude(applications: ObservedStream, report: ReportViolation): void {
    const { pending, table } = applications
    const live = [...table.byId.values()].flatMap((row) => {
      const truth = row.history.at(-1)!
      const candidate = truth.live ? candidateIn(truth.record) : null
      return candidate === null ? [] : [candidate]
    })
    for (const [id, copies] of Map.groupBy(live, ({ id }) => id)) {
      const newest = copies.reduce((best, copy) => stampOf(copy) > stampOf(best) ? copy : best)
      const told = this.#told.get(id)?.after ?? null
      if (told !== null && (contentOf(told) === contentOf(newest) || stampOf(told) > stampOf(newest))) continue
      // an application of which only the stamp moved is not published again, so its copy counts with the stamp it had
      const published = copiesOf(applications, id)
      const latest = Math.max(...published.map(({ stamp }) => stamp))
      const counted = published.find(({ stamp }) => stamp === latest)
      if (told !== null && counted !== undefined && contentOf(told) === contentOf(counted.candidate)) continue
      report("I8", `candidate ${id} is ${contentOf(newest)}, told as ${told === null ? "gone" : contentOf(told)}`)
    }
    for (const [id, { after }] of this.#told) {
      const showing = this.#showing(id)
      const gone = showing.length > 0 && !this.#orphans.has(id) &&
        showing.every((application) => !pending.has(application) && isListedBlank(table.byId.get(application)))
      if (gone && after !== null) report("D11", `candidate ${id} lives, all that showed it is erased`)
    }
  }
}

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
