/** Ids at the length limit of a PostgreSQL index, through the whole capture. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { Capture, layer } from "../../../src/capture/schedule/Capture.ts"
import * as Processing from "../../../src/domain/Processing.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { Store } from "../../../src/store/Store.ts"
import { integration, settings, streamsOf } from "../../support/capture/Capturing.ts"
import * as Scripted from "../../support/capture/ScriptedApi.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()

/** Incompressible text, so that the database cannot store it shorter. */
const textOf = (bytes: number): string => randomBytes(bytes).toString("base64url").slice(0, bytes)

onServer("ids in PostgreSQL", () => {
  it.live("a record with an id that is too long for an index is quarantined, longest valid ids are stored, and the stream continues (S1)", () =>
    Effect.gen(function*() {
      const url = yield* database
      const api = Scripted.make()
      const [longest, person, tooLong] = [textOf(1_000), textOf(1_000), textOf(5_000)]
      for (const id of ["a", longest, tooLong]) {
        api.put(Date.now(), { id, candidate: { id: person, first_name: "Ada" } })
      }
      const parts = Layer.merge(Scripted.layer(api), Postgres.layer({ url: Redacted.make(url), name: "ids" }))
      yield* Effect.gen(function*() {
        const capture = yield* Capture
        const derivedProcessing = Processing.defaultProcessing("ats.candidate")
        const streams = streamsOf(["ats.application"]).map((stream) => ({ ...stream, derivedProcessing }))
        yield* capture.assign(new Map([[integration, streams]]))
        assert.deepStrictEqual(yield* capture.once, [])
        const store = yield* Store
        const ids = (yield* store.readLog({ after: 0, limit: 10 })).map(({ id }) => id)
        assert.deepStrictEqual(ids.sort(), ["a", longest, person].sort())
        const [state] = yield* store.streams
        assert.strictEqual(state?.lastPoll?.rowCounts.quarantined, 1)
      }).pipe(Effect.provide(layer(settings).pipe(Layer.provideMerge(parts))))
    }))
})
