/**
 * Mutants: each removes one defense from the service, with patches of its sources, so that production code needs no switches. A patch
 * quotes a text of the sources and names no file, so code can move between files and folders.
 */
import { globSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

export interface Patch {
  /** Must occur exactly once in all sources. */
  readonly from: string
  readonly to: string
}

export interface Mutant {
  readonly name: string
  /** The removed defense, as a sentence that no longer holds. */
  readonly without: string
  readonly patches: ReadonlyArray<Patch>
  /** The first world that the long tests try. */
  readonly firstWorld: number
}

/**
 * For each mutant that few worlds notice: a world that does. The long tests begin their search there: an outdated number costs only time, and
 * `npm run mutants -- --only <name> --until 1 --worlds 1000` prints the new one.
 */
const noticedIn: Readonly<Record<string, number>> = {
  "no-second-pass": 57,
  "restart-unseen": 63,
  "polls-first": 28,
  "late-date": 32,
  "nameless-infers": 84,
  "hash-without-removal": 42,
  "no-attempt-fence": 52,
  "batches-forgotten": 42,
  "checked-before-its-turn": 38,
  "list-references": 31,
  "list-polled": 20,
  "list-beside-derivation": 8,
  "list-without-backfill": 8,
  "no-refresh": 31,
  "candidate-dies-early": 51,
  "forgotten-results": 263,
  "forgetting-abandoned": 35,
  "forgotten-adopted": 195,
  "adoption-unreconciled": 72,
  "failover-unnoticed": 99,
  "unshared-budget": 108,
  "no-delivery-fence": 42,
  "unshared-circuits": 39
}

const mutant = (
  name: string,
  without: string,
  ...patches: ReadonlyArray<readonly [from: string, to: string]>
): Mutant => ({
  name,
  without,
  patches: patches.map(([from, to]) => ({ from, to })),
  firstWorld: noticedIn[name] ?? 1
})

export const mutants: ReadonlyArray<Mutant> = [
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
  mutant("lost-claims", "deliveries whose claim was committed without a response are claimed again", [
    "if (isClaimUncertain) yield* releaseLostClaims\n",
    "isClaimUncertain = false\n"
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
  mutant("no-staging", "deletes are staged until the run is complete", [
    '      return stagedOrHeld("deletes", "flagged")\n',
    '      return { countedAs: "changed", write: write({ kind: "deleted", reason: "flagged" }) }\n'
  ]),
  mutant("release-lost", "the next complete run releases the changes that an earlier run staged", [
    "const rows = page.filter(isReleasedBy(context))",
    "const rows = page.filter((row) => isReleasedBy(context)(row) && row.runId === context.runId)"
  ]),
  mutant("no-fencing", "a transaction of an older owner fails", [
    "if (Number(row?.epoch) !== owner.epoch) ",
    "if (Number(row?.epoch) < owner.epoch) "
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
  mutant("no-point-re-read", "a refetch decides between two copies that differ", [
    'if (known.lastSeenRunId === context.runId) return sameAsNewest ? { _tag: "Duplicate" } : { _tag: "Disputed" }',
    'if (known.lastSeenRunId === context.runId && sameAsNewest) return { _tag: "Duplicate" }'
  ], [
    'if (isOutdated && !sameAsNewest) return { _tag: "Disputed" }',
    ""
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
  mutant("empty-page-ends", "an empty page with a cursor is not the end", [
    "    const next = page.next\n",
    "    const next = page.results.length === 0 ? null : page.next\n    page = { ...page, next }\n"
  ]),
  mutant("nameless-dropped", "an unreadable row is quarantined and counted", [
    "yield* tx.quarantine(plan.quarantined)",
    "yield* tx.quarantine([])"
  ], [
    "read: unreadable.length, quarantined: unreadable.length }",
    "read: unreadable.length }"
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
  mutant("held-after-release", "a row leaves the hold in the transaction that publishes it", [
    "  yield* tx.dropPending(rows.map((row) => row.id))\n",
    "  yield* tx.dropPending(rows.filter(({ hold }) => hold === null).map((row) => row.id))\n"
  ]),
  mutant("refresh-settles", "a record stays stale until a conclusive response", [
    "  if (result.inconclusiveReason !== null) {\n",
    "  if (result.inconclusiveReason !== null) {\n    yield* store.transact(stream.owner, stream.key, (tx) => tx.markRefreshed(ids))\n"
  ]),
  mutant("no-echo", "a plugin's write is published with its cause", [
    "if (!tx.hasExpectations || ",
    "if (tx.hasExpectations || "
  ]),
  mutant("echo-takes-all", "other changes beside a plugin's write keep no cause", [
    'own.has("") ? [""] : withStamps(own, event.changes)',
    'own.has("") ? [""] : event.changes.map(({ path }) => path)'
  ]),
  mutant("undeclared-write", "a write that a plugin does not declare is not sent", [
    "needs?.writes?.includes(write) !== true",
    "needs?.writes?.includes(write) !== true && write.length < 0"
  ]),
  mutant("no-intent", "a write is recorded before it is sent", [
    "      if (known === undefined) {\n",
    "      if (known === undefined && now < 0) {\n"
  ]),
  mutant("refusals-count", "a request that the API does not accept now uses up no attempt", [
    "  if (blockedBy !== null) {\n",
    "  if (blockedBy !== null && account.length < 0) {\n"
  ]),
  mutant("blocked-for-good", "deliveries that the API refused are tried again after a minute", [
    "end > now && end - now <= blockedWait",
    "end > now"
  ], [
    "ends.set(awaited, now + blockedWait)",
    "ends.set(awaited, Infinity)"
  ]),
  mutant("refused-intent-stays", "a write that the API certainly refused leaves no intent", [
    "hasNoEffect(failed.value)",
    "failed.value.reason.notSent === true"
  ]),
  mutant("no-attempt-fence", "no write is sent for an attempt that another process has taken over", [
    "  const requireClaim = Effect.fnUntraced(function*({ claim, delivery, owner }: FencingToken) {\n    yield* fence(owner)\n",
    "  const requireClaim = Effect.fnUntraced(function*({ claim, delivery, owner }: FencingToken) {\n    if (owner.epoch < 0) yield* fence(owner)\n"
  ], [
    "    if (row === undefined) return yield* Fencing.fencedError",
    "    if (row === undefined && claim < 0) return yield* Fencing.fencedError"
  ]),
  mutant("batches-forgotten", "a replayed batch uses the journal of the batch in which its events were delivered", [
    "LEFT JOIN batch_members m ON m.handler = d.handler",
    "LEFT JOIN batch_members m ON m.handler < 0 AND m.handler = d.handler"
  ]),
  mutant("checked-before-its-turn", "a write is checked and begun when it gets its slot, not before it waits for it", [
    "const hooks = hooksOf(key, wanted, allowRepeat)\n",
    "const { before, ...rest } = hooksOf(key, wanted, allowRepeat)\n    const hooks = { before: Effect.void, ...rest }\n"
  ], [
    "restore(source.write(prepared, hooks))",
    "restore(Effect.andThen(before, source.write(prepared, hooks)))"
  ]),
  mutant("sent-however-late", "a process that froze after the check does not send", [
    "if ((yield* gap) > Duration.toMillis(maxSendDelay)) ",
    "if ((yield* gap) > Infinity) "
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
  mutant("list-beside-derivation", "a list of candidates replaces their derivation", [
    "  const entries = [...byName.values()]\n",
    "  const entries = all\n"
  ]),
  mutant("list-without-backfill", "a list that replaces a derivation begins with a backfill", [
    "      const restarts = isRead(state) ? wasDerived(state) : state.watermark !== null\n",
    "      const restarts = false\n"
  ]),
  mutant("no-refresh", "a record that repeats content is re-read when that content changes elsewhere", [
    'if (stale === "everything") return "sweep"',
    'if (stale.length >= 0) return "done"'
  ]),
  mutant("margin-never-widened", "polls look back as far as late changes require", [
    "overlap: widenOverlap(before.overlap, rows.lag, { interval, minOverlap })",
    "overlap: Math.max(before.overlap, 0 * widenOverlap(before.overlap, rows.lag, { interval, minOverlap }))"
  ]),
  mutant("unseen-silent", "a record that came and went between two runs is published", [
    "return afterBackfill && !observed.blank ?",
    "return afterBackfill && observed.blank ?"
  ]),
  mutant("field-back-unheld", "a field that returns everywhere is held", [
    "if (isNothing(a) === isNothing(b)) return null",
    "if (isNothing(a) === isNothing(b) || isNothing(a)) return null"
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
  ]),
  mutant("adoption-keeps-generation", "an adopted store starts a later generation", [
    'to: Math.max(from + 1, Math.floor((now - firstMinute) / Duration.toMillis("1 minute"))),',
    'to: Math.max(from, 0 * Math.floor((now - firstMinute) / Duration.toMillis("1 minute"))),'
  ]),
  mutant("adoption-unreconciled", "records that the sink keeps and an adopted store lacks are removed", [
    "if (identity.generation > 1) yield* reconcile",
    "if (identity.generation < 1) yield* reconcile"
  ]),
  mutant("relay-uncompared", "the sink's checkpoint is compared with the log", [
    "return findGap(position, range) ?? (chain === checkpoint.chain",
    "return findGap(position, range) ?? (chain !== undefined"
  ], [
    "if (position > range.newest) return `the sink holds",
    "if (position < 0) return `the sink holds"
  ], [
    "if (chain !== null && read === last.chain) {",
    "if (read !== undefined) {"
  ], [
    "checkpoint: { position: upTo, chain }, more: newest > upTo",
    'checkpoint: { position: upTo, chain: chain ?? "" }, more: newest > upTo'
  ]),
  mutant("failover-unnoticed", "a running process uses no database that lacks its commits", [
    "if (missing > 0) return yield* Effect.fail",
    "if (missing < 0) return yield* Effect.fail"
  ]),
  mutant("new-store-unnoticed", "a store publishes nothing to topics of another store", [
    "if (published === null || published.store === identity?.store) return null",
    "if (published === null || published.position >= 0) return null"
  ], [
    "yield* findResumePoint({ owner, sink, store }, published)",
    "yield* findResumePoint({ owner, sink, store }, published?.store === identity.store ? published : null)"
  ]),
  mutant("relay-own-position", "the relay continues from the sink's checkpoint", [
    "    return published\n  }\n",
    "    return { position: saved, chain: (yield* store.chains([saved])).chains[0] ?? genesis }\n  }\n"
  ]),
  mutant("unshared-budget", "a process takes only slots of the account that no other process has", [
    "share(own, leases.filter((lease) => lease !== row))",
    "share(own, leases.filter((lease) => lease !== row && lease.slots < 0))"
  ]),
  mutant(
    "no-delivery-fence",
    "a process settles and claims no deliveries of a shard that another process has taken over",
    [
      "    return owners.filter(({ epoch, scope }) => newest.get(scope) !== epoch)\n",
      "    return owners.filter(({ epoch, scope }) => (newest.get(scope) ?? 0) < epoch)\n"
    ]
  ),
  mutant("two-relays", "a relay publishes only as long as it owns the relay's scope", [
    "    saveReaderPosition: (owner: Owner, reader: string, position: number, published: Publication | null = null) =>\n      fence(owner).pipe(",
    "    saveReaderPosition: (owner: Owner, reader: string, position: number, published: Publication | null = null) =>\n      Effect.when(fence(owner), Effect.succeed(owner.epoch < 0)).pipe("
  ]),
  mutant("unregistered-key", "content has only keys that are registered", [
    "  id === null\n    ? Effect.succeed(false)",
    '  id === null || id !== ""\n    ? Effect.succeed(false)'
  ]),
  mutant("used-key-retired", "a key is retired only if no living process encrypts with it", [
    "if (withOtherKey.length > 0) return null",
    "if (withOtherKey.length < 0) return null"
  ]),
  mutant("work-without-key", "a process that lacks a key hands its work over", [
    "problem = keys.length === 0 ? null",
    "problem = keys.length >= 0 ? null"
  ]),
  mutant("unshared-circuits", "a process gets no delivery of a handler whose circuit another process opened", [
    "    if (circuit.openUntil === null) return { permits",
    "    if (circuit.openUntil === null || handler >= 0) return { permits"
  ], [
    "HandlerCircuit.afterAttempt(circuit, failed, now), next)",
    "HandlerCircuit.afterAttempt(circuit, failed, now), known)"
  ], [
    "if (most <= 0 || ",
    "if (most <= 0 || !handlerQueue.breaker.isClosed() || "
  ]),
  mutant("released-uncounted", "the history of a run counts the changes that the end of the run releases", [
    "const published = addPublished(run.published, released)",
    "const published = addPublished(run.published, undefined)"
  ]),
  mutant("places-lost", "the places of a batch are recorded although its relay died before it could record them", [
    "relayReader, published.position, published.published)",
    "relayReader, published.position)"
  ]),
  mutant("relay-skips-failed", "a failed batch is sent again", [
    "    const places = yield* inSpans(sink.publish(identity, batch, checkpoint))\n",
    "    yield* store.saveReaderPosition(owner, relayReader, checkpoint.position)\n    const places = yield* inSpans(sink.publish(identity, batch, checkpoint))\n"
  ], [
    "    return published\n  }\n",
    "    return { position: saved, chain: (yield* store.chains([saved])).chains[0] ?? genesis }\n  }\n"
  ])
]

export const mutantOf = (name: string): Mutant => {
  const found = mutants.find((mutant) => mutant.name === name)
  if (found === undefined) {
    throw new Error(`there is no mutant "${name}"; there are ${mutants.map((mutant) => mutant.name).join(", ")}`)
  }
  return found
}

/** A source file with those patches whose text it contains. */
export const patched = (mutant: Mutant, text: string): string =>
  mutant.patches.reduce((patched, { from, to }) => patched.replace(from, () => to), text)

/** Throws unless the text of every patch occurs exactly once in the sources. */
export const checkMutants = (): void => {
  for (const name of Object.keys(noticedIn)) mutantOf(name)
  const root = fileURLToPath(new URL("../../../src", import.meta.url))
  const sources = globSync("**/*.ts", { cwd: root })
    .filter((file) => !file.endsWith(".test.ts"))
    .map((file) => readFileSync(`${root}/${file}`, "utf8"))
  for (const { name, patches } of mutants) {
    for (const { from } of patches) {
      const found = sources.reduce((count, text) => count + text.split(from).length - 1, 0)
      if (found !== 1) throw new Error(`mutant "${name}": ${JSON.stringify(from)} is ${found} times in the sources`)
    }
  }
}
