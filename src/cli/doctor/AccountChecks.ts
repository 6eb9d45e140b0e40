/**
 * The doctor's checks of accounts and their integrations: whether each account answers and accepts the key, each stream can be read, and
 * this machine's clock agrees with the API's.
 *
 * Gotchas
 * - An account that does not answer or refuses the key is reported once, and its integrations are not checked.
 * - For each model, changes since now are requested. That is the smallest request that shows whether the model is permitted and supported.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Result from "effect/Result"
import { discoverModels } from "../../capture/schedule/ModelDiscovery.ts"
import type { Integration } from "../../config/IntegrationSettings.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import type { Model } from "../../domain/Model.ts"
import { type Page, Source } from "../../source/Source.ts"
import { accountErrors, checkRequest, type CheckResult, harmlessErrors, ok, warning } from "./CheckResult.ts"
import * as PluginChecks from "./PluginChecks.ts"

/** The configured integrations of all accounts, and the plugins. */
interface AccountInput extends PluginChecks.PluginInput {
  readonly integrations: ReadonlyArray<Integration>
}

const noticeableSkew = Duration.seconds(5)

const checkAccountAccess = Effect.fnUntraced(function*(name: string, url: string) {
  const { read } = yield* Source
  const check = `account ${name}`
  const catalog = yield* checkRequest(
    check,
    read({ account: name, integration: null, read: "tools", params: { category: "ats" }, priority: "poll" }).pipe(
      Effect.catchTag("Invalid", Effect.die)
    ),
    (tag) => accountErrors.has(tag) ? "problem" : "warning"
  )
  return Result.getOrElse(Result.map(catalog, () => ok(check, `${url} answers and accepts the key`)), identity)
})

/** How far this machine's clock is ahead of the API's, in ms. Adds 500 ms because the header `Date` is cut to whole seconds. */
const skewOf = ({ duration, requestedAt, serverTime }: Page): number | null =>
  serverTime === null ? null : requestedAt + duration / 2 - (serverTime + 500)

const checkStream = Effect.fnUntraced(function*({ account, id: integration }: Integration, model: Model) {
  const { page } = yield* Source
  const check = `stream ${integration}/${model}`
  const updatedAfter = yield* Clock.currentTimeMillis
  const response = yield* checkRequest(
    check,
    page({ account, integration, model, priority: "poll", cursor: null, updatedAfter, ids: null }),
    (tag) => harmlessErrors.has(tag) ? "warning" : "problem"
  )
  return Result.match(response, {
    onFailure: (result) => ({ result, skew: null }),
    onSuccess: (page) => ({ result: ok(check, "can be read"), skew: skewOf(page) })
  })
})

const checkClockAgainstApi = (account: string, skews: ReadonlyArray<number>): ReadonlyArray<CheckResult> => {
  const [skew] = skews.toSorted((a, b) => Math.abs(a) - Math.abs(b))
  if (skew === undefined) return []
  const check = `clock ${account}`
  const size = Duration.millis(Math.round(Math.abs(skew) / 1000) * 1000)
  return [
    Duration.isLessThan(size, noticeableSkew)
      ? ok(check, "agrees with the API's")
      : warning(
        check,
        `is ${Duration.format(size)} ${skew > 0 ? "ahead of" : "behind"} the API's`,
        "Synchronize this machine's clock (NTP); no change is lost, but times in events and measured delays are wrong"
      )
  ]
}

const checkIntegrations = Effect.fnUntraced(function*(input: AccountInput, name: string) {
  const integrations = input.integrations.filter(({ account }) => account === name)
  const { read } = yield* CurrentModels
  const discovered = yield* discoverModels(integrations.filter(({ models }) => models === "auto"))
  const streams = integrations.flatMap((integration) => {
    const models = integration.models === "auto" ? discovered.get(integration.id)?.models : integration.models
    return (models?.filter((model) => read.includes(model)) ?? read).map((model) => ({ integration, model }))
  })
  const unsupported = [...discovered].flatMap(([id, { models }]) => {
    const others = read.filter((model) => !models.includes(model))
    return others.length === 0 ? [] : [ok(`integration ${id}`, `its tool does not offer ${others.join(", ")}`)]
  })
  const checked = yield* Effect.forEach(streams, ({ integration, model }) => checkStream(integration, model), {
    concurrency: 8
  })
  const skews = checked.map(({ skew }) => skew).filter((skew) => skew !== null)
  return [...unsupported, ...checked.map(({ result }) => result), ...checkClockAgainstApi(name, skews)]
})

/** Checks an account, then its integrations and the reads of plugins in them. */
export const checkAccountAndIntegrations = Effect.fnUntraced(function*(
  input: AccountInput,
  name: string,
  url: string
): Effect.fn.Return<ReadonlyArray<CheckResult>, never, Source> {
  const own = yield* checkAccountAccess(name, url)
  if (own.status === "problem") return [own]
  const ids = input.integrations.flatMap(({ account, id }) => account === name ? [id] : [])
  const reads = yield* PluginChecks.checkReads(input, name, ids)
  return [own, ...(yield* checkIntegrations(input, name)), ...reads]
})
