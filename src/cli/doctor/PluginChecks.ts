/**
 * The doctor's checks of plugins: whether each plugin is configured in every integration in which it is on, and whether its declared
 * reads are permitted.
 *
 * Gotchas
 * - A plugin may read from other integrations than those in which it is on (the hire is in an ATS, the employee form in an
 *   HRIS). So its reads are tried in every integration, and it is not a problem if some integrations do not offer them.
 * - Only a write shows whether writes are permitted, so the check names the permission of a write and does not try it.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { permissions } from "../../api/Permissions.ts"
import type { ReadName } from "../../api/Reads.ts"
import type * as Config from "../../config/Config.ts"
import { Source } from "../../source/Source.ts"
import type { HandlerName } from "../../store/Delivery.ts"
import { checkRequest, type CheckResult, harmlessErrors, ok, problem, warning } from "./CheckResult.ts"

/** The configured plugins, and the integrations in which each is on. */
export interface PluginInput {
  readonly plugins: Config.Settings["plugins"]
  readonly uses: ReadonlyArray<Config.PluginUse>
}

const describeWritePermissions = ({ definition, name }: PluginInput["plugins"][number]): ReadonlyArray<CheckResult> => {
  const named = (definition.needs?.writes ?? []).flatMap((write) => {
    const permission = permissions[write]
    return permission === null ? [] : [{ permission, write }]
  })
  return [...Map.groupBy(named, ({ permission }) => permission)].map(([permission, group]) =>
    ok(
      `plugin ${name}`,
      `needs the permission "${permission}" for ${
        group.map(({ write }) => write).join(", ")
      }; not checked, because only a write would show it`
    )
  )
}

/** `open`: the handlers whose circuit is open in the store. */
export const checkCircuits = (open: ReadonlyArray<HandlerName>): ReadonlyArray<CheckResult> =>
  open.map(({ handler, plugin }) =>
    warning(
      `plugin ${plugin}`,
      `the circuit of its handler "${handler}" is open: deliveries of ten records in a row have failed, so only one at a time is tried`,
      "The log names the failure. Fix its cause; a restart tries the handler at once"
    )
  )

/** The checks that send no request. */
export const checkConfigurations = ({ plugins, uses }: PluginInput): ReadonlyArray<CheckResult> => [
  ...uses.map(({ fault, integration, plugin }) => {
    const check = `plugin ${plugin} in ${integration}`
    return fault === null ? ok(check, "is configured") : problem(check, fault.message, fault.hint)
  }),
  ...plugins.flatMap(describeWritePermissions)
]

/** Reads that need no id. Attachments are not among them, because they belong to an application. */
const checkableReads = ["employeeForm", "assessmentPackages"] as const
type CheckableRead = (typeof checkableReads)[number]

/** Null if the integration does not offer the read. */
const checkRead = Effect.fnUntraced(
  function*(plugin: string, account: string, integration: string, read: CheckableRead) {
    const source = yield* Source
    const check = `plugin ${plugin} in ${integration}`
    const request = source.read({ account, integration, read, params: {}, priority: "poll" }).pipe(
      Effect.as(true),
      Effect.catchTag("Invalid", Effect.die),
      Effect.catchReason("SourceError", "Unsupported", () => Effect.succeed(false))
    )
    const response = yield* checkRequest(check, request, (tag) => harmlessErrors.has(tag) ? "warning" : "problem")
    return Result.match(response, {
      onSuccess: (offered) => offered ? ok(check, `${read} can be read`) : null,
      onFailure: (result) => ({ ...result, message: `${read}: ${result.message}` })
    })
  }
)

const describeUncheckedRead = (plugin: string, read: ReadName): ReadonlyArray<CheckResult> => {
  const permission = permissions[read]
  return permission === null
    ? []
    : [ok(`plugin ${plugin}`, `needs the permission "${permission}" for ${read}; not checked`)]
}

/** Tries the declared reads of all plugins in every integration of an account. */
export const checkReads = Effect.fnUntraced(function*(
  { plugins, uses }: PluginInput,
  account: string,
  integrations: ReadonlyArray<string>
): Effect.fn.Return<ReadonlyArray<CheckResult>, never, Source> {
  const results: Array<CheckResult> = []
  const reads = plugins.flatMap(({ definition: { needs }, name: plugin }) =>
    (needs?.reads ?? []).map((read) => ({ plugin, read }))
  )
  for (const { plugin, read } of reads) {
    const name = checkableReads.find((name) => name === read)
    if (name === undefined) {
      results.push(...describeUncheckedRead(plugin, read))
      continue
    }
    const responses = yield* Effect.forEach(integrations, (id) => checkRead(plugin, account, id, name), {
      concurrency: 8
    })
    const offered = responses.filter((response) => response !== null)
    results.push(...offered)
    if (offered.length > 0 || !uses.some((use) => use.plugin === plugin && integrations.includes(use.integration))) {
      continue
    }
    const message = `no integration of account ${account} offers ${read}`
    results.push(
      warning(`plugin ${plugin}`, message, "Connect an integration that offers it, or switch the plugin off")
    )
  }
  return results
})
