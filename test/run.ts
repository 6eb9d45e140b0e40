/**
 * `npm test`: types, lint, format, then every test; arguments go to the test runner (`npm test -- test/unit`).
 * The last line says `N passed, N failed, N skipped`, each check counted as one test.
 *
 * Gotchas
 * - With `CI=true` a skipped test is a failure, so that a missing dependency of the machine is noticed.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"

interface Outcome {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

const root = fileURLToPath(new URL("..", import.meta.url))
const tools = join(root, "node_modules", ".bin")

/** Runs a tool of this project and shows its output. Returns whether it succeeded. */
const run = (tool: string, args: ReadonlyArray<string>): boolean => {
  const { error, status } = spawnSync(join(tools, tool), args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, PATH: `${tools}${delimiter}${process.env["PATH"] ?? ""}` }
  })
  if (error !== undefined) console.error(error.message)
  return status === 0
}

const checks: ReadonlyArray<readonly [name: string, tool: string, args: ReadonlyArray<string>]> = [
  ["types", "tsc", ["--noEmit"]],
  ["lint", "oxlint", ["--deny-warnings", "src", "test", "bench", "plugins", "templates"]],
  ["format", "dprint", ["check"]]
]

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

const runTests = (args: ReadonlyArray<string>): Outcome => {
  const directory = mkdtempSync(join(tmpdir(), "rollcall-test-"))
  try {
    const file = join(directory, "report.json")
    const succeeded = run("vitest", [
      "run",
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${file}`,
      ...args
    ])
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

const failedChecks = checks.filter(([, tool, args]) => !run(tool, args)).map(([name]) => name)
const tests = runTests(process.argv.slice(2))
const total: Outcome = {
  passed: tests.passed + checks.length - failedChecks.length,
  failed: tests.failed + failedChecks.length,
  skipped: tests.skipped
}

const skipsFail = process.env["CI"] === "true" && total.skipped > 0
if (failedChecks.length > 0) console.log(`failed checks: ${failedChecks.join(", ")}`)
if (skipsFail) console.log("skipped tests count as a failure where CI=true")
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`)
process.exitCode = total.failed > 0 || skipsFail ? 1 : 0
