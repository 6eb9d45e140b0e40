/**
 * Checks and tests in three sizes.
 *
 * - `npm run test:fast`: types, lint, format, unit and property tests; no services.
 * - `npm test`: the same, slower unit tests, and the integration tests, on real databases, brokers, sockets and processes. Arguments go to
 *   the test runner: `npm test -- src/capture`.
 * - `npm run test:long`: the integration tests of special subjects; kills, ten thousand events, fuzzing; then two thousand simulated
 *   worlds, and mutants.
 *
 * The last line says `N passed, N failed, N skipped`, each check counted as one test.
 *
 * Gotchas
 * - With `CI=true` a skipped test is a failure, so that a missing dependency of the machine is noticed.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"

interface Outcome {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

/**
 * Runs of the test runner: projects, and how many workers run them. Integration tests wait half of their time, so there are more workers
 * than cores.
 */
const sizes = {
  fast: { checked: true, runs: [["--project=unit", "--maxWorkers=2"]] },
  standard: { checked: true, runs: [["--project=unit", "--project=integration", "--maxWorkers=5"]] },
  long: { checked: false, runs: [["--project=long", "--maxWorkers=4"], ["--project=worlds"]] }
}

const root = fileURLToPath(new URL("..", import.meta.url))
const tools = join(root, "node_modules", ".bin")

/** Runs a tool of this project. Returns whether it succeeded, and its output if that is piped. */
const run = (tool: string, args: ReadonlyArray<string>, output: "inherit" | "pipe") =>
  new Promise<{ readonly succeeded: boolean; readonly text: string }>((resolve) => {
    const child = spawn(join(tools, tool), args, {
      cwd: root,
      stdio: ["ignore", output, output],
      env: { ...process.env, PATH: `${tools}${delimiter}${process.env["PATH"] ?? ""}` }
    })
    let text = ""
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => text += String(chunk))
    child.once("error", ({ message }) => resolve({ succeeded: false, text: message }))
    child.once("close", (status) => resolve({ succeeded: status === 0, text }))
  })

const checks: ReadonlyArray<readonly [name: string, tool: string, args: ReadonlyArray<string>]> = [
  // a file in .cache keeps what was checked before: without a change this takes a tenth of the processor time. Several checkers
  // would each check the types of libraries again
  ["types", "tsc", [
    ..."--noEmit --checkers 1 --incremental --tsBuildInfoFile".split(" "),
    join(root, ".cache", "types.tsbuildinfo")
  ]],
  ["lint", "oxlint", ["--deny-warnings", "src", "test", "bench", "plugins", "templates", "console", "site/reference"]],
  ["format", "dprint", ["check"]]
]

/** Runs all checks at once. Returns the names and the output of those that fail. */
const runChecks = async () => {
  const results = await Promise.all(
    checks.map(async ([name, tool, args]) => ({ name, ...await run(tool, args, "pipe") }))
  )
  return results.filter(({ succeeded }) => !succeeded)
}

/** The parts of the test runner's JSON report that are counted here. */
interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly status: string
    readonly assertionResults: ReadonlyArray<{ readonly status: string }>
  }>
}

const readReport = (file: string): Report | undefined => {
  try {
    return JSON.parse(readFileSync(file, "utf8"))
  } catch {
    return undefined
  }
}

const runTests = async (args: ReadonlyArray<string>): Promise<Outcome> => {
  const directory = mkdtempSync(join(tmpdir(), "rollcall-test-"))
  try {
    const file = join(directory, "report.json")
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`]
    const { succeeded } = await run("vitest", ["run", ...reporters, ...args], "inherit")
    const report = readReport(file)
    if (report === undefined) {
      console.error("the test runner left no report")
      return { passed: 0, failed: 1, skipped: 0 }
    }
    // a test file that cannot be loaded fails without a failed test
    const broken = report.testResults.filter(({ assertionResults, status }) =>
      status === "failed" && assertionResults.every((test) => test.status !== "failed")
    )
    const failed = report.numFailedTests + broken.length
    return {
      passed: report.numPassedTests,
      failed: failed === 0 && !succeeded ? 1 : failed,
      skipped: report.numPendingTests + report.numTodoTests
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

const isSize = (name: string): name is keyof typeof sizes => Object.hasOwn(sizes, name)

const [name = "standard", ...paths] = process.argv.slice(2)
if (!isSize(name)) {
  console.error(`there is no size "${name}"; the sizes are fast, standard and long`)
  process.exit(2)
}
const size = sizes[name]
/** Runs all tests of the size, one run of the test runner after another. */
const runAllTests = async (): Promise<Outcome> => {
  const sum = { passed: 0, failed: 0, skipped: 0 }
  for (const run of size.runs) {
    // one of several runs may have no test whose path matches
    const { failed, passed, skipped } = await runTests([
      ...run,
      ...paths,
      ...size.runs.length > 1 ? ["--passWithNoTests"] : []
    ])
    sum.passed += passed
    sum.failed += failed
    sum.skipped += skipped
  }
  return sum
}
const [failedChecks, tests] = await Promise.all([size.checked ? runChecks() : [], runAllTests()])
const total: Outcome = {
  passed: tests.passed + (size.checked ? checks.length - failedChecks.length : 0),
  failed: tests.failed + failedChecks.length,
  skipped: tests.skipped
}

const skipsFail = process.env["CI"] === "true" && total.skipped > 0
for (const { name, text } of failedChecks) console.error(`${name}:\n${text}`)
if (failedChecks.length > 0) console.log(`failed checks: ${failedChecks.map(({ name }) => name).join(", ")}`)
if (skipsFail) console.log("skipped tests count as a failure where CI=true")
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`)
process.exitCode = total.failed > 0 || skipsFail ? 1 : 0
