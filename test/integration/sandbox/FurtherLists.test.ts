/** The sandbox's lists beyond the specification. */
import { assert, describe, it } from "@effect/vitest"
import { join } from "node:path"
import { furtherLists } from "../../../src/sandbox/server/Endpoints.ts"
import { inDirectory, runCommand, sandboxed } from "../cli/Program.ts"
import { mutate, pause, row, since, withSandbox } from "./Client.ts"

describe("the lists beyond the specification", () => {
  for (const [model, path] of Object.entries(furtherLists)) {
    it.live(`${path} has the records of ${model}, in pages and with the shared filters`, () =>
      withSandbox({}, async ({ get, handle: { integrations } }) => {
        assert.isNotEmpty(integrations)
        const read = async (query: string) => (await get(`${path}?${query}`)).json.data
        const { next, results } = await read("page_size=1")
        const [first] = results
        const { results: [second] } = await read(`page_size=1&cursor=${next}`)
        assert.isString(first?.["id"])
        assert.notStrictEqual(first?.["id"], second?.["id"])
        assert.deepStrictEqual((await read(`ids=${first?.["id"]}`)).results, results)
        assert.lengthOf((await read("updated_after=2090-01-01")).results, 0)
        assert.strictEqual((await get(`${path}?updated_after=2090-02-31`)).status, 400)
      }))
  }

  it.live("a new and a changed employee match updated_after", () =>
    withSandbox({}, async (client) => {
      const moment = await pause()
      const fields = { first_name: "Ada" }
      const id = await mutate(client, { op: "create", model: "hris.employee", fields })
      assert.deepStrictEqual(await since(client, "/hris/employees", moment), [id])
      const later = await pause()
      await mutate(client, { op: "update", model: "hris.employee", id, fields: { last_name: "King" } })
      assert.deepStrictEqual(await since(client, "/hris/employees", later), [id])
      assert.deepInclude(await row(client, "/hris/employees", id), { first_name: "Ada", last_name: "King" })
    }))

  it("Rollcall publishes them as models of the configuration", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await sandboxed(serve, directory)
      const lists = { ROLLCALL_LISTS: "hris.employee=/hris/employees,ats.job=/ats/jobs" }
      const own = { ...environment, ...lists, ROLLCALL_MODELS: "hris.employee,ats.job,hris.payslip" }
      const { code, stderr } = await runCommand(["start", "--once"], own, directory)
      assert.strictEqual(code, 0, stderr)
      assert.include(stderr, "every stream was read once")
      const { code: healthy, stdout } = await runCommand(["doctor"], {
        ...own,
        ROLLCALL_STORE: `sqlite:${join(directory, "x.db")}`
      })
      assert.strictEqual(healthy, 0, stdout)
      assert.match(stdout, /stream sandbox:everything\/hris.employee: can be read/)
    }))
})
