import { assert, describe, it } from "vitest"
import type { CheckResult } from "../../../src/cli/doctor/CheckResult.ts"
import { configured } from "./Configured.ts"
import { inDirectory, runCommand } from "./Program.ts"

const old = `{ origins: ["backfill"] }`
const last = (stderr: string) => JSON.parse(stderr.trimEnd().split("\n").at(-1) ?? "")

describe("start with plugins", () => {
  it("--once delivers the events of its run and exits 0", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await configured(
        serve,
        directory,
        `Plugin.make("counting").on("ats.tag.created", ${old}, (event) =>
          Effect.andThen(Effect.sleep("200 millis"), Effect.sync(() => process.stdout.write(event.model + "\\n"))))
          .with({ from: "oldest" })`
      )
      const { code, stderr, stdout } = await runCommand(["start", "--once"], environment, directory)
      assert.strictEqual(code, 0, stderr)
      assert.isAbove(stdout.split("\n").filter((line) => line === "ats.tag").length, 3)
    }))

  it("--once exits 1 and reports waiting deliveries and new dead letters", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await configured(
        serve,
        directory,
        `Plugin.make("failing")
          .on("ats.tag.created", { origins: ["backfill"], as: "dead" }, () => new Plugin.Permanent({ message: "no" }))
          .on("ats.tag.created", { origins: ["backfill"], as: "late", retry: { first: "1 hour" } }, () =>
            new Plugin.Transient({ message: "not yet" }))
          .with({ from: "oldest" })`
      )
      const { code, stderr } = await runCommand(["start", "--once"], environment, directory)
      assert.strictEqual(code, 1)
      assert.match(stderr, /plugin failing, dead: .*\d+ deliver(y|ies) became (a )?dead letters?/)
      assert.match(stderr, /plugin failing, late: \d+ deliver(y is|ies are) waiting/)
      assert.match(last(stderr).message, /not everything was read, published and delivered/)
    }))

  it("SIGTERM lets a running handler finish and starts no other", () =>
    inDirectory(async (directory, start, serve) => {
      const { environment } = await configured(
        serve,
        directory,
        `Plugin.make("slow").on("ats.tag.created", { origins: ["backfill"], concurrency: 1 }, () =>
          Effect.gen(function*() {
            process.stdout.write("began\\n")
            yield* Effect.sleep("3 seconds")
            process.stdout.write("ended\\n")
          })).with({ from: "oldest" })`
      )
      const service = start(["start"], environment, directory)
      await service.says(/began/)
      const { code, stderr, stdout } = await service.stop()
      assert.strictEqual(code, 0, stderr)
      const printed = stdout.trimEnd().split("\n")
      assert.strictEqual(
        printed.filter((word) => word === "began").length,
        printed.filter((word) => word === "ended").length
      )
      assert.isBelow(printed.length, 6)
    }))
})

