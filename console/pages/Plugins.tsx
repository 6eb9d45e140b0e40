/** Plugins: their handlers, backlog and failures, and their switches. */
import type { PluginView } from "../../src/delivery/admin/PluginAdmin.ts"
import type { DeadLetterGroups } from "../../src/http/contract/DeadLetterViews.ts"
import type { PluginList } from "../../src/http/contract/PluginApi.ts"
import { post } from "../Client.ts"
import { number, plural } from "../Format.ts"
import { serverNow } from "../Live.ts"
import { Attempts } from "../parts/Attempts.tsx"
import { At, Badge, Empty, Section, Since, Title, type Tone } from "../parts/Basics.tsx"
import { TryNow } from "../parts/Circuit.tsx"
import { Command } from "../parts/Command.tsx"
import { RedriveProgress } from "../parts/Redriven.tsx"
import { Replay } from "../parts/Replay.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { type Column, Table } from "../parts/Table.tsx"
import { queryOf } from "../Router.ts"
import { Groups } from "./DeadLetters.tsx"

type Handler = PluginView["handlers"][number]

const stateOf = (plugin: PluginView, { circuit_open, trigger }: Handler): readonly [Tone, string] => {
  if (!plugin.configured || trigger === null) return ["warn", "not configured"]
  if (!plugin.on) return ["warn", "off"]
  return circuit_open === null ? ["good", "on"] : ["bad", "circuit open"]
}

interface HandlerRow {
  readonly plugin: PluginView
  readonly handler: Handler
  readonly after: () => unknown
}

const State = ({ after, handler, plugin }: HandlerRow) => {
  const [tone, text] = stateOf(plugin, handler)
  const { circuit_open: circuit } = handler
  return (
    <>
      <Badge tone={tone}>{text}</Badge>
      {circuit === null || !plugin.on ? null : Date.parse(circuit.until) <= serverNow.value
        ? (
          <p class="cause">
            It opened after {plural(circuit.failures, "failure")}{" "}
            in a row. The next delivery is tried alone; the others start when it succeeds.
          </p>
        )
        : (
          <>
            <p class="cause">
              It opened after {plural(circuit.failures, "failure")} in a row. One delivery is tried at{" "}
              <At at={circuit.until} />; the others that are due start when it succeeds.
            </p>
            <TryNow circuit={{ plugin: plugin.plugin, handler: handler.handler }} after={after} />
          </>
        )}
    </>
  )
}

const Dead = ({ handler: { dead, handler }, plugin: { plugin } }: HandlerRow) =>
  dead === 0 ? <>0</> : <a href={`/dead-letters${queryOf({ plugin, handler })}`}>{number(dead)}</a>

const pluginColumn: Column<HandlerRow> = {
  title: "Plugin",
  kind: "name",
  cell: ({ plugin: { plugin } }) => <a href={`/plugins/${encodeURIComponent(plugin)}`}>{plugin}</a>
}

const handlerColumns: ReadonlyArray<Column<HandlerRow>> = [
  { title: "State", cell: (row) => <State {...row} /> },
  { title: "Lag", kind: "number", cell: ({ handler }) => number(handler.lag_events) },
  { title: "Running", kind: "number", cell: ({ handler }) => number(handler.running) },
  { title: "Due", kind: "number", cell: ({ handler }) => number(handler.due) },
  { title: "Waiting", kind: "number", cell: ({ handler }) => number(handler.waiting) },
  { title: "Dead letters", kind: "number", cell: (row) => <Dead {...row} /> },
  { title: "Oldest", cell: ({ handler }) => <Since at={handler.oldest_at} /> }
]

