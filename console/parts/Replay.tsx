/** Delivers a range of the event log to a handler again, after a dry run has shown the requests that this would send. */
import { useState } from "preact/hooks"
import type { PluginView } from "../../src/delivery/admin/PluginAdmin.ts"
import type { ReplayView } from "../../src/http/contract/PluginApi.ts"
import { post, RequestError } from "../Client.ts"
import { number, plural } from "../Format.ts"
import { Failure } from "./Basics.tsx"
import { Command } from "./Command.tsx"
import { redriven } from "./Redriven.tsx"

const tried = 20

const Plan = ({ deliveries, omitted, results }: ReplayView) => {
  const requests = Map.groupBy(results.flatMap((result) => result.requests), ({ what }) => what)
  const failures = results.flatMap(({ failure }) => failure ?? [])
  return (
    <div class="notice">
      <p>
        <strong>{plural(deliveries, "delivery", "deliveries")}.</strong>{" "}
        {omitted === 0 ? "All were tried" : `${number(results.length)} were tried`} without sending anything:
      </p>
      <ul>
        {[...requests].map(([what, some]) => <li key={what}>{number(some.length)} × {what}</li>)}
        {requests.size === 0 ? <li>no request</li> : null}
        {failures.length === 0 ? null : <li>{plural(failures.length, "failure")}: {failures[0]?.message}</li>}
      </ul>
    </div>
  )
}

const inUtc = (local: string): string => local === "" ? "" : new Date(`${local}Z`).toISOString()

export const Replay = ({ after, plugin: { handlers, integrations, plugin } }: {
  readonly plugin: PluginView
  readonly after: () => unknown
}) => {
  const names = handlers.filter(({ trigger }) => trigger !== null && trigger.kind !== "tick").map(({ handler }) =>
    handler
  )
  const [range, setRange] = useState({ handler: names[0] ?? "", integration: "", from: "", to: "" })
  const [plan, setPlan] = useState<ReplayView | RequestError | "running" | null>(null)
  const ready = plan === null || plan === "running" || plan instanceof RequestError ? null : plan
  const path = `/v1/plugins/${encodeURIComponent(plugin)}/replay`
  const change = (part: Partial<typeof range>) => {
    setRange({ ...range, ...part })
    setPlan(null)
  }
  const request = ({ from, to }: Pick<ReplayView, "from" | "to">) => ({
    handler: range.handler,
    ...Object.fromEntries(
      Object.entries({ from, to, integration: range.integration }).filter(([, value]) => value !== "")
    )
  })
  const makePlan = () => {
    setPlan("running")
    const body = { ...request({ from: inUtc(range.from), to: inUtc(range.to) }), dryRun: true, limit: tried }
    post<ReplayView>(path, body).then(setPlan, setPlan)
  }
  return names.length === 0 ? null : (
    <Command
      label="Replay events"
      title={`Replay events for ${plugin}?`}
      confirm={ready === null ? "Replay" : `Replay ${plural(ready.deliveries, "delivery", "deliveries")}`}
      tone="danger"
      isBlocked={ready === null || ready.deliveries === 0}
      onOpen={() => setPlan(null)}
      run={async () => {
        if (ready === null) throw new Error("There is no plan yet.")
        const startedAt = Date.now()
        const { deliveries, ranges } = await post<ReplayView>(path, request(ready))
        const to = new Date(startedAt).toISOString()
        redriven.value = { ranges, to, startedAt, handlers: [{ plugin, handler: range.handler }] }
        return `${plural(deliveries, "delivery", "deliveries")} made for ${plugin} (${range.handler})`
      }}
      after={after}
    >
      <p>
        Past events are delivered to one handler again. Writes and steps that are done are not repeated; other requests
        of the handler are sent again. The plan counts the deliveries and sends nothing.
      </p>
      <label>
        Handler
        <select value={range.handler} onChange={({ currentTarget: { value } }) => change({ handler: value })}>
          {names.map((name) => <option key={name}>{name}</option>)}
        </select>
      </label>
      <label>
        Integration
        <select value={range.integration} onChange={({ currentTarget: { value } }) => change({ integration: value })}>
          <option value="">all integrations</option>
          {integrations.map(({ integration }) => <option key={integration}>{integration}</option>)}
        </select>
      </label>
      <label>
        From, in UTC (empty: the oldest event)
        <input
          type="datetime-local"
          value={range.from}
          onInput={({ currentTarget: { value } }) => change({ from: value })}
        />
      </label>
      <label>
        Before, in UTC (empty: now)
        <input
          type="datetime-local"
          value={range.to}
          onInput={({ currentTarget: { value } }) => change({ to: value })}
        />
      </label>
      <div class="buttons">
        <button type="button" onClick={makePlan}>Show the plan</button>
      </div>
      <div role="status">
        {plan === "running" ? <p class="quiet">Working…</p> : ready === null ? null : <Plan {...ready} />}
      </div>
      {plan instanceof RequestError ? <Failure error={plan} /> : null}
    </Command>
  )
}
