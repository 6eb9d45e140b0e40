/** Mutants that find, hold, derive or forget changes with one defense less. */
import { type Mutant, mutant } from "./Mutant.ts"

export const changeMutants: ReadonlyArray<Mutant> = [
  mutant("no-staging", "deletes are staged until the run is complete", [
    '      return stagedOrHeld("deletes", "flagged")\n',
    '      return { countedAs: "changed", write: write({ kind: "deleted", reason: "flagged" }) }\n'
  ]),
  mutant("release-lost", "the next complete run releases the changes that an earlier run staged", [
    "const rows = page.filter(isReleasedBy(context))",
    "const rows = page.filter((row) => isReleasedBy(context)(row) && row.runId === context.runId)"
  ]),
  mutant("uncounted-deletes", "the store counts the live records of a stream as they change", [
    "    return live === 0\n",
    "    return live <= 0\n"
  ]),
  mutant("no-canonical-form", "content is compared in canonical form", [
    'hash("sha256", canonical(value, shape), "base64url")',
    'hash("sha256", JSON.stringify([value, shape.masked.size]), "base64url")'
  ], [
    '      if (changes.length === 0) return { countedAs: "equivalent", write: write({ kind: "same" }) }\n',
    ""
  ]),
  mutant("unhashed-is-same", "a record whose canonical form was never needed is compared with its stored content", [
    "const isSame = then !== processing &&",
    "const isSame = head.canonicalHash === unhashed || then !== processing &&"
  ]),
  mutant("id-without-content", "an event id depends on the content", [
    "[generation, integration, model, id, version, kind, after].join",
    "[generation, integration, model, id, version, kind].join"
  ]),
  mutant("volatile-counts", "volatile paths never make a change alone", [
    'const volatile = ["changed_at", "remote_updated_at"]',
    "const volatile: Array<string> = []"
  ]),
  mutant("late-finds-as-new", "an old record that is found late is published as old", [
    'if (!observed.deleted) return { _tag: "Created", old: isOld(observed, context) }',
    'if (!observed.deleted) return { _tag: "Created", old: context.backfill }'
  ]),
  mutant("future-dates-as-new", "a time that has not come yet says nothing about the age of a record", [
    "time !== null && time <= shownAt ? time : null",
    "shownAt > 0 ? time : null"
  ]),
  mutant("emptied-is-update", "a record that was emptied is not published as updated", [
    "blank: isBlank(raw)",
    'blank: isBlank(raw) && raw["id"] === null'
  ]),
  mutant("unseen-silent", "a record that came and went between two runs is published", [
    "return afterBackfill && !observed.blank ?",
    "return afterBackfill && observed.blank ?"
  ]),
  mutant("no-guard", "waves of deletes and restores wait for an operator", [
    "  const limit = Math.max(limits.count, Math.floor(limits.share * records))\n",
    "  if (records >= 0) return null\n  const limit = Math.max(limits.count, Math.floor(limits.share * records))\n"
  ]),
  mutant("guard-without-window", "a wave in several parts counts as one wave", [
    "history.filter(isRecent(limits, now)).reduce<Waves>(",
    "history.filter(() => false).reduce<Waves>("
  ]),
  mutant("guard-per-page", "the guard evaluates a wave at the end of its run", [
    "endsRun: isLast,",
    "endsRun: true,"
  ]),
  mutant("absences-uncounted", "unconfirmed absences count towards the wave", [
    '(wave === "deletes" ? absences : 0)',
    "0 * absences"
  ]),
  mutant("no-scope-mask", "a field that becomes null everywhere is held", [
    "count >= limits.scopeCount && (",
    "count > Infinity && ("
  ]),
  mutant("field-back-unheld", "a field that returns everywhere is held", [
    "if (isNothing(a) === isNothing(b)) return null",
    "if (isNothing(a) === isNothing(b) || isNothing(a)) return null"
  ]),
  mutant("held-after-release", "a row leaves the hold in the transaction that publishes it", [
    "  yield* tx.dropPending(rows.map((row) => row.id))\n",
    "  yield* tx.dropPending(rows.filter(({ hold }) => hold === null).map((row) => row.id))\n"
  ]),
  mutant("released-uncounted", "the history of a run counts the changes that the end of the run releases", [
    "const published = addPublished(run.published, released)",
    "const published = addPublished(run.published, undefined)"
  ]),
  mutant("list-beside-derivation", "a list of candidates replaces their derivation", [
    "  const entries = [...byName.values()]\n",
    "  const entries = all\n"
  ]),
  mutant("list-without-backfill", "a list that replaces a derivation begins with a backfill", [
    "      const restarts = isRead(state) ? wasDerived(state) : state.watermark !== null\n",
    "      const restarts = false\n"
  ]),
  mutant("candidate-as-met", "of several copies of a candidate the newest counts", [
    "copies.reduce((best, other) => isBefore(other, best) ? other : best)",
    "copies.reduce((best, other) => isBefore(other, best) && copies.length === 0 ? other : best)"
  ], [
    "if (head !== undefined && isOlder(copy.changedAtMs, oldestAcceptedChange(head, content, areAll))) continue",
    "if (false) continue"
  ]),
  mutant("candidate-dies-along", "a candidate outlives its applications", [
    "if (!erased || shownUntilErased || head === undefined) continue",
    "if (head?.live !== true) continue"
  ]),
  mutant("candidate-dies-early", "a candidate stays while an application that showed it may come back", [
    "if (!erased || shownUntilErased || head === undefined) continue",
    "if (!erased || head === undefined) continue"
  ]),
  mutant("candidate-forgotten", "a candidate is erased with applications that were deleted before", [
    "!kept.has(parent) && (before.get(parent) ?? null) !== child",
    "(before.get(parent) ?? null) !== child"
  ]),
  mutant("forgotten-read-again", "no run stores a forgotten record", [
    "removalOf(processing.models, key.model, forgotten)",
    "removalOf(processing.models, key.model, nothingForgotten)"
  ]),
  mutant("forgotten-pending", "pending changes of a forgotten record are dropped", [
    "        yield* tx.dropPending([id])\n",
    ""
  ]),
  mutant("forgotten-unpublished", "the delete of a forgotten record is published", [
    "  events: [deletedEvent(tx, head, now)],\n  erased: true,\n",
    "  events: [],\n  erased: true,\n"
  ]),
  mutant("forgotten-copies", "a forgotten record is removed from the records that repeat it", [
    "of copies) {\n",
    "of copies.slice(0, 0)) {\n"
  ]),
  mutant("forgotten-rows", "earlier rows of a forgotten record are emptied", [
    "      yield* log.empty(positions)\n",
    "      yield* log.empty(positions.slice(1))\n"
  ]),
  mutant("forgotten-results", "results of other records' steps that contain a forgotten record are emptied", [
    "    yield* purge(deliveries.purgeResults(record.integration, idAsJson(record.id)))\n",
    ""
  ]),
  mutant("forgetting-abandoned", "an interrupted forgetting is resumed at the next start", [
    '      if (record.state !== "erasing" || !isTaken(record.integration)) continue\n',
    '      if (record.state !== "erasing" || record.doneAt === null) continue\n'
  ]),
  mutant("forgotten-adopted", "an adopted store publishes no forgotten record", [
    "  if (forgotten.get(stream.model)?.has(head.id) === true) {\n",
    "  if (forgotten.get(stream.model)?.has(head.id) === true && head.version < 0) {\n"
  ])
]
