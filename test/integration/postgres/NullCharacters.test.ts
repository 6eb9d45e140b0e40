/** Requests with characters that PostgreSQL cannot store. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Running from "../http/Running.ts"
import { onServer } from "./Opened.ts"
import * as Server from "./Server.ts"

const { database } = Server.ofFile()
const { ask, post, stream } = Running

onServer("requests with null characters in PostgreSQL", () => {
  it.live("are refused with 400 or 404 instead of being answered as an outage of the store", () =>
    Effect.gen(function*() {
      const url = yield* database
      const store = Postgres.layer({ url: Redacted.make(url), name: "nulls" })
      yield* Effect.gen(function*() {
        yield* stream()
        const reads = [
          "/v1/records?integration=greenhouse:%00acme&model=ats.tag",
          "/v1/records?integration=greenhouse:acme&model=ats.tag&id=%00",
          "/v1/events?integration=%00",
          "/v1/deadletters?plugin=%00",
          "/v1/streams/greenhouse:%00acme/ats.tag",
          "/v1/audit?actor=%00"
        ]
        for (const path of reads) {
          const { body, status } = yield* ask(path)
          assert.include([400, 404], status, `${path}: ${JSON.stringify(body)}`)
        }
        for (
          const [path, body] of [
            ["/v1/deadletters/plan", { plugin: "\0" }],
            ["/v1/forget/plan", { integration: "greenhouse:acme", model: "ats.candidate", id: "a\0" }],
            ["/v1/plugins/a%00/switch", { on: false }]
          ] as const
        ) {
          const { body: found, status } = yield* post(path, body)
          assert.include([400, 404], status, `${path}: ${JSON.stringify(found)}`)
        }
      }).pipe(Effect.provide(Layer.provideMerge(Running.server(), store)))
    }))
})
