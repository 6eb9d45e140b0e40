/** `GET /v1/streams`: pages and filters. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { make } from "../../../src/cli/client/ApiClient.ts"
import * as Server from "../../../src/http/Server.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import { Store } from "../../../src/store/Store.ts"
import { stateOf } from "../../conformance/StoreSamples.ts"
import { ask, served } from "./Running.ts"

const models = ["ats.tag", "hris.skill"] as const
const integrations = Array.from({ length: 60 }, (_, index) => `tool:${String(index).padStart(2, "0")}`)
const keys = integrations.flatMap((integration) => models.map((model) => ({ integration, model })))
const names = keys.map(({ integration, model }) => `${integration}/${model}`)
const withStreams = Effect.flatMap(Store, (store) => store.ensureStreams(keys.map((key) => stateOf(key))))

const namesOf = ({ items }: { readonly items: ReadonlyArray<{ readonly stream: string }> }) =>
  items.map(({ stream }) => stream)

describe("GET /v1/streams", () => {
  served("returns a hundred streams, and the others in further pages", function*() {
    yield* withStreams
    const { body: first } = yield* ask("/v1/streams")
    assert.deepStrictEqual(namesOf(first), names.slice(0, 100))
    const { body: second } = yield* ask(`/v1/streams?after=${encodeURIComponent(first.next)}`)
    assert.deepStrictEqual([namesOf(second), second.next], [names.slice(100), null])
    assert.isAtLeast(Date.parse(second.as_of), Date.parse(first.as_of))
  })

  served("skips streams that are not read, and still ends", function*() {
    const { ensureStreams } = yield* Store
    yield* ensureStreams(
      keys.map((key) => stateOf(key, key.integration < "tool:30" ? { retired: true } : {}))
    )
    const seen: Array<string> = []
    let after = ""
    do {
      const { body } = yield* ask(`/v1/streams?limit=7${after}`)
      seen.push(...namesOf(body))
      after = body.next === null ? "" : `&after=${encodeURIComponent(body.next)}`
    } while (after !== "")
    assert.deepStrictEqual(seen, names.slice(60))
  })

  served("shows streams of lists that only another process of the fleet defines, and no derived streams", function*() {
    const listed = { integration: "tool:00", model: "hris.employee" } as const
    const derived = { integration: "tool:00", model: "ats.candidate" } as const
    yield* Effect.flatMap(Store, (store) => store.ensureStreams([keys[0]!, listed, derived].map((key) => stateOf(key))))
    assert.deepStrictEqual(namesOf((yield* ask("/v1/streams")).body), ["tool:00/ats.tag", "tool:00/hris.employee"])
  })

  served("filters by integration and model", function*() {
    yield* withStreams
    const of = (query: string) => Effect.map(ask(`/v1/streams?${query}`), ({ body }) => namesOf(body))
    assert.deepStrictEqual(yield* of("integration=tool:03,tool:05"), names.filter((name) => /:0[35]/.test(name)))
    assert.deepStrictEqual(yield* of("integration=tool:03&model=hris.skill"), ["tool:03/hris.skill"])
    assert.deepStrictEqual(yield* of("integration=tool:99"), [])
    for (const query of ["after=tool:03", "limit=0", "model=ats.nothing", "phase=live"]) {
      assert.strictEqual((yield* ask(`/v1/streams?${query}`)).status, 400, query)
    }
  })

  served("is followed to its end by the client", function*() {
    yield* withStreams
    const { url } = yield* Server.Server
    const client = yield* Effect.provide(make({ url, token: null }), UnifiedApi.httpClient)
    assert.deepStrictEqual((yield* client.allStreams).map(({ stream }) => stream), names)
    assert.isTrue(Option.isSome(Option.fromNullishOr((yield* client.streams.stream({ params: keys[5]! })).phase)))
  })
})