/** `isAlone`: on the page of the plugin, which need not be named in each row. */
const Handlers = ({ after, isAlone = false, plugins }: {
  readonly plugins: ReadonlyArray<PluginView>
  readonly after: () => unknown
  readonly isAlone?: boolean
}) => (
  <Table
    label="Handlers"
    columns={[
      ...isAlone ? [] : [pluginColumn],
      { title: "Handler", ...isAlone ? { kind: "name" } : {}, cell: ({ handler }) => handler.handler },
      ...handlerColumns
    ]}
    rows={plugins.flatMap((plugin) => plugin.handlers.map((handler) => ({ plugin, handler, after })))}
    keyOf={({ handler, plugin }) => `${plugin.plugin} ${handler.handler}`}
  />
)

/** All handlers together. */
const Totals = ({ plugins }: { readonly plugins: ReadonlyArray<PluginView> }) => {
  const handlers = plugins.flatMap(({ handlers }) => handlers)
  const sum = (count: "running" | "due" | "waiting" | "dead") =>
    handlers.reduce((total, handler) => total + handler[count], 0)
  return (
    <p class="pages">
      {plural(handlers.length, "handler")}: {number(sum("running"))} running, {number(sum("due"))} due,{" "}
      {number(sum("waiting"))} waiting, {plural(sum("dead"), "dead letter")}
    </p>
  )
}

const stopped = "Deliveries that need to write wait, and none is lost."
const resumed = "Deliveries that waited continue at once."

const Writes = ({ after, writes }: Pick<PluginList, "writes"> & { readonly after: () => unknown }) => {
  const isOn = writes === "on"
  return (
    <Section id="writes" title="Writes of all plugins to the API">
      <div class="buttons">
        <Command
          label={isOn ? "Stop all writes" : "Resume writes"}
          tone={isOn ? "danger" : "main"}
          title={`${isOn ? "Stop" : "Resume"} the writes of all plugins?`}
          confirm={isOn ? "Stop all writes" : "Resume writes"}
          run={async () => {
            await post(`/v1/plugins/writes/${isOn ? "stop" : "resume"}`)
            return isOn ? "No plugin starts a write from now on" : "Plugins may write again"
          }}
          after={after}
        >
          <p>
            {isOn
              ? `No plugin starts a write to the API from now on. ${stopped} Reading and publishing continue, and so do requests of ` +
                "handlers to other systems."
              : resumed}
          </p>
        </Command>
        <span class="quiet">{isOn ? `For a plugin that writes something wrong. ${stopped}` : resumed}</span>
      </div>
    </Section>
  )
}

const Notices = ({ delivering, writes }: PluginList) => (
  <>
    {writes === "on" ? null : <p class="notice warn">The writes of all plugins are stopped.</p>}
    {delivering.reason === null ? null : (
      <p class="notice bad">
        Delivery is {delivering.state}: {delivering.reason}
      </p>
    )}
  </>
)

export const PluginsPage = () => {
  const list = useResource<PluginList>("/v1/plugins")
  return (
    <>
      <Title text="Plugins" />
      <Loaded resource={list}>
        {(plugins) =>
          plugins.items.length === 0
            ? (
              <Empty>
                No plugin is configured. The command <code>rollcall plugins new</code> creates one.
              </Empty>
            )
            : (
              <>
                <Notices {...plugins} />
                <Totals plugins={plugins.items} />
                <Handlers plugins={plugins.items} after={list.reload} />
                <Writes writes={plugins.writes} after={list.reload} />
              </>
            )}
      </Loaded>
    </>
  )
}

const off = "While it is off, its deliveries wait in order, also those of later events. None is lost."
const on = "Deliveries that waited are run, in order."

/** Switches a plugin, everywhere or in one integration. */
const Switch = ({ after, integration, isOn, plugin }: {
  readonly plugin: string
  readonly integration?: string
  readonly isOn: boolean
  readonly after: () => unknown
}) => {
  const where = integration === undefined ? "everywhere" : `in ${integration}`
  const word = isOn ? "off" : "on"
  return (
    <Command
      label={`Switch ${word}`}
      subject={where}
      tone={isOn ? "danger" : "main"}
      title={`Switch ${plugin} ${word} ${where}?`}
      confirm={`Switch ${word}`}
      run={async () => {
        await post(`/v1/plugins/${encodeURIComponent(plugin)}/${word}${queryOf({ integration: integration ?? "" })}`)
        return `${plugin} is switched ${word} ${where}`
      }}
      after={after}
    >
      <p>{isOn ? `Running deliveries are finished. ${off}` : on}</p>
    </Command>
  )
}

