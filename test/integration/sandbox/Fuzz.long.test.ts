/**
 * Schemathesis, an independent fuzzer, reads the sandbox's OpenAPI document and sends requests that match it, and requests that do not.
 *
 * Gotchas
 * - Schemathesis is installed once, from `schemathesis.txt`, into a folder of this project; it needs Python 3 with pip.
 * - The fuzzer runs with one worker, because it crashes with two, and with one seed, so that a failure can be reproduced.
 * - Unknown query parameters are not errors: they are ignored with a warning.
 * - Valid data may be rejected: no schema can say which ids exist, or which values a skill's scale allows.
 */
import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { assert, beforeAll, describe, it } from "vitest"
import { startSandbox } from "../../../src/sandbox/Sandbox.ts"
import { installedPackages } from "../../support/services/PythonPackages.ts"

const exec = promisify(execFile)
const pins = join(import.meta.dirname, "schemathesis.txt")
/** Ends a run that hangs. Normally seed and examples bound the work to about 25 seconds of processor time. */
const seconds = 240

/** Parameter → the value sent four times out of five; the other parameters have an example in the document. */
const settings = (integration: string, values: Readonly<Record<string, string>>) => {
  const text = JSON.stringify
  const entries = Object.entries(values)
  return [
    "[generation]",
    "allow-extra-parameters = false",
    "[dictionaries]",
    ...entries.map(([place, value]) => `${text(place)} = { values = [${text(value)}] }`),
    "[parameters]",
    `"header.x-integration-id" = ${text(integration)}`,
    ...entries.map(([place]) => `${text(place)} = { dictionary = ${text(place)}, probability = 0.8 }`)
  ].join("\n")
}

describe("the sandbox under fuzzing", () => {
  let libraries = ""
  beforeAll(async () => {
    libraries = await installedPackages(pins)
  })

  it("no request causes a 5xx or a response that its OpenAPI document does not describe (U70)", async () => {
    await using sandbox = await startSandbox({ seed: 7, speed: 0, records: 40 })
    const { ids, integrations: [integration = ""], key, url } = sandbox
    const folder = await mkdtemp(join(tmpdir(), "rollcall-fuzz-"))
    try {
      await writeFile(
        join(folder, "schemathesis.toml"),
        settings(integration, {
          "body.stage_id": ids.stage,
          "body.interview_id": ids.interview,
          "body.employee_id": ids.employee,
          "body.skill_id": ids.skill,
          "body.category_id": ids.document_category
        })
      )
      const options = {
        "--url": url,
        "--header": `Authorization: Bearer ${key}`,
        "--phases": "examples,coverage,fuzzing",
        "--exclude-checks": "positive_data_acceptance",
        "--suppress-health-check": "all",
        "--seed": "7",
        "--max-examples": "10",
        "--workers": "1",
        "--generation-database": "none"
      }
      const document = url.replace(/\/v1$/, "/_sandbox/openapi.json")
      const args = [
        "--config-file",
        "schemathesis.toml",
        "run",
        document,
        "--no-color",
        ...Object.entries(options).flat()
      ]
      const { stdout } = await exec("python3", ["-m", "schemathesis.cli", ...args], {
        cwd: folder,
        env: { ...process.env, PYTHONPATH: libraries },
        timeout: seconds * 1000,
        maxBuffer: 64 * 1024 * 1024
      }).catch(({ killed, stderr, stdout }) => {
        throw new Error(killed ? `it took longer than ${seconds} s` : `${stdout}\n${stderr}`)
      })
      assert.match(stdout, /Tested: 27\b/)
      const requests = await sandbox.requests()
      const succeeded = new Set(
        requests.filter(({ status }) => status === 200).map(({ method, path }) => `${method} ${path}`)
      )
      assert.isAbove(requests.length, 500)
      assert.isAbove(succeeded.size, 20)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }, (seconds + 10) * 1000)
})
