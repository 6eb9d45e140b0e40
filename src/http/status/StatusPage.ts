/** The page at `/`: the state of every stream and plugin, without scripts, reloaded by the browser every five seconds. */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { PluginView } from "../../delivery/admin/PluginAdmin.ts"
import { Processes } from "../../store/Processes.ts"
import { Store } from "../../store/Store.ts"
import { CurrentCaller } from "../access/Caller.ts"
import type { FleetView, ProcessView } from "../fleet/FleetApi.ts"
import { viewOf } from "../fleet/FleetHandlers.ts"
import type { HoldView } from "../holds/HoldApi.ts"
import { escape, render } from "../pages/Page.ts"
import type { PluginList } from "../plugins/PluginApi.ts"
import { toStoreUnavailable } from "../StoreUnavailable.ts"
import { outageText, type Overview } from "./Overview.ts"
import { OverviewCache } from "./OverviewCache.ts"
import { freshnessOf, groupStreams, modelsOf, pendingOf, type StreamGroup, sumOf } from "./StreamGroups.ts"

const cellsOf = (cells: ReadonlyArray<string>, numbers: ReadonlyArray<string>): string =>
  `<tr>${cells.map((cell) => `<td>${escape(cell)}</td>`).join("")}${
    numbers.map((cell) => `<td class="n">${escape(cell)}</td>`).join("")
  }</tr>`

const row = (group: StreamGroup): string => {
  const { cause, integration, streams } = group
  const [first] = streams
  const freshness = freshnessOf(streams)
  const progress = first?.progress == null ? "" : `${first.progress.kind}: ${first.progress.records} records`
  return cellsOf(
    [integration, modelsOf(group), cause ?? first?.phase ?? "", progress],
    [
      String(sumOf(streams, ({ records_live }) => records_live)),
      String(sumOf(streams, pendingOf)),
      String(sumOf(streams, ({ quarantined }) => quarantined)),
      freshness === null ? "–" : `${Math.round(freshness)} s`
    ]
  )
}

const handlerState = (plugin: PluginView, { trigger, circuit_open }: PluginView["handlers"][number]): string => {
  if (!plugin.configured || trigger === null) return "not configured"
  if (!plugin.on) return "off"
  return circuit_open === null ? "on" : `circuit open after ${circuit_open.failures} failures`
}

const handlerRows = (plugin: PluginView): ReadonlyArray<string> =>
  plugin.handlers.map((handler) =>
    cellsOf(
      [plugin.plugin, handler.handler, handlerState(plugin, handler)],
      [handler.lag_events, handler.running, handler.due, handler.waiting, handler.dead].map(String)
    )
  )

const pluginsOf = ({ delivering, items, writes }: PluginList): string => {
  if (items.length === 0) return ""
  const warnings = [
    ...(writes === "on"
      ? []
      : ["The writes of all plugins are stopped; resume them with `rollcall plugins resume-writes`"]),
    ...(delivering.reason === null ? [] : [`Delivery to plugins is ${delivering.state}: ${delivering.reason}`])
  ]
  return `<h2>Plugins</h2>
${warnings.map((warning) => `<p><strong>${escape(warning)}</strong></p>`).join("\n")}<table>
<thead><tr><th>plugin<th>handler<th>state<th class="n">lag (events)<th class="n">running<th class="n">due<th class="n">waiting<th class="n">dead</tr></thead>
<tbody>${items.flatMap(handlerRows).join("\n")}</tbody>
</table>
`
}

const workOf = ({ dispatches, publishes, shards }: ProcessView): string =>
  [`${shards} shards`, ...publishes ? ["publishes"] : [], ...dispatches ? ["dispatches"] : []].join(", ")

const processesOf = ({ items, versions }: FleetView): string => {
  if (items.length < 2) return ""
  const rows = items.map((process) => {
    const { current, host, id, problems, silence_seconds, state, version } = process
    const condition = [state, ...problems.map(({ name, reason }) => `${name}: ${reason}`)].join("; ")
    const name = `${id.slice(0, 8)}${current ? " (this one)" : ""}`
    return cellsOf([name, host, version, condition, workOf(process)], [`${Math.round(silence_seconds)} s`])
  })
  return `<h2>Processes</h2>
${
    versions.length > 1
      ? `<p><strong>The processes run different versions: ${escape(versions.join(", "))}</strong></p>\n`
      : ""
  }<table>
<thead><tr><th>process<th>host<th>version<th>condition<th>work<th class="n">last heartbeat</tr></thead>
<tbody>${rows.join("\n")}</tbody>
</table>
`
}

const holdsOf = (holds: ReadonlyArray<HoldView>): string =>
  holds.length === 0 ? "" : `<h2>Holds that wait for a decision</h2>
<ul>${
    holds.map(({ id, reason, records, stream }) =>
      `<li><a href="/v1/holds/${id}">hold ${id}</a> · ${escape(stream)} · ${records} records: ${escape(reason)}`
    ).join("\n")
  }</ul>
`

const statusPage = (
  { holds, streams }: Overview,
  plugins: PluginList,
  fleet: FleetView,
  /** Why the store does not answer; the page then shows the data that was last read. null while the store answers. */
  outage: string | null,
  /** Whether the request belongs to a session, which the page can end. */
  signedIn: boolean
): HttpServerResponse.HttpServerResponse =>
  render(
    "Rollcall",
    `<header><h1>Rollcall</h1>${
      signedIn
        ? `<form method="post" action="/logout"><button>Sign out</button>
<button formaction="/logout/everywhere">Sign out everywhere</button></form>`
        : ""
    }</header>
<p><a href="/v1/events">events</a> · <a href="/v1/streams">streams</a> · <a href="/v1/holds">holds</a> ·
<a href="/v1/plugins">plugins</a> · <a href="/v1/deadletters">dead letters</a> · <a href="/v1/audit">audit log</a> ·
<a href="/v1/sessions">sessions</a> · <a href="/v1/fleet">processes</a> · <a href="/metrics">metrics</a> · <a href="/health/ready">readiness</a> · <a href="/docs">documentation</a></p>
${
      outage === null
        ? ""
        : `<p><strong>The store does not answer, so this page shows the data that was last read: ${
          escape(outage)
        }</strong></p>`
    }${holdsOf(holds)}<table>
<thead><tr><th>integration<th>model<th>condition<th>progress<th class="n">records<th class="n">pending<th class="n">quarantined<th class="n">freshness</tr></thead>
<tbody>${groupStreams(streams).map(row).join("\n")}</tbody>
</table>
${pluginsOf(plugins)}${processesOf(fleet)}`,
    { head: `<meta http-equiv="refresh" content="5; url=/?refreshed">\n` }
  )

export const layer = HttpRouter.add(
  "GET",
  "/",
  Effect.gen(function*() {
    const { overview, plugins, processes } = yield* OverviewCache
    const { self } = yield* Processes
    const caller = yield* CurrentCaller
    const others = Effect.orElseSucceed(Effect.map(processes, ({ value }) => value), () => [])
    const [streams, delivering, listed] = yield* Effect.all([overview, plugins, others], { concurrency: "unbounded" })
    return statusPage(
      streams.value,
      delivering.value,
      viewOf(self, listed),
      outageText(yield* (yield* Store).outage),
      caller?.means === "session"
    )
  }).pipe(
    Effect.catchTag(
      "StoreError",
      (error) => Effect.flatMap(Effect.flip(toStoreUnavailable(error)), HttpServerRespondable.toResponse)
    )
  )
)
