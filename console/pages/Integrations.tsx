/** The integrations, and one of them with its streams. */
import type { IntegrationView } from "../../src/http/contract/Api.ts"
import type { StreamRow } from "../../src/http/contract/OverviewApi.ts"
import { post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { Badge, Empty, Fact, Facts, Section, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { type Column, Table } from "../parts/Table.tsx"
import { parameter, queryOf, streamPath } from "../Router.ts"
import { Search, StreamTable } from "./Streams.tsx"

interface List {
  readonly items: ReadonlyArray<IntegrationView>
}
interface Rows {
  readonly items: ReadonlyArray<StreamRow>
}

const shown = 500

const State = ({ one }: { readonly one: IntegrationView }) =>
  one.state !== "active"
    ? <Badge tone="plain">{one.state}</Badge>
    : one.blocked > 0
    ? <Badge tone="bad">{number(one.blocked)} blocked</Badge>
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
  const list = useResource<List>("/v1/integrations")
  const words = parameter("search").toLowerCase().split(/\s+/)
  return (
    <>
      <Title text="Integrations" />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Search label="Search" />
      </form>
      <Loaded resource={list}>
        {({ items }) => {
          const found = items.filter(({ id }) => words.every((word) => id.toLowerCase().includes(word)))
            .toSorted((one, other) => other.blocked - one.blocked)
          return found.length === 0
            ? <Empty>{items.length === 0 ? "No integration is configured." : "No integration matches."}</Empty>
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

export const IntegrationPage = ({ parameters: [id = ""] }: { readonly parameters: ReadonlyArray<string> }) => {
  const order = parameter("order")
  const rows = useResource<Rows>(`/v1/overview/streams${queryOf({ integration: id, order, limit: 100 })}`)
  const list = useResource<List>("/v1/integrations")
  const one = list.data?.items.find((integration) => integration.id === id)
  const reload = () => Promise.all([rows.reload(), list.reload()])
  return (
    <>
      <Title text={id} />
      {one === undefined ? null : (
        <Facts>
          <Fact name="State">{one.state}</Fact>
          <Fact name="Account">{one.account}</Fact>
          <Fact name="Polled every">{duration(one.interval_seconds)}</Fact>
          <Fact name="Swept every">{duration(one.sweep_interval_seconds)}</Fact>
          <Fact name="Records">{number(one.records_live)}</Fact>
          <Fact name="Added">{one.declared ? "in the configuration" : "at run time"}</Fact>
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
                {broken.length === 0 ? null : (
                  <Command
                    label="Try again now"
                    tone="main"
                    title={`Try ${plural(broken.length, "stream")} again?`}
                    confirm="Try again now"
                    run={runForAll(broken, "resume")}
                    after={reload}
                  >
                    <p>
                      Rollcall sends a request for each of them at once, instead of at the next probe. If the cause is
                      gone, they continue where they stopped.
                    </p>
                  </Command>
                )}
                {paused.length === 0 ? null : (
                  <Command
                    label="Resume"
                    tone="main"
                    title={`Resume ${plural(paused.length, "stream")}?`}
                    confirm="Resume"
                    run={runForAll(paused, "resume")}
                    after={reload}
                  >
                    <p>They are read again, from where they stopped.</p>
                  </Command>
                )}
                {read.length === 0 ? null : (
                  <Command
                    label="Pause all"
                    title={`Pause ${plural(read.length, "stream")} of ${id}?`}
                    confirm="Pause"
                    run={runForAll(read, "pause")}
                    after={reload}
                  >
                    <p>They are not read until an operator resumes them. No change is lost within 14 days.</p>
                  </Command>
                )}
              </div>
              {isShared ? <p class="notice bad">{cause}</p> : null}
              <Section id="streams" title="Streams">
                {items.length === 0
                  ? <Empty>This integration has no stream that is read.</Empty>
                  : <StreamTable rows={listed} />}
              </Section>
            </>
          )
        }}
      </Loaded>
    </>
  )
}
