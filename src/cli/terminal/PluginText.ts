/** The terminal output for plugins, dry runs and dead letters. Pure. */
import type { PluginView } from "../../delivery/admin/PluginAdmin.ts"
import type { DeliveryProgress } from "../../domain/DeliveryProgress.ts"
import type { PlanView } from "../../http/contract/DeadLetterApi.ts"
import type {
  DeadLetterDetailView,
  DeadLetterView,
  GroupView,
  OutcomeView
} from "../../http/contract/DeadLetterViews.ts"
import type { PluginList, ReplayView } from "../../http/contract/PluginApi.ts"
import { shellWord } from "../../http/overview/ShellWord.ts"
import { oneLine, paint, timeOfDay } from "../../telemetry/TerminalText.ts"
import { formatCount, formatMinute, formatPlural, table } from "./Tables.ts"

// ---- plugins ------------------------------------------------------------------------------------------------------

const handlerState = (plugin: PluginView, { trigger, circuit_open }: PluginView["handlers"][number]): string => {
  if (!plugin.configured || trigger === null) return "not configured"
  if (!plugin.on) return "off"
  return circuit_open === null ? "on" : `circuit open, next attempt ${timeOfDay(circuit_open.until)}`
}

export const pluginTable = (plugins: ReadonlyArray<PluginView>): string =>
  table(plugins.flatMap((plugin) => plugin.handlers.map((handler) => ({ plugin, ...handler }))), {
    PLUGIN: ({ plugin }) => plugin.plugin,
    HANDLER: ({ handler }) => handler,
    STATE: ({ plugin, ...handler }) => handlerState(plugin, handler),
    LAG: ({ lag_events }) => formatCount(lag_events),
    RUNNING: ({ running }) => String(running),
    DUE: ({ due }) => formatCount(due),
    WAITING: ({ waiting }) => formatCount(waiting),
    DEAD: ({ dead }) => formatCount(dead),
    OLDEST: ({ oldest_at }) => formatMinute(oldest_at)
  })

/** Problems that affect all plugins come first. */
export const pluginListText = ({ delivering, items, writes }: PluginList): string =>
  [
    ...(writes === "on"
      ? []
      : ["the writes of all plugins are stopped; resume them with `rollcall plugins resume-writes`"]),
    ...(delivering.reason === null
      ? []
      : [oneLine(`delivery to plugins is ${delivering.state}: ${delivering.reason}`)]),
    items.length === 0 ? "no plugin is configured" : pluginTable(items)
  ].join("\n")

export const pluginText = (plugin: PluginView): string =>
  [
    pluginTable([plugin]),
    table(plugin.integrations, {
      INTEGRATION: ({ integration }) => integration,
      STATE: ({ state }) => state,
      WHY: ({ reason }) => reason ?? ""
    })
  ].join("\n\n")

// ---- replay -------------------------------------------------------------------------------------------------------

const requestText = ({ body, integration, params, what }: ReplayView["results"][number]["requests"][number]): string =>
  oneLine(
    [`  would ${paint("yellow", what)}`, integration === null ? "" : `in ${integration}`, ...Object.values(params)]
      .filter((part) => part !== "").join(" ")
  ) + (body === null ? "" : `\n    ${JSON.stringify(body)}`)

const failureText = ({ faults, message, reason }: NonNullable<ReplayView["results"][number]["failure"]>): string =>
  [`  would fail: ${paint("red", reason)}: ${message}`, ...faults.map((fault) => `    ${fault.path}: ${fault.message}`)]
    .map(oneLine).join("\n")

const dryRunResultText = (
  { failure, integration, position, records, requests }: ReplayView["results"][number]
): string =>
  [
    oneLine(`${paint("cyan", records.join(" ") || "tick")} in ${integration}, position ${position}`),
    ...requests.map(requestText),
    ...(failure === null ? requests.length === 0 ? ["  would write nothing"] : [] : [failureText(failure)])
  ].join("\n")

export interface Replayed extends ReplayView {
  /** With --wait. */
  readonly progress: DeliveryProgress | undefined
}

export const replayText = (replay: Replayed): string => {
  const { deliveries, dry_run, from, handler, omitted, plugin, progress, results, to } = replay
  const where = oneLine(`${plugin}/${handler}, positions ${from} to ${to}`)
  if (!dry_run) {
    const made = `${formatPlural(deliveries, "delivery", "deliveries")} made for ${where}`
    return progress === undefined
      ? made
      : `${made}: ${formatCount(progress.done)} done, ${formatCount(progress.dead)} failed`
  }
  const writes = results.reduce((sum, { requests }) => sum + requests.length, 0)
  const failing = results.filter(({ failure }) => failure !== null).length
  return [
    ...results.map(dryRunResultText),
    `${paint("bold", "dry run")}, nothing was written: ${where}: ${formatCount(results.length)} of ${
      formatPlural(deliveries, "delivery", "deliveries")
    } tried, ` +
    `${formatPlural(writes, "write")}, ${formatPlural(failing, "failure")}` +
    (omitted === 0 ? "" : `; ${formatCount(omitted)} not tried: raise --limit to try more`) +
    (writes > 0 ? "" : "; a dry run leaves out writes that are already done: pass --fresh to see them")
  ].join("\n")
}

// ---- dead letters -------------------------------------------------------------------------------------------------

