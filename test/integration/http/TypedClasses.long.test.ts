/**
 * An independent generator makes Python classes of the schemas that the operating API serves, and these classes read the events that
 * it lists.
 *
 * Gotchas
 * - The generator is installed once, from `datamodel-codegen.txt`, into a folder of this project; it needs Python 3 with pip.
 */
import { assert, beforeAll, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { incrementalModels } from "../../../src/api/Lists.ts"
import { modelNames } from "../../../src/domain/BuiltInModels.ts"
import { listExamples } from "../../support/api/Examples.ts"
import { installedPackages } from "../../support/services/PythonPackages.ts"
import * as Running from "./Running.ts"

const exec = promisify(execFile)
const { ask, served, stream, write } = Running

/** Reads each event with the class of its model, and prints what a consumer then sees. */
const consumer = `
import importlib, json, sys
for line in sys.stdin:
    event = json.loads(line)
    name = event["model"].replace(".", "_") + "_event"
    module = importlib.import_module("generated." + name)
    schema = json.load(open("schemas/" + event["model"] + ".event.json"))
    typed = getattr(module, schema["title"]).model_validate(event["data"])
    record = typed.after
    print(type(record).__name__, record.id, type(typed.detected_at).__name__, typed.kind)
    if event["model"] == "ats.application":
        print(record.outcome, record.candidate.email_addresses[0].email_address, record.model_extra["unknown"])
    if event["model"] == "hris.payslip":
        print(record.totals.gross_pay.value + 1, record.employee)
`

describe("typed classes", () => {
  let libraries = ""
  beforeAll(async () => {
    libraries = await installedPackages(join(import.meta.dirname, "datamodel-codegen.txt"))
  })

  served(
    "datamodel-codegen makes a class for each model from the served schemas, and the classes read the feed",
    function*() {
      for (const model of incrementalModels) {
        yield* stream({}, { integration: "greenhouse:acme", model })
        const record = {
          ...listExamples[model],
          unknown: "kept",
          ...model === "hris.payslip" && { employee: "redacted:x" }
        }
        yield* write("r1", JSON.stringify(record), { model })
      }
      const { body: { events } } = yield* ask("/v1/events")
      assert.strictEqual(events.length, incrementalModels.length)
      const folder = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "rollcall-classes-"))),
        (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
      )
      yield* Effect.promise(() => mkdir(join(folder, "schemas")))
      for (const model of modelNames) {
        for (const name of [model, `${model}.event`]) {
          const { text } = yield* ask(`/schemas/${name}/1`)
          yield* Effect.promise(() => writeFile(join(folder, "schemas", `${name}.json`), text))
        }
      }
      const python = (args: ReadonlyArray<string>, input = "") =>
        Effect.promise(() => {
          const running = exec("python3", args, { cwd: folder, env: { ...process.env, PYTHONPATH: libraries } })
          running.child.stdin?.end(input)
          return running
        })
      const options = {
        "--input": "schemas",
        "--input-file-type": "jsonschema",
        "--output-model-type": "pydantic_v2.BaseModel",
        "--enum-field-as-literal": "all",
        "--output": "generated"
      }
      yield* python(["-m", "datamodel_code_generator", ...Object.entries(options).flat()])
      const lines = events.map((event: unknown) => JSON.stringify(event)).join("\n")
      const { stdout } = yield* python(["-c", consumer], lines)
      const seen = stdout.trim().split("\n")
      for (const name of ["Application", "Payslip", "StaffingEntity", "Tag"]) {
        assert.include(seen, `${name} r1 datetime created`)
      }
      assert.include(seen, "PENDING ada@example.org kept")
      assert.include(seen, "13.5 redacted:x")
      assert.strictEqual(seen.length, incrementalModels.length + 2)
    }
  )
})
