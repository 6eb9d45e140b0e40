import { assert, describe } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import type { BudgetUsage } from "../../../src/source/RequestBudget.ts"
import type { EndedRun, Run } from "../../../src/store/Run.ts"
import { Store } from "../../../src/store/Store.ts"
import * as Running from "./Running.ts"

const { ask, key, post, stream, served, write } = Running

describe("the overview", () => {
  served("GET /v1/streams and /v1/integrations list state, counts and progress", function*() {
    yield* stream({ phase: "live", watermark: 0 })
    yield* write("a", "{}")
    yield* write("b", "{}")
    const { body } = yield* ask("/v1/streams")
    assert.isNull(body.next)
    assert.deepInclude(body.items[0], {
      stream: "greenhouse:acme/ats.tag",
      phase: "live",
      watermark: "1970-01-01T00:00:00.000Z",
      records_live: 2,
      blocked: null,
      progress: null
    })
    assert.deepStrictEqual((yield* ask("/v1/integrations")).body, {
      items: [{
        id: "greenhouse:acme",
        account: "default",
        state: "active",
        declared: true,
        models: "auto",
        backfill: "publish",
        interval_seconds: 60,
        sweep_interval_seconds: 60,
        generation: 1,
        streams: 1,
        live: 1,
        blocked: 0,
        failing: 0,
        records_live: 2
      }],
      next: null
    })
  })

  served("a request for the stream of a derived model names the model that it is derived from", function*() {
    yield* stream({ phase: "live" }, { integration: "greenhouse:acme", model: "ats.application" })
    const path = "/v1/streams/greenhouse:acme/ats.candidate"
    for (const { body, status } of [yield* ask(path), yield* post(`${path}/audit`), yield* post(`${path}/poll`)]) {
      assert.deepStrictEqual([status, body.type], [404, "urn:rollcall:problem:not-found"])
      assert.include(body.detail, "derived from ats.application: use stream greenhouse:acme/ats.application")
    }
    const { body } = yield* post("/v1/streams/greenhouse:acme/ats.offer/audit")
    assert.match(body.detail, /^stream greenhouse:acme\/ats\.offer does not exist: .*GET \/v1\/streams/)
  })

  served("an audit of a stream that was never read is a conflict with the reason", function*() {
    const { integration, model } = key
    assert.strictEqual((yield* post("/v1/integrations", { id: integration, models: [model] })).status, 200)
    const { body, status } = yield* post(`/v1/streams/${integration}/${model}/audit`)
    assert.deepStrictEqual([status, body.type, body.detail, body.hint], [
      409,
      "urn:rollcall:problem:conflict",
      "the stream has not been read yet",
      "its first backfill starts automatically"
    ])
  })

  let usage: BudgetUsage | null = null
  served("the page of a stream has the request budget of its account, of one process or of a fleet", function*() {
    yield* stream({ phase: "live" })
    const budget = Effect.map(ask("/v1/streams/greenhouse:acme/ats.tag/detail"), ({ body }) => body.budget)
    assert.include((yield* budget).text, "This process does not know the account")
    for (
      const [processes, taken, text] of [
        [null, 2, "2 of 8 requests in use, and 3 wait."],
        [1, 1, "1 process of the fleet has 1 slot of 8 for requests, and could use 5."],
        [3, 7, "3 processes of the fleet have 7 slots of 8 for requests, and could use 5."],
        [0, 0, "No process of the fleet sends requests now; together they may have 8 in flight."]
      ] as const
    ) {
      usage = { limit: 8, taken, wanted: 5, processes, pauseLeft: Duration.seconds(40) }
      assert.deepStrictEqual(yield* budget, {
        account: "default",
        limit: 8,
        taken,
        wanted: 5,
        processes,
        paused_seconds: 40,
        text: `${text} The API requested a pause: no request is sent for 40 s.`
      })
    }
  }, { usageOf: () => Effect.sync(() => usage) })

  served.virtual(
    "a running sweep is shown with its rate, and with the time left if the number of records is known",
    function*() {
      yield* TestClock.setTime(1_000_000)
      const balance = { read: 1, unchanged: 1, equivalent: 0, changed: 0, tombstones: 0, duplicates: 0, pending: 0 }
      const sweep: Run = {
        id: 1,
        kind: "sweep",
        backfill: true,
        updatedAfter: null,
        cursor: null,
        phase: "pages",
        pages: 1,
        startedAt: 990_000,
        watermark: null,
        rowCounts: { ...balance, quarantined: 0 }
      }
      yield* stream({ phase: "backfilling", sweep })
      for (const id of ["a", "b", "c"]) yield* write(id, "{}")
      const progress = Effect.map(ask("/v1/streams"), ({ body }) => body.items[0].progress)
      assert.deepInclude(yield* progress, {
        kind: "backfill",
        records: 1,
        pages: 1,
        records_per_second: 0.1,
        seconds_left: null
      })
      yield* stream({ phase: "live", backfilledAt: 1 })
      assert.deepInclude(yield* progress, { kind: "sweep", seconds_left: 20 })
    }
  )

  served(
    "a broken integration is one matter of the overview, with the cause and the number of its streams",
    function*() {
      const blocked = { reason: "inactive", code: null, message: "reconnect it", since: 0 } as const
      for (const model of ["ats.tag", "ats.offer", "hris.skill"] as const) {
        yield* stream({ blocked }, { integration: "lever:acme", model })
      }
      const { matters, store, streams } = (yield* ask("/v1/overview")).body
      assert.lengthOf(matters, 1)
      assert.deepInclude(matters[0], {
        kind: "blocked",
        detail: "reconnect it.",
        since: "1970-01-01T00:00:00.000Z",
        integrations: ["lever:acme"],
        stream_count: 3,
        link: "/integrations/lever%3Aacme"
      })
      assert.deepInclude(streams, { total: 3, blocked: 3, live: 0 })
      // of the database in memory; its disk is not known
      assert.isAbove(store.size_bytes, 0)
      assert.deepInclude(store, { free_bytes: null, disk_bytes: null })
      assert.lengthOf((yield* ask("/v1/streams")).body.items, 3)
    }
  )

  served("the rows of the streams are filtered, sorted and counted by the server", function*() {
    const blocked = { reason: "inactive", code: null, message: "reconnect it", since: 0 } as const
    yield* stream({ phase: "live" }, { integration: "greenhouse:acme", model: "ats.tag" })
    yield* stream({ blocked }, { integration: "lever:acme", model: "ats.tag" })
    yield* stream({ paused: true }, { integration: "lever:acme", model: "ats.offer" })
    const rows = Effect.fnUntraced(function*(query: string) {
      const { items, next, total } = (yield* ask(`/v1/overview/streams${query}`)).body
      return [items.map((row: { stream: string; state: string }) => `${row.stream} ${row.state}`), total, next]
    })
    const all = ["lever:acme/ats.tag blocked", "lever:acme/ats.offer paused", "greenhouse:acme/ats.tag ok"]
    assert.deepStrictEqual(yield* rows(""), [all, 3, null])
    assert.deepStrictEqual(yield* rows("?limit=2"), [all.slice(0, 2), 3, "2"])
    assert.deepStrictEqual(yield* rows("?limit=2&after=2"), [all.slice(2), 3, null])
    assert.deepStrictEqual(yield* rows("?search=LEVER+tag"), [all.slice(0, 1), 1, null])
    assert.deepStrictEqual(yield* rows("?search=reconnect"), [all.slice(0, 1), 1, null])
    assert.deepStrictEqual(yield* rows("?state=paused"), [all.slice(1, 2), 1, null])
    assert.deepStrictEqual(yield* rows("?order=stream"), [[all[2], all[1], all[0]], 3, null])
    assert.strictEqual((yield* ask("/v1/overview/streams?order=name")).status, 400)
  })

  served("a stream names the page of the API's log about its last failed request", function*() {
    const logUrl = "https://app.example.com/logs/4f"
    yield* stream({ blocked: { reason: "inactive", code: null, message: "refused", since: 0, logUrl } })
    const { body } = yield* ask("/v1/streams/greenhouse:acme/ats.tag/detail")
    assert.isTrue(body.sentence.endsWith(`The API's log of the request: ${logUrl}`), body.sentence)
    assert.deepStrictEqual(body.stream.blocked, {
      reason: "inactive",
      message: "refused",
      since: "1970-01-01T00:00:00.000Z",
      log_url: logUrl
    })
  })

  served("a stream in detail says its state in a sentence, and why each of its runs ended", function*() {
    const rowCounts = {
      read: 3,
      unchanged: 2,
      equivalent: 0,
      changed: 1,
      tombstones: 0,
      duplicates: 0,
      pending: 0,
      quarantined: 0
    }
    const common = { backfill: false, pages: 1, startedAt: 0, pass: 1, rowCounts } as const
    const sweep = {
      ...common,
      id: 9,
      kind: "sweep",
      updatedAfter: null,
      cursor: "2",
      phase: "pages",
      watermark: null
    } as const
    const idle = { polls: 4, read: 2, since: 2_000, until: 5_000 }
    yield* stream({ phase: "live", paused: true, sweep, recordedRuns: 3, idlePolls: idle })
    const store = yield* Store
    const owner = yield* store.takeOwnership("capture")
    const ended = { ...common, endedAt: 1_000, times: 1, idle: null }
    const runs: ReadonlyArray<EndedRun> = [
      { ...ended, number: 1, id: 6, kind: "sweep", outcome: "repeated", reason: "restart", backfill: true },
      { ...ended, number: 2, id: 7, kind: "poll", outcome: "failed", reason: "status 502", times: 3, idle },
      {
        ...ended,
        number: 3,
        id: 8,
        kind: "poll",
        outcome: "complete",
        reason: null,
        rowCounts: { ...rowCounts, read: 4 },
        published: { created: 1, updated: 0, deleted: 0 }
      }
    ]
    const key = { integration: "greenhouse:acme", model: "ats.tag" } as const
    yield* store.transact(owner, key, ({ recordRun }) => Effect.forEach(runs, recordRun))
    const { body } = yield* ask("/v1/streams/greenhouse:acme/ats.tag/detail")
    assert.deepInclude(body, { state: "paused", target_seconds: 180 })
    assert.strictEqual(body.sentence, "Paused by an operator: it is not read until it is resumed.")
    const { body: found } = yield* ask("/v1/streams/greenhouse:acme/ats.tag/runs")
    const idleView = { polls: 4, read: 2, since: "1970-01-01T00:00:02.000Z", until: "1970-01-01T00:00:05.000Z" }
    assert.deepStrictEqual(found.idle, idleView)
    assert.deepStrictEqual(
      found.items.map((
        { balanced, created, ended_at, idle_before, kind, number, outcome, reason, times }: Record<string, unknown>
      ) => [number, kind, ended_at, outcome, reason, times, created, balanced, idle_before]),
      [
        [null, "sweep", null, "running", null, 1, 0, true, null],
        [3, "poll", "1970-01-01T00:00:01.000Z", "complete", null, 1, 1, false, null],
        [2, "poll", "1970-01-01T00:00:01.000Z", "failed", "status 502", 3, 0, true, idleView],
        [
          1,
          "backfill",
          "1970-01-01T00:00:01.000Z",
          "repeated",
          "another process had read the first pages",
          1,
          0,
          true,
          null
        ]
      ]
    )
    for (const part of ["detail", "runs"]) {
      assert.strictEqual((yield* ask(`/v1/streams/greenhouse:acme/ats.offer/${part}`)).status, 404)
    }
  })
})