const integrationColumns = (
  { plugin }: PluginView,
  after: () => unknown
): ReadonlyArray<Column<PluginView["integrations"][number]>> => [
  {
    title: "Integration",
    kind: "name",
    cell: ({ integration }) => <a href={`/integrations/${encodeURIComponent(integration)}`}>{integration}</a>
  },
  {
    title: "State",
    cell: ({ reason, state }) => (
      <>
        <Badge tone={state === "on" ? "good" : state === "off" ? "warn" : "bad"}>{state}</Badge> {reason}
      </>
    )
  },
  {
    title: "Switch",
    cell: ({ integration, reason, state }) =>
      state === "on" || state === "blocked" || reason === "by an operator"
        ? <Switch plugin={plugin} integration={integration} isOn={state !== "off"} after={after} />
        : null
  }
]

/** The causes of the plugin's dead letters, the newest error of each in full. */
const Failures = ({ plugin }: { readonly plugin: string }) => {
  const groups = useResource<DeadLetterGroups>(`/v1/deadletters/groups${queryOf({ plugin })}`)
  return (
    <Section id="dead" title="Dead letters">
      <Loaded resource={groups}>
        {(found) =>
          found.items.length === 0
            ? <Empty>No delivery was given up.</Empty>
            : <Groups groups={found} within={{ plugin }} after={groups.reload} />}
      </Loaded>
    </Section>
  )
}

const On = ({ plugin: { handlers } }: { readonly plugin: PluginView }) => {
  const open = handlers.filter(({ circuit_open }) => circuit_open !== null).length
  return (
    <>
      <Badge tone="good">on</Badge> {open === 0 ? null : <Badge tone="bad">{plural(open, "circuit")} open</Badge>}
    </>
  )
}

export const PluginPage = ({ parameters: [name = ""] }: { readonly parameters: ReadonlyArray<string> }) => {
  const resource = useResource<PluginView>(`/v1/plugins/${encodeURIComponent(name)}`)
  return (
    <>
      <Title text={name}>
        <a href="/plugins">All plugins</a>
      </Title>
      <RedriveProgress />
      <Loaded resource={resource}>
        {(plugin) => (
          <>
            <p class="sentence">
              {plugin.configured
                ? plugin.on
                  ? <On plugin={plugin} />
                  : <Badge tone="warn">off</Badge>
                : <Badge tone="warn">no longer configured</Badge>} {plural(plugin.handlers.length, "handler")},{" "}
              {plural(plugin.integrations.length, "integration")}
            </p>
            {plugin.configured
              ? (
                <div class="buttons">
                  <Switch plugin={name} isOn={plugin.on} after={resource.reload} />
                  <Replay plugin={plugin} after={resource.reload} />
                  <span class="quiet">{plugin.on ? off : on}</span>
                </div>
              )
              : null}
            <Section id="handlers" title="Handlers">
              <Handlers plugins={[plugin]} after={resource.reload} isAlone />
            </Section>
            <Attempts plugin={name} />
            <Failures plugin={name} />
            <Section id="integrations" title="Integrations">
              {plugin.integrations.length === 0
                ? <Empty>It runs in no integration.</Empty>
                : (
                  <Table
                    label="Integrations of the plugin"
                    columns={integrationColumns(plugin, resource.reload)}
                    rows={plugin.integrations}
                    keyOf={({ integration }) => integration}
                  />
                )}
            </Section>
          </>
        )}
      </Loaded>
    </>
  )
}