describe("doctor with plugins", () => {
  const examined = async (environment: Readonly<Record<string, string>>, directory: string) => {
    const { stdout } = await runCommand(["doctor", "--json"], environment, directory)
    const { checks, ok }: { checks: ReadonlyArray<CheckResult>; ok: boolean } = JSON.parse(stdout)
    const of = (check: string) => checks.filter((result) => result.check.startsWith(check))
    return { ok, of }
  }
  const needy = `Plugin.make("needy", {
    needs: { reads: ["employeeForm", "attachments"], writes: ["addTag", "removeTag", "createEmployee", "addResultLink"] }
  }).on("ats.tag.created", {}, () => Effect.void)`

  it("names the permissions that only a write would show, and tries the reads that need no id", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment, id, setFaults } = await configured(serve, directory, needy)
      const well = await examined(environment, directory)
      assert.isTrue(well.ok)
      const messages = well.of("plugin needy").map(({ message, status }) => `${status} ${message}`)
      assert.deepStrictEqual(messages, [
        "ok is configured",
        `ok needs the permission "Manage tags" for addTag, removeTag; not checked, because only a write would show it`,
        `ok needs the permission "Create and manage employees" for createEmployee; not checked, because only a write would show it`,
        "ok employeeForm can be read",
        `ok needs the permission "Read document attachments" for attachments; not checked`
      ])
      await setFaults({
        faults: [{ kind: "api_error", code: "INTEGRATION.PERMISSION_MISSING", endpoint: "employeeForm" }]
      })
      const ill = await examined(environment, directory)
      const [refused] = ill.of(`plugin needy in ${id}`).filter(({ status }) => status !== "ok")
      assert.strictEqual(refused?.status, "problem")
      assert.match(refused?.message ?? "", /^employeeForm: /)
    }))

  it("reports the missing configuration of a plugin and where, and start refuses it", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment, id } = await configured(
        serve,
        directory,
        `Plugin.make("wanting", { config: Config.String("WEBHOOK_URL") })
          .on("ats.tag.created", {}, () => Effect.void)`
      )
      const { of, ok } = await examined(environment, directory)
      assert.isFalse(ok)
      const [finding] = of(`plugin wanting in ${id}`)
      assert.deepStrictEqual([finding?.status, finding?.message.includes("WEBHOOK_URL")], ["problem", true])
      assert.include(finding?.hint, "with({ … })")
      const { code, stderr } = await runCommand(["start", "--once"], environment, directory)
      assert.deepStrictEqual([code, stderr.includes("WEBHOOK_URL")], [1, true])
    }))
})

describe("a plugin with faults", () => {
  const faulty = `Plugin.make("hasty", { needs: { writes: ["addTags"] } } as any)
    .on("ats.tag.created", { timeout: "1 minit", attmpts: 3 } as any, async () => {})
    .on("ats.tag.creatd" as any, {}, async () => {})
    .on("ats.tag.deleted", {}, undefined as any)`
  const faults = [
    /plugin "hasty": needs\.writes "addTags" is not known.* Did you mean "addTag"\?/,
    /handler "ats\.tag\.created": timeout "1 minit" is not a duration/,
    /handler "ats\.tag\.created": attmpts is not known.* Did you mean "attempts"\?/,
    /"ats\.tag\.creatd" is not a trigger.* Did you mean "ats\.tag\.created"\?/,
    /handler "ats\.tag\.deleted": the handler is missing/
  ]

  it("is reported by doctor with each fault, and start refuses it (L23)", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await configured(serve, directory, faulty)
      const { code, stdout } = await runCommand(["doctor", "--json"], environment, directory)
      const { checks }: { readonly checks: ReadonlyArray<CheckResult> } = JSON.parse(stdout)
      const problems = checks.filter(({ status }) => status === "problem")
      const texts = problems.map(({ hint, message }) => `${message} ${hint}`)
      assert.strictEqual(texts.length, faults.length, texts.join("\n"))
      for (const [index, fault] of faults.entries()) assert.match(texts[index] ?? "", fault)
      for (const text of texts) assert.include(text, "rollcall.config.ts, plugins[0]")
      const begun = await runCommand(["start", "--once"], environment, directory)
      assert.deepStrictEqual([code, begun.code], [1, 1])
      for (const fault of faults) assert.match(last(begun.stderr).message, fault)
    }))

  it("is not one with plain async functions as handlers (L23)", () =>
    inDirectory(async (directory, _, serve) => {
      const { environment } = await configured(
        serve,
        directory,
        `Plugin.make("plain").on("ats.tag.created", ${old}, async (event, { api }: Plugin.AsyncCapabilities) => {
          process.stdout.write(api.integration + " " + event.model + "\\n")
        }).with({ from: "oldest" })`
      )
      const { code, stderr, stdout } = await runCommand(["start", "--once"], environment, directory)
      assert.strictEqual(code, 0, stderr)
      assert.include(stdout, "sandbox:everything ats.tag")
    }))
})
