/** The integrations, and one of them with its streams. */
import type { IntegrationView } from "../../src/http/contract/Api.ts"
import type { StreamRow } from "../../src/http/contract/OverviewApi.ts"
import { post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { overview } from "../Live.ts"
import { Badge, Empty, Fact, Facts, Section, Title } from "../parts/Basics.tsx"
import { Command, type CommandProps } from "../parts/Command.tsx"
import { Filters, Search } from "../parts/Filters.tsx"
import { AddIntegration, IntegrationCommands } from "../parts/IntegrationCommands.tsx"
import { Loaded, type Page, useResource } from "../parts/Resource.tsx"
import { type Column, Table } from "../parts/Table.tsx"
import { parameter, queryOf, streamPath } from "../Router.ts"
import { StreamTable } from "./Streams.tsx"

const shown = 500

const State = ({ one }: { readonly one: IntegrationView }) =>
  one.state !== "active"
    ? <Badge tone="plain">{one.state}</Badge>
    : one.blocked + one.failing > 0
    ? (
      <Badge tone="bad">
        {[[one.blocked, "blocked"], [one.failing, "failing"]].flatMap(([count, what]) =>
          count === 0 ? [] : `${count} ${what}`
        )
          .join(", ")}
      </Badge>
    )
    : one.live < one.streams
    ? <Badge tone="plain">{number(one.live)} of {number(one.streams)} live</Badge>
    : <Badge tone="good">ok</Badge>

const columns: ReadonlyArray<Column<IntegrationView>> = [
  {
    title: "Integration",
    kind: "name",
    cell: ({ id }) => <a href={`/integrations/${encodeURIComponent(id)}`}>{id}</a>
  },
  { title: "State", cell: (one) => <State one={one} /> },
  { title: "Account", cell: ({ account }) => account },
  { title: "Streams", kind: "number", cell: ({ streams }) => number(streams) },
  { title: "Records", kind: "number", cell: ({ records_live }) => number(records_live) },
  { title: "Polled every", kind: "number", cell: ({ interval_seconds }) => duration(interval_seconds) }
]

export const IntegrationsPage = () => {
  const list = useResource<Page<IntegrationView>>("/v1/integrations")
  const words = parameter("search").toLowerCase().split(/\s+/)
  return (
    <>
      <Title text="Integrations" />
      <div class="buttons">
        <AddIntegration
          accounts={[...new Set(list.data?.items.map(({ account }) => account))]}
          after={list.reload}
        />
      </div>
      <Filters>
        <Search label="Search" />
      </Filters>
      <Loaded resource={list}>
        {({ items }) => {
          const found = items.filter(({ id }) => words.every((word) => id.toLowerCase().includes(word)))
            .toSorted((one, other) => other.blocked + other.failing - one.blocked - one.failing)
          return found.length === 0
            ? (
              <Empty>
                {items.length === 0 ? "There is no integration, so nothing is read." : "No integration matches."}
              </Empty>
            )
            : (
              <>
                <p class="pages" role="status">
                  {plural(found.length, "integration")}
                  {found.length > shown ? `; the first ${number(shown)} are shown` : ""}
                </p>
                <Table
                  label="Integrations"
                  columns={columns}
                  rows={found.slice(0, shown)}
                  keyOf={({ id }) => id}
                />
              </>
            )
        }}
      </Loaded>
    </>
  )
}

/** Runs a stream command for each stream, one after another; one that is refused does not stop the others. */
const runForAll =
  (rows: ReadonlyArray<StreamRow>, command: string) => async (show: (progress: string) => void): Promise<string> => {
    const refused: Array<string> = []
    for (const [index, { integration, model }] of rows.entries()) {
      show(`Stream ${index + 1} of ${rows.length}.`)
      await post(`/v1${streamPath(integration, model)}/${command}`).catch((error: Error) => refused.push(error.message))
    }
    if (refused.length === rows.length && refused[0] !== undefined) throw new Error(refused[0])
    const done = rows.length - refused.length
    return `${command}: accepted for ${plural(done, "stream")}${
      refused.length === 0 ? "" : `, refused for ${refused.length}`
    }`
  }

const triesAgain =
  "Rollcall sends a request for each of them at once, instead of at the next probe. If the cause is gone, they " +
  "continue where they stopped."
const pauses = "They are not read until an operator resumes them. No change is lost within 14 days."

export const IntegrationPage = ({ parameters: [id = ""] }: { readonly parameters: ReadonlyArray<string> }) => {
  const order = parameter("order")
  const rows = useResource<Page<StreamRow>>(`/v1/overview/streams${queryOf({ integration: id, order, limit: 100 })}`)
  const list = useResource<Page<IntegrationView>>("/v1/integrations")
  const one = list.data?.items.find((integration) => integration.id === id)
  const matter = overview.value?.matters.find(({ link }) => link === `/integrations/${encodeURIComponent(id)}`)
  const reload = () => Promise.all([rows.reload(), list.reload()])
  const forAll = (
    some: ReadonlyArray<StreamRow>,
    label: string,
    command: string,
    effect: string,
    texts: Pick<CommandProps, "title"> & Partial<Pick<CommandProps, "confirm" | "tone">>
  ) =>
    some.length === 0 ?
      null :
      (
        <Command label={label} confirm={label} {...texts} run={runForAll(some, command)} after={reload}>
          <p>{effect}</p>
        </Command>
      )
  return (
    <>
      <Title text={id} />
      {one === undefined ? null : (
        <Facts>
          <Fact name="State">
            <State one={one} />
          </Fact>
          <Fact name="Account">{one.account}</Fact>
          <Fact name="Polled every">{duration(one.interval_seconds)}</Fact>
          <Fact name="Swept every">{duration(one.sweep_interval_seconds)}</Fact>
          <Fact name="Records">{number(one.records_live)}</Fact>
          <Fact name="Added">{one.declared ? "in the configuration" : <a href="/audit">at run time</a>}</Fact>
        </Facts>
      )}
      <Loaded resource={rows}>
        {({ items }) => {
          const broken = items.filter(({ state }) => state === "blocked" || state === "failing")
          const causes = new Set(broken.map(({ cause }) => cause))
          const [cause] = causes
          // one cause for several streams is shown once
          const isShared = broken.length > 1 && causes.size === 1
          const listed = isShared ? items.map((row) => ({ ...row, cause: null })) : items
          const paused = items.filter(({ state }) => state === "paused")
          const read = items.filter(({ state }) => state !== "paused")
          return (
            <>
              <div class="buttons">
                {forAll(broken, `Try ${plural(broken.length, "stream")} again now`, "resume", triesAgain, {
                  tone: "main",
                  title: `Try ${plural(broken.length, "stream")} again?`
                })}
                {forAll(
                  paused,
                  `Resume ${plural(paused.length, "stream")}`,
                  "resume",
                  "They are read again, from where they stopped.",
                  {
                    tone: "main",
                    title: `Resume ${plural(paused.length, "stream")}?`
                  }
                )}
                {forAll(read, `Pause ${plural(read.length, "stream")}`, "pause", pauses, {
                  title: `Pause ${plural(read.length, "stream")} of ${id}?`,
                  confirm: "Pause"
                })}
              </div>
              {isShared ? <p class="notice bad">{matter?.detail ?? cause}</p> : null}
              <Section id="streams" title="Streams">
                {items.length === 0
                  ? <Empty>This integration has no stream that is read.</Empty>
                  : <StreamTable rows={listed} />}
              </Section>
            </>
          )
        }}
      </Loaded>
      {list.data === null
        ? null
        : one === undefined
        ? <Empty>There is no integration {id}. An erased integration is not listed.</Empty>
        : (
          <Section id="settings" title="Settings">
            <IntegrationCommands one={one} after={reload} />
          </Section>
        )}
    </>
  )
}
