import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type RunningSandbox, Sandbox, startSandbox } from "../../../src/sandbox/Sandbox.ts"

const status = async ({ integrations: [first = ""], key, url }: RunningSandbox, path: string) =>
  (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}`, "x-integration-id": first } })).status

describe("rollcall/sandbox", () => {
  it("serves in process until it is stopped, and then the port is free", async () => {
    const first = await startSandbox({ speed: 0, records: 10 })
    assert.strictEqual(await status(first, "/ats/tags"), 200)
    await first.stop()
    const port = Number(new URL(first.url).port)
    await using second = await startSandbox({ speed: 0, records: 10, port })
    assert.strictEqual(await status(second, "/ats/tags"), 200)
  })

  it("accepts mutations, faults and account settings, each until it is reset", async () => {
    await using sandbox = await startSandbox({ speed: 0, records: 10 })
    const [integration = ""] = sandbox.integrations
    const { id } = await sandbox.mutate({ op: "create", integration, model: "ats.tag", fields: { name: "new" } })
    assert.include(JSON.stringify(await sandbox.truth("ats.tag")), id)
    await sandbox.setFaults({ faults: [{ kind: "server_error", status: 503, model: "ats.tag" }] })
    assert.strictEqual(await status(sandbox, "/ats/tags"), 503)
    await sandbox.setFaults({})
    await sandbox.setAccount({ missingPermissions: ["Read document attachments"] })
    assert.strictEqual(await status(sandbox, `/ats/applications/${sandbox.ids.application}/attachments`), 403)
    await sandbox.setAccount({})
    assert.strictEqual(await status(sandbox, "/ats/tags"), 200)
    assert.deepStrictEqual((await sandbox.requests()).map(({ status }) => status), [503, 403, 200])
  })

  it("rejects with the reason why a request is not possible", async () => {
    await using sandbox = await startSandbox({ speed: 0, records: 10, integrations: 2 })
    const [recruiting = ""] = sandbox.integrations
    const refused = (act: Promise<unknown>) => act.then(() => "done", String)
    const none = { integration: recruiting, model: "ats.tag", id: "none" }
    assert.include(await refused(sandbox.mutate({ op: "touch", ...none })), 'there is no ats.tag "none"')
    assert.include(await refused(sandbox.truth("ats.tag", "a:b")), 'There is no integration "a:b"')
    assert.include(await refused(sandbox.truth("assessment.package")), "No integration has assessment.package")
  })

  it("returns a reachable address when it listens on all addresses", async () => {
    await using sandbox = await startSandbox({ speed: 0, records: 10, host: "0.0.0.0" })
    assert.match(sandbox.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/)
    assert.strictEqual(await status(sandbox, "/ats/tags"), 200)
  })

  it.live("is a layer for Effect", () =>
    Effect.gen(function*() {
      const { ids, requests, truth, url } = yield* Sandbox
      assert.include(JSON.stringify(yield* truth("ats.job")), ids.job)
      yield* Effect.promise(() => fetch(`${url}/ats/tags`))
      assert.deepStrictEqual((yield* requests).map(({ status }) => status), [401])
    }).pipe(Effect.provide(Sandbox.layer({ speed: 0, records: 10 }))))
})
