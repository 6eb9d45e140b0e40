import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import * as Processing from "../../domain/Processing.ts"
import { Store } from "../../store/Store.ts"
import { refresh } from "../read/Refresh.ts"
import { sweep } from "../read/Sweep.ts"
import { backfillCandidates } from "./CandidateBackfill.ts"

const derivedProcessing = Processing.defaultProcessing("ats.candidate")
const candidates = { integration: "greenhouse:acme", model: "ats.candidate" } as const

const at = (minutes: number): string => new Date(start + minutes * 60_000).toISOString()
/** A candidate as an application contains it; `changed_at` is `changed` minutes after the start. */
const shown = (id: string, title: string | null, changed: number, details: Readonly<Record<string, unknown>> = {}) => ({
  id,
  remote_id: `r-${id}`,
  title,
  remote_created_at: at(0),
  remote_deleted_at: null,
  changed_at: at(changed),
  tags: [],
  ...details
})

/** Version, kind and title of each event of one candidate. */
const publishedOf = (rig: Rig, id = "c") =>
  Effect.map(
    rig.events,
    (entries) =>
      entries.filter((entry) => entry.model === "ats.candidate" && entry.id === id).map((entry) =>
        [entry.version, entry.kind, entry.after === null ? entry.reason : JSON.parse(entry.after).title].join(" ")
      )
  )

const liveCandidates = Effect.flatMap(Store, (store) => store.records(candidates, null, 100)).pipe(
  Effect.map(({ records }) => records.map(({ content, id }) => `${id} ${JSON.parse(content).title}`))
)

/** Refreshes the stale records; returns the ids of each request. */
const refreshed = Effect.fnUntraced(function*(rig: Rig) {
  const from = rig.api.requests.length
  yield* refresh(rig.stream, Effect.succeed(false))
  return rig.api.requests.slice(from).map(({ ids }) => [...new Set(ids)].sort())
})

/** A record that always exists, because a refetch needs a control. */
const control = { id: "z", candidate: null }

