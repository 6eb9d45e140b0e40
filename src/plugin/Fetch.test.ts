/** The capability `fetch`, where handlers use it like the global `fetch`. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { make } from "../../test/support/delivery/Rig.ts"
import * as Testing from "../testing/Testing.ts"
import * as Plugin from "./Plugin.ts"

type Fetch = Plugin.AsyncCapabilities["fetch"]

/** A plugin whose handler keeps what `fetch` throws. */
const keeping = (errors: Array<unknown>, request: (fetch: Fetch) => Promise<unknown>) =>
  Plugin.make("fetching").on(
    "ats.application.created",
    {},
    async (_, { fetch }) => {
      await request(fetch).catch((error: unknown) => errors.push(error))
    }
  )

const url = "https://hooks.example/in"
const event = Testing.event("ats.application.created", {})

describe("fetch", () => {
  it("sends no request whose signal is already aborted", async () => {
    const errors: Array<unknown> = []
    const plugin = keeping(errors, (fetch) => fetch(url, { signal: AbortSignal.abort() }))
    const { failure, requests } = await Testing.make(plugin, { http: () => ({ status: 200 }) }).deliver(event)
    assert.deepStrictEqual([failure, requests], [null, []])
    assert.deepInclude(errors[0], { _tag: "Transient", message: "no response: the signal of the request was aborted" })
  })

  it.effect("stops waiting for a response when its signal is aborted", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const errors: Array<unknown> = []
      const abort = new AbortController()
      let asked = 0
      rig.script.http = () => Effect.andThen(Effect.sync(() => asked++), Effect.never)
      yield* rig.start([keeping(errors, (fetch) => fetch(new Request(url, { signal: abort.signal })))])
      yield* rig.append("a1")
      yield* rig.until(() => asked === 1)
      abort.abort()
      yield* rig.empty
      assert.propertyVal(errors[0], "_tag", "Transient")
    }))

  it("rejects its promise if the URL is invalid, and throws nothing before", async () => {
    const errors: Array<unknown> = []
    const plugin = keeping(errors, (fetch) => fetch("nonsense"))
    assert.isNull((await Testing.make(plugin).deliver(event)).failure)
    assert.instanceOf(errors[0], TypeError)
  })

  it("returns the response of a redirect, and does not follow it", async () => {
    const statuses: Array<number> = []
    const plugin = keeping([], async (fetch) => statuses.push((await fetch(url)).status))
    const http = () => ({ status: 302, headers: { location: "https://elsewhere.example" } })
    const { requests } = await Testing.make(plugin, { http }).deliver(event)
    assert.deepStrictEqual([statuses, requests.length], [[302], 1])
  })
})
