/** Mutants that read the API, its responses and its clock with one defense less. */
import { type Mutant, mutant } from "./Mutant.ts"

export const readingMutants: ReadonlyArray<Mutant> = [
  mutant("one-poll-window", "every change lies inside two complete polls", [
    "updatedAfter: state.previousWatermark - pollOverlap",
    "updatedAfter: state.watermark! - pollOverlap"
  ], [
    "        previousWatermark: state.watermark,\n",
    "        previousWatermark: Math.max(state.watermark ?? watermark, watermark),\n"
  ]),
  mutant("no-second-pass", "a backfill that may have skipped records needs another pass", [
    "  if (possibleGap === undefined || pages === 1) return false\n",
    "  if (possibleGap !== undefined || pages >= 1) return false\n"
  ]),
  mutant("restart-unseen", "a restart between two pages of a backfill requires another pass", [
    '  if (!isSameOwner(lastPageOwner, owner)) return "restart"\n',
    "  if (!isSameOwner(lastPageOwner, owner)) return undefined\n"
  ]),
  mutant("client-clock", "the watermark comes from the server's clock", [
    "  const known = knownOffset(clockOffsets)\n",
    "  if (sample.requestedAt > 0) return { watermark: sample.requestedAt, clockOffsets, isSkewed: false }\n  const known = knownOffset(clockOffsets)\n"
  ]),
  mutant("newest-timestamp", "the watermark is never the newest timestamp seen", [
    "    const { watermark } = estimate\n",
    `    let watermark = estimate.watermark
    for (const row of page.results) {
      watermark = Math.max(watermark, Date.parse(String(row.changedAt)) || 0)
    }
`
  ]),
  mutant("polls-first", "a due sweep has its turn after a poll, however long polls take", [
    "sweepAt <= now && stream.lastTried",
    "sweepAt <= now && state.failing !== null && stream.lastTried"
  ]),
  mutant("status-without-envelope", "a status counts only with the API's envelope", [
    '  if (property(body, "status") !== "error" || typeof error !== "object" || error === null) {\n',
    "  if (status === 304) {\n"
  ]),
  mutant("same-page-size", "a page that takes the API too long is requested with fewer rows", [
    "tries >= triesOfKnownSize) rows = fewer(rows)",
    "tries >= triesOfKnownSize) rows = Math.max(rows, fewer(rows))"
  ], [
    "trial: Math.min(rows, fewer(latest.rows))",
    "trial: rows"
  ]),
  mutant("pages-grow-midway", "a page is larger than the one before it only at the start of a run", [
    "const mayGrow = cursor === null && ids === null && !isOfPlugin && now >= size.growAt",
    "const mayGrow = ids === null"
  ]),
  mutant("no-margin", "polls overlap", [
    "state.previousWatermark - pollOverlap(state.overlap, stream.minOverlap)",
    "state.previousWatermark"
  ]),
  mutant("late-date", "the `Date` of the first response counts, not that of the last", [
    "const estimate = run.watermark === null\n",
    "const estimate = page.results.length >= 0\n"
  ]),
  mutant("outdated-state", "an empty poll is committed only if nothing else has changed the stream's state", [
    "WHERE ${is(before)} AND state = ${JSON.stringify(before)}\n",
    "WHERE ${is(before)}\n"
  ], [
    "  const known = worker.wakeUp.isOpen() ? null : worker.known\n",
    "  const known = worker.known\n"
  ]),
  mutant("watermark-apart", "the watermark moves in the transaction of the last page", [
    "    const { watermark } = estimate\n",
    "    const { watermark } = estimate\n    if (page.next === null) {\n      yield* store.transact(stream.owner, stream.key, (tx) => tx.saveState({ ...tx.state, previousWatermark: tx.state.watermark, watermark: Math.max(tx.state.watermark ?? 0, watermark) }))\n    }\n"
  ]),
  mutant("watermark-every-page", "the watermark moves with the last page only", [
    "isLast ? endPoll(state, addPage(read, counts)) : state\n",
    "isLast ? endPoll(state, addPage(read, counts)) : { ...state, previousWatermark: state.watermark, watermark: Math.max(state.watermark ?? watermark, watermark) }\n"
  ]),
  mutant("empty-page-ends", "an empty page with a cursor is not the end", [
    "    const next = page.next\n",
    "    const next = page.results.length === 0 ? null : page.next\n    page = { ...page, next }\n"
  ]),
  mutant("margin-never-widened", "polls look back as far as late changes require", [
    "overlap: widenOverlap(before.overlap, rows.lag, { interval, minOverlap })",
    "overlap: Math.max(before.overlap, 0 * widenOverlap(before.overlap, rows.lag, { interval, minOverlap }))"
  ]),
  mutant("one-sighting-absent", "an absence counts only after a request with controls confirms it", [
    'rows, shownBy } = yield* refetch(stream, ids, controls, "confirm")',
    'rows, shownBy } = yield* Effect.succeed({ rows: [], absent: ids, inconclusiveReason: controls.length < 0 ? "" : null })'
  ]),
  mutant("no-control", "a confirmation counts only if it returns the control records", [
    ": controls.some((control) => missing.has(control))",
    ": controls.length < 0"
  ], [
    ": controls.length === 0 && missing.size > 0",
    ": controls.length < 0"
  ]),
  mutant("one-control", "controls are the first and the last requested id", [
    "...controls.slice(-1)]\n",
    "]\n"
  ], [
    "controls.some((control) => missing.has(control))",
    "controls.slice(0, -1).some((control) => missing.has(control))"
  ]),
  mutant("nameless-infers", "a sweep or a confirmation with unreadable rows confirms no absence", [
    "if (run.rowCounts.quarantined > 0) {",
    "if (run.rowCounts.quarantined < 0) {"
  ], [
    'if (!("id" in row)) broken = "a row of the response is unreadable"',
    'if (!("id" in row)) continue'
  ]),
  mutant("nameless-dropped", "an unreadable row is quarantined and counted", [
    "yield* tx.quarantine(plan.quarantined)",
    "yield* tx.quarantine([])"
  ], [
    "read: unreadable.length, quarantined: unreadable.length }",
    "read: unreadable.length }"
  ]),
  mutant("hash-without-removal", "the hash of a row covers which copies of forgotten records are removed from it", [
    "hashOf(secret + fingerprint + removal, bytes)",
    "hashOf(secret + fingerprint + removal.slice(0, 0), bytes)"
  ]),
  mutant("hash-of-beginning", "the hash of a row covers all of its bytes", [
    "hashOf(secret + fingerprint + removal, bytes)",
    "hashOf(secret + fingerprint + removal, bytes.subarray(0, 100))"
  ]),
  mutant("scan-without-escapes", "a quote after a backslash does not end a text", [
    "    next = endOfEscape(bytes, next)\n",
    "    next = Math.min(endOfEscape(bytes, next), next + 1)\n"
  ]),
  mutant("first-property-counts", "of two properties with the same name the last one counts", [
    '        if (property === "id") id = { from, to: next }\n',
    '        if (property === "id") id ??= { from, to: next }\n'
  ]),
  mutant("no-point-re-read", "a refetch decides between two copies that differ", [
    'if (known.lastSeenRunId === context.runId) return sameAsNewest ? { _tag: "Duplicate" } : { _tag: "Disputed" }',
    'if (known.lastSeenRunId === context.runId && sameAsNewest) return { _tag: "Duplicate" }'
  ], [
    'if (isOutdated && !sameAsNewest) return { _tag: "Disputed" }',
    ""
  ]),
  mutant("refresh-settles", "a record stays stale until a conclusive response", [
    "  if (result.inconclusiveReason !== null) {\n",
    "  if (result.inconclusiveReason !== null) {\n    yield* store.transact(stream.owner, stream.key, (tx) => tx.markRefreshed(ids))\n"
  ]),
  mutant("no-refresh", "a record that repeats content is re-read when that content changes elsewhere", [
    'if (stale === "everything") return "sweep"',
    'if (stale.length >= 0) return "done"'
  ]),
  mutant("list-references", "the references that a defined list names are its references", [
    "    nested: references?.map(({ kind, path, shared }) => ({ path: segmentsOf(path), kind, shared })) ?? nested,\n",
    "    nested,\n"
  ]),
  mutant("list-order", "the order of the arrays that a defined list names has no meaning", [
    "    unordered: unordered ?? knownUnordered,\n",
    "    unordered: knownUnordered,\n"
  ]),
  mutant("list-polled", "a defined list whose `updated_after` cannot be trusted is never polled", [
    "    ...sweepOnly ? { sweepOnly } : {},\n",
    ""
  ]),
  mutant("unshared-budget", "a process takes only slots of the account that no other process has", [
    "share(own, leases.filter((lease) => lease !== row))",
    "share(own, leases.filter((lease) => lease !== row && lease.slots < 0))"
  ])
]