describe("candidates", () => {
  it.effect("are created, updated and deleted according to their applications", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", stage: "1", candidate: shown("c", "1", 0) })
      yield* rig.change({ id: "a", stage: "1", candidate: shown("c", "2", 1) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", stage: "2", candidate: shown("c", "2", 1) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1", "2 updated 2"])
      const updated = (yield* rig.events).find(({ kind, model }) => kind === "updated" && model === "ats.candidate")
      assert.deepStrictEqual(JSON.parse(updated!.changes), [{ path: "/title", before: "1", after: "2" }])
      assert.strictEqual(updated!.changedAt, at(1))
      assert.strictEqual(updated!.origin, "poll")
      yield* rig.wait("1 minute")
      const gone = shown("c", "2", 3, { remote_deleted_at: at(3) })
      yield* rig.change({ id: "a", stage: "2", candidate: gone })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", stage: "2", candidate: shown("c", "3", 4) })
      assert.deepStrictEqual((yield* publishedOf(rig)).slice(2), ["3 deleted flagged", "4 created 3"])
      assert.isTrue((yield* rig.events).at(-1)!.restored)
      assert.deepStrictEqual(yield* liveCandidates, ["c 3"])
    }, { derivedProcessing }))

  it.effect("a copy that is older than the published one changes nothing, in whichever application it is (N5)", () =>
    scenario(function*(rig) {
      rig.api.pageSize = 1
      yield* rig.put({ id: "a", candidate: shown("c", "new", 2) })
      yield* rig.put({ id: "b", candidate: shown("c", "stale", 1) })
      yield* rig.put({ id: "d", candidate: shown("c", "new", 2) })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "b", note: "x", candidate: shown("c", "stale still", 1) })
      for (const id of ["a", "d"]) yield* rig.put({ id, candidate: null })
      yield* rig.wait("1 minute")
      yield* rig.poll
      yield* rig.sweep
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created new"])
    }, { derivedProcessing }))

  it.effect("a copy in a live application is published although only a deleted application had a later changed_at (N5)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(control, { id: "a", candidate: shown("c", "untagged", 0) })
      // same content with a later changed_at: no event, so no published content has that changed_at
      yield* rig.change({ id: "b", candidate: shown("c", "untagged", 2) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", candidate: shown("c", "tagged", 0) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created untagged"], "b is live and newer")
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "b", remote_deleted_at: at(4), candidate: shown("c", "untagged", 2) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created untagged", "2 updated tagged"])
    }, { derivedProcessing }))

  it.effect("an earlier copy is not published if another application on the same page has a later changed_at only (N5)", () =>
    scenario(function*(rig) {
      yield* rig.put(control)
      for (const id of ["a", "b"]) yield* rig.put({ id, note: "old", candidate: shown("c", "untagged", 0) })
      yield* rig.backfill()
      yield* rig.put({ id: "a", note: "old", candidate: shown("c", "tagged", 1) })
      yield* rig.put({ id: "b", note: "new", candidate: shown("c", "untagged", 2) })
      yield* rig.poll
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created untagged"])
      // only this one is published with the end of the poll
      yield* rig.put({ id: "a", note: "new", candidate: shown("c", "tagged", 3) })
      yield* rig.put({ id: "b", note: null, candidate: shown("c", "untagged", 4) })
      yield* rig.poll
      assert.deepStrictEqual(yield* publishedOf(rig), [
        "1 created untagged",
        "2 updated tagged",
        "3 updated untagged"
      ])
    }, { derivedProcessing }))

  it.effect("a later changed_at is kept if an application beyond those compared may still have it (N5)", () =>
    scenario(function*(rig) {
      const ids = Array.from({ length: 60 }, (_, index) => `a${index + 10}`)
      yield* rig.backfill(...ids.map((id) => ({ id, candidate: shown("c", "untagged", 0) })))
      yield* rig.change({ id: "z", candidate: shown("c", "untagged", 2) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a10", candidate: shown("c", "stale", 0) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created untagged"])
    }, { derivedProcessing }))

  it.effect("a copy without `changed_at` is published only if no other copy has one (N5, W7)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "b", candidate: shown("c", "one", 0) })
      const timeless = (title: string) => shown("c", title, 0, { changed_at: null })
      yield* rig.change({ id: "b", candidate: timeless("two") })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "b", candidate: shown("c", "three", 2) }, { id: "a", candidate: timeless("other") })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created one", "2 updated two", "3 updated three"])
    }, { derivedProcessing }))

  it.effect("of two copies with the same changed_at, the one of the smallest application id counts, and each application is refetched once (N5)", () =>
    scenario(function*(rig) {
      yield* rig.put(control)
      yield* rig.backfill({ id: "a", candidate: shown("c", "1", 0) }, { id: "b", candidate: shown("c", "1", 0) })
      yield* rig.change({ id: "b", candidate: shown("c", "B", 1) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", candidate: shown("c", "A", 1) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1", "2 updated B", "3 updated A"])
      rig.api.put(start, { id: "b", candidate: shown("c", "A", 1) }, { silent: true })
      assert.deepStrictEqual(yield* refreshed(rig), [["a", "b", "z"]])
      assert.deepStrictEqual(yield* refreshed(rig), [])
      assert.deepStrictEqual((yield* publishedOf(rig)).length, 3)
    }, { derivedProcessing }))

  it.effect("a candidate stays live when its last application is flagged as deleted or vanishes (N6)", () =>
    scenario(function*(rig) {
      yield* rig.put(control)
      yield* rig.put({ id: "a", candidate: shown("c", "1", 0) })
      yield* rig.put({ id: "b", candidate: shown("d", "1", 0) })
      yield* rig.backfill()
      yield* rig.flag("a")
      rig.api.vanish("b")
      for (const run of [rig.poll, rig.sweep, rig.confirm, rig.poll]) {
        yield* rig.wait("11 minutes")
        yield* run
      }
      const deleted = (yield* rig.events).filter(({ kind }) => kind === "deleted").map(({ model, reason }) =>
        `${model} ${reason}`
      )
      assert.deepStrictEqual(deleted, ["ats.application flagged", "ats.application absent"])
      assert.deepStrictEqual(yield* liveCandidates, ["c 1", "d 1"])
    }, { derivedProcessing }))

  it.effect("a candidate is erased with the last application that contains it, not before (N6)", () =>
    scenario(function*(rig) {
      yield* rig.put({ ...control, candidate: shown("other", "1", 0) })
      for (const id of ["a", "b"]) yield* rig.put({ id, candidate: shown("c", "1", 0) })
      yield* rig.backfill()
      yield* rig.change({ id: "a", candidate: null })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1"])
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "b", candidate: null })
      rig.api.rows.get("b")!.row = { id: "b", candidate: null, changed_at: at(2) }
      yield* rig.poll
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1", "2 deleted erased"])
      const erased = (yield* rig.events).at(-1)!
      assert.strictEqual(erased.remoteId, "r-c")
      assert.strictEqual(JSON.parse(erased.before!).title, "1")
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", candidate: shown("c", "again", 4) })
      assert.deepStrictEqual((yield* publishedOf(rig)).slice(2), ["3 created again"])
    }, { derivedProcessing }))

  it.effect("a candidate is erased once all its applications are erased, including those deleted before (D11)", () =>
    scenario(function*(rig) {
      const empty = (id: string, deletedAt: string | null, minutes: number) =>
        Effect.gen(function*() {
          yield* rig.put({ id, candidate: null })
          rig.api.rows.get(id)!.row = { id, candidate: null, remote_deleted_at: deletedAt, changed_at: at(minutes) }
          yield* rig.poll
          yield* rig.wait("1 minute")
        })
      yield* rig.put({ ...control, candidate: shown("other", "1", 0) })
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, candidate: shown("c", "1", 0) })
      yield* rig.backfill()
      yield* rig.flag("a")
      yield* rig.flag("b")
      yield* rig.poll
      yield* rig.wait("1 minute")
      yield* empty("c", null, 4)
      yield* empty("a", at(1), 5)
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1"])
      yield* empty("b", at(1), 6)
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1", "2 deleted erased"])
      yield* Effect.flatMap(Store, (store) => store.purgeErased({ before: Number.MAX_SAFE_INTEGER, upTo: 99 }))
      const kept = (yield* rig.events).map(({ after, before, id, kind }) => `${id} ${kind} ${after ?? before}`)
      assert.deepStrictEqual(kept.filter((line) => line.includes('"title":"1"') && !line.includes("other")), [])
    }, { derivedProcessing }))

  it.effect("an erased candidate is published again if another application shows it, even with an earlier changed_at (N5, D11)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", candidate: shown("c", "new", 2) })
      yield* rig.change({ id: "a", candidate: null, remote_deleted_at: at(3), remote_id: null })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created new", "2 deleted erased"])
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "b", candidate: shown("c", "other copy", 0) })
      assert.deepStrictEqual((yield* publishedOf(rig)).slice(2), ["3 created other copy"])
    }, { derivedProcessing }))

  it.effect("a candidate that was flagged as deleted stays deleted if its application is erased and another one shows an earlier copy (N5, N6)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", candidate: shown("c", "new", 2) })
      yield* rig.change({ id: "a", candidate: shown("c", "new", 3, { remote_deleted_at: at(3) }) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", candidate: null, remote_deleted_at: at(4), remote_id: null })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "b", candidate: shown("c", "other copy", 0) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created new", "2 deleted flagged"])
    }, { derivedProcessing }))

  it.effect("copies that differ permanently are refetched only once (N7)", () =>
    scenario(function*(rig) {
      yield* rig.put(control)
      yield* rig.put({ id: "a", candidate: shown("c", "1", 0) })
      yield* rig.put({ id: "b", candidate: shown("c", "1", 0) })
      yield* rig.backfill()
      yield* rig.change({ id: "a", candidate: shown("c", "A", 1) }, { id: "b", candidate: shown("c", "B", 1) })
      let turn = 0
      rig.api.meanwhile = () => {
        // with every request, one of the two copies has other content with the same changed_at
        turn++
        rig.api.put(start, { id: "b", candidate: shown("c", `B${turn}`, 1) }, { silent: true })
      }
      const requested = []
      for (let round = 0; round < 4; round++) requested.push(...yield* refreshed(rig))
      assert.deepStrictEqual(requested, [["a", "b", "z"]])
      assert.deepStrictEqual((yield* publishedOf(rig)).at(-1), "2 updated A")
    }, { derivedProcessing }))

  it.effect("are old if they or their application are old, and silent if the backfill is silent", () => {
    const steps = Effect.fnUntraced(function*(rig: Rig) {
      yield* rig.fill({ id: "a", candidate: shown("c", "1", 0, { remote_created_at: "2020-01-01T00:00:00.000Z" }) })
      yield* rig.wait("1 hour")
      const today = { remote_created_at: at(60) }
      yield* rig.put({ id: "found", candidate: shown("late", "1", 60, today) })
      yield* rig.put({ id: "new", ...today, candidate: shown("hire", "1", 60, today) })
      yield* rig.put({ id: "again", ...today, candidate: shown("c", "2", 60) })
      yield* rig.poll
      return (yield* rig.events).filter(({ model }) => model === "ats.candidate").map(({ id, kind, origin, version }) =>
        `${id} ${version} ${kind} ${origin}`
      )
    })
    return Effect.gen(function*() {
      const later = ["hire 1 created poll", "c 2 updated poll"]
      const published = yield* scenario(steps, { derivedProcessing })
      assert.deepStrictEqual(published, ["c 1 created backfill", "late 1 created backfill", ...later])
      assert.deepStrictEqual(yield* scenario(steps, { derivedProcessing, backfill: "fill" }), later)
    })
  })

  it.effect("have the same hash as in the application, with or without a rule of their own, even if the rule is added later (V1)", () => {
    const hashing = { remoteData: "drop", redact: { "/candidate/first_name": "hash" }, key: "k" } as const
    const own = { remoteData: "drop", redact: { "/first_name": "hash" }, key: "k" } as const
    const names = Effect.gen(function*() {
      const events = yield* (yield* Store).readLog({ after: 0, limit: 100 })
      const last = (model: string) => events.findLast((event) => event.model === model)!
      const after = (model: string) => JSON.parse(last(model).after!)
      const paths = JSON.parse(last("ats.candidate").changes).map(({ path }: { readonly path: string }) => path)
      return [events.length, paths, after("ats.application").candidate.first_name, after("ats.candidate").first_name]
    })
    return scenario(function*(rig) {
      const put = (title: string) =>
        rig.put({ id: "A1", title, candidate: { id: "C1", first_name: "Ada", tags: [], title } })
      yield* put("1")
      yield* rig.sweep
      const later = (derivedProcessing: Processing.Processing) =>
        sweep(
          { ...rig.stream, processing: Processing.make("ats.application", hashing), derivedProcessing },
          Effect.succeed(false)
        )
      const source = { ...hashing }
      yield* later(Processing.make("ats.candidate", { ...own, redact: {}, source }))
      yield* rig.wait("1 hour")
      yield* put("2")
      yield* later(Processing.make("ats.candidate", { ...own, redact: {}, source }))
      const [count, paths, inApplication, inCandidate] = yield* names
      assert.match(inApplication, /^redacted:/)
      assert.deepStrictEqual([count, paths, inCandidate], [4, ["/title"], inApplication])
      yield* rig.wait("1 hour")
      yield* put("3")
      yield* later(Processing.make("ats.candidate", { ...own, source }))
      assert.deepStrictEqual(yield* names, [6, ["/title"], inApplication, inApplication])
    }, { derivedProcessing })
  })

  it.effect("are redacted by their own rules and by those of the application", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", candidate: shown("c", "1", 0, { company: "x", source: "y" }) })
      const [record] = (yield* (yield* Store).records(candidates, null, 10)).records
      const { company, source, title } = JSON.parse(record!.content)
      assert.deepStrictEqual({ company, source, title }, { company: undefined, source: undefined, title: "1" })
    }, {
      processing: Processing.make("ats.application", {
        remoteData: "drop",
        redact: { "/candidate/company": "drop" },
        key: ""
      }),
      derivedProcessing: Processing.make("ats.candidate", {
        remoteData: "drop",
        redact: { "/source": "drop" },
        key: ""
      })
    }))

  it.effect("a later changed_at and a deletion are noticed although rules remove both from the content (N5, N6)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(control, { id: "b", candidate: shown("c", "1", 0) })
      yield* rig.change({ id: "d", candidate: shown("c", "1", 2) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "d", candidate: null })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "e", candidate: shown("c", "older than that in d", 1) })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", candidate: shown("c", "1", 3) })
      yield* rig.wait("1 minute")
      // a is preferred to b
      yield* rig.change({ id: "b", candidate: shown("c", "1", 3, { remote_deleted_at: at(3) }) })
      assert.deepStrictEqual(yield* publishedOf(rig), ["1 created 1"])
    }, {
      derivedProcessing: Processing.make("ats.candidate", {
        remoteData: "drop",
        redact: { "/changed_at": "drop", "/remote_deleted_at": "drop" },
        key: ""
      })
    }))

  it.effect("a store with applications but no candidates is backfilled once, and continues after a kill (X1)", () =>
    scenario(function*(rig) {
      const store = yield* Store
      const applications = Array.from({ length: 600 }, (_, n) => `a${String(n).padStart(3, "0")}`)
      for (const id of applications) yield* rig.put({ id, candidate: shown(`c-${id}`, "1", 0) })
      const before = { ...rig.stream, derivedProcessing: null }
      yield* sweep(before, Effect.succeed(false))
      assert.strictEqual((yield* rig.events).length, 600)
      let parts = 0
      const dying: Store["Service"] = {
        ...store,
        transact: (owner, key, body) => parts++ < 1 ? store.transact(owner, key, body) : Effect.die("killed")
      }
      yield* Effect.exit(Effect.provideService(backfillCandidates(rig.stream), Store, dying))
      assert.strictEqual((yield* store.stream(candidates))!.sweep?.cursor, "a249")
      yield* backfillCandidates(rig.stream)
      yield* backfillCandidates(rig.stream)
      const events = (yield* rig.events).slice(600)
      assert.deepStrictEqual(events.map(({ id }) => id), applications.map((id) => `c-${id}`))
      assert.isTrue(events.every(({ kind, origin }) => kind === "created" && origin === "backfill"))
      assert.strictEqual((yield* store.stream(candidates))!.phase, "live")
    }, { derivedProcessing }))
})