const deliveredItem = ({ event, scheduled_at }: DeadLetterView): string =>
  event !== null
    ? `${event.model}/${event.record} v${event.version}`
    : scheduled_at === null
    ? "erased"
    : `tick ${formatMinute(scheduled_at)}`

const describeFailure = ({ message, reason, refusal }: DeadLetterView): string =>
  `${reason}${refusal === null ? "" : ` (${refusal})`}: ${message}`

export const deadLetterTable = (letters: ReadonlyArray<DeadLetterView>): string =>
  table(letters, {
    ID: ({ id }) => String(id),
    PLUGIN: ({ plugin }) => plugin,
    HANDLER: ({ handler }) => handler,
    INTEGRATION: ({ integration }) => integration,
    DELIVERY: deliveredItem,
    FAILED: ({ died_at }) => formatMinute(died_at),
    ATTEMPTS: ({ attempts }) => String(attempts),
    PARKED: ({ parked }) => String(parked),
    REASON: describeFailure
  })

const attemptText = (
  { faults, message, number, reason, requests, started_at }: DeadLetterDetailView["failed_attempts"][number]
) =>
  [
    `attempt ${number}, ${started_at}: ${paint("red", reason)}: ${message}`,
    ...faults.map((fault) => `  ${fault.path}: ${fault.message}`),
    ...requests.map(({ at, integration, outcome, what }) =>
      `  ${timeOfDay(at)}  ${what}${integration === null ? "" : ` in ${integration}`}: ${outcome}`
    )
  ].map(oneLine).join("\n")

const stepText = ({ begun_at, done, step, write }: DeadLetterDetailView["journal"][number]): string =>
  oneLine(
    `  ${step}${write === null ? "" : ` (${write})`}: ${
      done ? "done, will not be repeated" : `started ${begun_at}, outcome unknown`
    }`
  )

const outcomeStates: Readonly<Record<OutcomeView["state"], string>> = {
  unknown: "outcome unknown",
  unsent: "not sent, because an operator reported that the same write happened with different content",
  running: "the attempt that sent it is still running",
  answered: "resolved by an operator"
}

/** A write or step of unknown outcome, and where an operator can find out whether it happened. */
export const outcomeText = (one: OutcomeView): string =>
  [
    `${paint("yellow", one.outcome)}: ${one.write ?? `step "${one.step}"`}: ${outcomeStates[one.state]}`,
    ...(one.path === null ? [] : [`  ${one.method} ${one.path} in ${one.integration}`]),
    ...(one.sent_at === null ? [] : [`  sent ${one.sent_at} by delivery ${one.delivery}`]),
    `  ${one.where_to_look}`
  ].map(oneLine).join("\n")

const openText = (one: OutcomeView): string =>
  [
    outcomeText(one),
    ...(one.state === "running" ? [] : [
      oneLine(`  if it happened:       ${one.commands.happened}`),
      oneLine(`  if it did not happen: ${one.commands.did_not_happen}`)
    ])
  ].join("\n")

export const deadLetterDetailText = (detail: DeadLetterDetailView): string =>
  [
    deadLetterTable([detail]),
    ...detail.failed_attempts.map(attemptText),
    detail.journal.length === 0
      ? "the journal is empty: if this dead letter is sent again, the handler starts from its first step"
      : ["journaled:", ...detail.journal.map(stepText)].join("\n"),
    ...detail.outcomes.map(openText),
    `send it again: rollcall deadletters redrive --id ${detail.id}   discard it: rollcall deadletters discard ` +
    `--id ${detail.id}`
  ].join("\n\n")

export const noneMatches = "no dead letter matches"

/** Each cause with its number of dead letters. */
export const causesText = (groups: ReadonlyArray<GroupView>): string =>
  groups.map(({ cause, count, handler, integrations, message, newest_at, plugin, reason, refusal, remedy }) =>
    oneLine(
      `${formatCount(count)} of ${plugin} (${handler}) in ${integrations.join(", ")}, last at ${
        formatMinute(newest_at)
      }: ` +
        `${refusal ?? reason}: ${message}`
    ) +
    `\n  ${oneLine(remedy)}\n  ${oneLine(`select them with --plugin ${plugin} --handler ${handler} --cause ${cause}`)}`
  ).join("\n")

export const planText = ({ circuits, count, parked, plan, shares, unknown }: PlanView): string =>
  count === 0
    ? noneMatches
    : [
      table(shares, {
        PLUGIN: ({ plugin }) => plugin,
        HANDLER: ({ handler }) => handler,
        REASON: ({ reason, refusal }) => refusal === null ? reason : `${reason} (${refusal})`,
        DEAD: ({ count }) => formatCount(count)
      }),
      `plan ${paint("bold", plan)}: ${formatPlural(count, "dead letter")}, ${formatCount(parked)} parked behind them`,
      ...circuits.map(({ handler, plugin, until }) =>
        `they wait: the circuit of ${plugin} (${handler}) is open until ${timeOfDay(until)}; ` +
        `\`rollcall plugins try ${plugin} ${shellWord(handler)}\` tries one of them now`
      ),
      ...(unknown === 0 ? [] : [
        `${
          formatCount(unknown)
        } of them have a write or step of unknown outcome: \`rollcall deadletters show <id>\` shows where to check it, ` +
        "`rollcall deadletters resolve <id>` records the result"
      ])
    ].join("\n\n")
