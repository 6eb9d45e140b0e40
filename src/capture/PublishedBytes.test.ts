/** The whole content of the log and of Kafka, for the same simulated lists. A change of this digest changes what every consumer receives. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { startProcess } from "../../test/support/capture/Capturing.ts"
import { listsOnly, toPage } from "../../test/support/source/Doubles.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { lists } from "../api/Lists.ts"
import { builtInModels, modelNames } from "../domain/BuiltInModels.ts"
import type { LogEntry } from "../domain/ChangeEvent.ts"
import { defaultProcessing } from "../domain/Processing.ts"
import { type Format, makeEncoder } from "../publish/kafka/KafkaMessage.ts"
import { World } from "../sandbox/world/World.ts"
import { Source } from "../source/Source.ts"
import { Store } from "../store/Store.ts"

const startAt = Date.parse("2026-03-01T12:00:00.000Z")
const integration = "sandbox:everything"

const worldOf = (seed: number) => World.make({ seed, start: startAt, records: 100, speed: 4, order: "stable" })

const packagesAt = (now: number) =>
  ["p", "q"].map((id) => ({ id, type: "SKILLS_TEST", name: `${id} ${now >= startAt + 3_600_000}`, description: "d" }))

const sourceOf = (world: World) =>
  Layer.succeed(Source)(
    listsOnly(({ cursor, ids, model, updatedAfter }) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const query = { updatedAfter, includeDeleted: true, ids: ids ?? [], remoteIds: [], filters: {} }
        const page = Object.hasOwn(lists, model)
          ? world.page(integration, model as keyof typeof lists, query, 250, cursor)
          : { results: packagesAt(now), next: null }
        if (page === "bad cursor") throw new Error(page)
        return toPage({ ...page, serverTime: Math.floor(now / 1000) * 1000, requestedAt: now, duration: 0 })
      })
    )
  )

/** Everything that is published while the lists change `times` times, each time after Rollcall has read all changes before. */
const publishedFrom = Effect.fnUntraced(function*(world: World, times: number) {
  yield* TestClock.setTime(startAt)
  yield* startProcess({
    declared: [{
      id: integration,
      account: "default",
      models: modelNames,
      interval: Duration.minutes(30),
      sweepInterval: Duration.hours(1),
      backfill: "publish"
    }]
  })
  for (let hour = 0; hour < times; hour++) {
    yield* TestClock.adjust("4 hours")
    world.advance(yield* Clock.currentTimeMillis, 200)
  }
  yield* TestClock.adjust("4 hours")
  const entries = yield* (yield* Store).readLog({ after: 0, limit: 100_000 })
  // the order among records, the times of detection, and the kind of the run that was first, depend on the order of requests
  const orderOf = ({ id, model, version }: LogEntry) => `${model}/${id}/${String(version).padStart(6, "0")}`
  return entries.toSorted((a, b) => orderOf(a) < orderOf(b) ? -1 : 1)
    .map((entry, index): LogEntry => ({
      ...entry,
      position: index + 1,
      chain: "",
      detectedAt: 0,
      origin: entry.origin === "backfill" ? "backfill" : "poll"
    }))
})

const identity = { store: "store", generation: 1 }

/** Every message of these events, with key and headers. */
const messagesOf = (entries: ReadonlyArray<LogEntry>, format: Format) => {
  const encode = makeEncoder({
    identity,
    models: builtInModels,
    topic: "{model}",
    state: true,
    format,
    limitOf: () => 1_000_000
  })
  return entries.flatMap((entry) => encode(entry).messages).map(({ value, ...message }) => ({
    ...message,
    value: value?.toString() ?? null
  }))
}

const digestOf = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("base64url")

describe("the built-in models", () => {
  it.effect("publish the same bytes in every version, for the same lists", () => {
    const world = worldOf(1)
    return Effect.gen(function*() {
      const entries = yield* publishedFrom(world, 3)
      const updated = new Set(entries.filter(({ kind }) => kind === "updated").map(({ model }) => model))
      assert.deepStrictEqual(new Set(entries.map(({ model }) => model)), new Set(modelNames))
      assert.isAtLeast(updated.size, 10)
      assert.isAtLeast(entries.filter(({ transitions }) => transitions !== "[]").length, 10)
      assert.deepStrictEqual(
        [
          entries.length,
          digestOf(entries),
          digestOf(messagesOf(entries, "cloudevents")),
          digestOf(messagesOf(entries, "debezium"))
        ],
        [
          1211,
          "LbyW7g0lFqBWVtoKTZr_oKgmijpKlnzm-_aQuoSOyco",
          "V6rnHAtJBuANd07Phd-_c0YMA3Ras9wK7KR3FNJ93lI",
          "2HAcoAIcstrBM_DXQZ6_x_08tqt2funxMMsQkqFFQds"
        ]
      )
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.merge(sourceOf(world), MemoryStore.layer())),
      Effect.provideService(References.MinimumLogLevel, "None")
    )
  })

  it("have the same processing fingerprint in every version", () => {
    assert.deepStrictEqual(
      Object.fromEntries(modelNames.map((model) => [model, defaultProcessing(model).fingerprint])),
      {
        "ats.application": "yPMm4yMM_GkM",
        "ats.scorecard": "aiDbBT5O3jYg",
        "ats.offer": "_zKpQxrzrpiu",
        "ats.tag": "mnkE8NTGf5Gj",
        "ats.candidate": "5i9jGBFcKn0O",
        "hris.payslip": "30tRFqLPtKb7",
        "hris.performance_review": "knE26F-hcYjx",
        "hris.performance_review_cycle": "1v9eHqqf7CWk",
        "hris.staffing_entity": "C6C6rNf0b16v",
        "hris.legal_entity": "86gpkehcHkTQ",
        "hris.skill": "XeTivFQm-Vzd",
        "hris.absence_type": "PelVHUJUTuiM",
        "assessment.package": "sK-g1yk9akMW"
      }
    )
  })
})
