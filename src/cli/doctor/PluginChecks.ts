/**
 * The part of the doctor that looks at plugins: whether each is configured wherever it is on, and has the permissions it
 * declares.
 *
 * Gotchas
 * - A plugin may ask other integrations than those where it is on (a hire is in an ATS, the employee form in an HRIS): its
 *   reads are tried in each, and where one is not offered means nothing.
 * - Whether a write is permitted only a write shows: its permission is named, not tried.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { permissions } from "../../api/Permissions.ts"
import type { ReadName } from "../../api/Reads.ts"
import type { WriteName } from "../../api/Writes.ts"
import { Source } from "../../source/Source.ts"
import { checkRequest, type CheckResult, harmlessErrors, ok, problem, warning } from "./CheckResult.ts"

export interface Needs {
  readonly plugin: string
  readonly reads: ReadonlyArray<ReadName>
  readonly writes: ReadonlyArray<WriteName>
}

export interface Plugins {
  /** Where each is on, and what is missing there. */
  readonly used: ReadonlyArray<{
    readonly plugin: string
    readonly integration: string
    readonly fault: { readonly message: string; readonly hint: string } | null
  }>
  readonly needs: ReadonlyArray<Needs>
}

const describeWritePermissions = ({ plugin, writes }: Needs): ReadonlyArray<CheckResult> => {
  const named = writes.flatMap((write) => {
    const permission = permissions[write]
    return permission === null ? [] : [{ permission, write }]
  })
  return [...Map.groupBy(named, ({ permission }) => permission)].map(([permission, group]) =>
    ok(
      `plugin ${plugin}`,
      `needs permission "${permission}" enabled, for ${group.map(({ write }) => write).join(", ")}; only a write shows`
    )
  )
}

/** All that needs nobody to be asked. */
export const checkConfigurations = ({ needs, used }: Plugins): ReadonlyArray<CheckResult> => [
  ...used.map(({ fault, integration, plugin }) => {
    const check = `plugin ${plugin} in ${integration}`
    return fault === null ? ok(check, "is configured") : problem(check, fault.message, fault.hint)
  }),
  ...needs.flatMap(describeWritePermissions)
]

/** What an integration can be asked for as it is; attachments are an application's. */
const checkableReads = ["employeeForm", "assessmentPackages"] as const
type CheckableRead = (typeof checkableReads)[number]

/** null: it is not offered there. */
const checkRead = Effect.fnUntraced(
  function*(plugin: string, account: string, integration: string, read: CheckableRead) {
    const source = yield* Source
    const check = `plugin ${plugin} in ${integration}`
    const question = source.read({ account, integration, read, params: {}, priority: "poll" }).pipe(
      Effect.as(true),
      Effect.catchTag("Invalid", Effect.die),
      Effect.catchReason("SourceError", "Unsupported", () => Effect.succeed(false))
    )
    const answer = yield* checkRequest(check, question, (tag) => harmlessErrors.has(tag) ? "warning" : "problem")
    return Result.match(answer, {
      onSuccess: (offered) => offered ? ok(check, `${read} can be read`) : null,
      onFailure: (finding) => ({ ...finding, message: `${read}: ${finding.message}` })
    })
  }
)

const describeUncheckedRead = (plugin: string, read: ReadName): ReadonlyArray<CheckResult> => {
  const permission = permissions[read]
  return permission === null
    ? []
    : [ok(`plugin ${plugin}`, `needs permission "${permission}" enabled, for ${read}; not tried`)]
}

/** Tries what plugins read, in every integration of an account. */
export const checkReads = Effect.fnUntraced(function*(
  { needs, used }: Plugins,
  account: string,
  integrations: ReadonlyArray<string>
): Effect.fn.Return<ReadonlyArray<CheckResult>, never, Source> {
  const findings: Array<CheckResult> = []
  for (const { plugin, read } of needs.flatMap(({ plugin, reads }) => reads.map((read) => ({ plugin, read })))) {
    const name = checkableReads.find((name) => name === read)
    if (name === undefined) {
      findings.push(...describeUncheckedRead(plugin, read))
      continue
    }
    const answers = yield* Effect.forEach(integrations, (id) => checkRead(plugin, account, id, name), {
      concurrency: 8
    })
    const offered = answers.filter((answer) => answer !== null)
    findings.push(...offered)
    if (offered.length > 0 || !used.some((use) => use.plugin === plugin && integrations.includes(use.integration))) {
      continue
    }
    const nobody = `no integration of account ${account} offers ${read}`
    findings.push(warning(`plugin ${plugin}`, nobody, "Connect one that does, or switch the plugin off here"))
  }
  return findings
})
