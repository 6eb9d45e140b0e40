/** All streams: search, filter and sort. The server does that, so that thousands of streams cost the browser nothing. */
import type { StreamRow } from "../../src/http/contract/OverviewApi.ts"
import { duration, number, plural } from "../Format.ts"
import { Badge, Breakable, Empty, Since, Title, type Tone } from "../parts/Basics.tsx"
import { Filters, Search, SelectFilter } from "../parts/Filters.tsx"
import { Loaded, type Page, useResource } from "../parts/Resource.tsx"
import { type Column, Pager, Table } from "../parts/Table.tsx"
import { limitOr, parameter, queryOf, streamPath } from "../Router.ts"

interface Rows extends Page<StreamRow> {
  readonly total: number
}

export const tones: Readonly<Record<StreamRow["state"], Tone>> = {
  ok: "good",
  late: "warn",
  backfilling: "plain",
  failing: "bad",
  blocked: "bad",
  paused: "warn"
}

const State = ({ isRepeated, row }: { readonly row: StreamRow; readonly isRepeated: boolean }) => (
  <>
    <Badge tone={tones[row.state]}>{row.state}</Badge>
    {row.since === null ? null : (
      <>
        {" "}for <Since at={row.since} />
      </>
    )}
    {row.held === 0 ? null : (
      <>
        {" "}
        <Badge tone="warn">{number(row.held)} held</Badge>
      </>
    )}
    {row.cause === null
      ? null
      : <p class="cause">{isRepeated ? "the same cause as above" : <Breakable text={row.cause} />}</p>}
  </>
)

const Freshness = ({ row: { freshness_seconds: seconds, state, target_seconds } }: { readonly row: StreamRow }) => (
  <span class={state === "late" ? "late" : ""} title={`target: ${duration(target_seconds)}`}>
    {seconds === null ? "–" : duration(seconds)}
  </span>
)

/** `repeated`: the streams with the same cause as the row above them. */
const columnsOf = (repeated: ReadonlySet<string>): ReadonlyArray<Column<StreamRow>> => [
  {
    title: "Stream",
    kind: "name",
    order: "stream",
    direction: "ascending",
    cell: ({ integration, model, stream }) => (
      <a href={streamPath(integration, model)}>
        <Breakable text={stream} />
      </a>
    )
  },
  { title: "State", kind: "wide", order: "", cell: (row) => <State row={row} isRepeated={repeated.has(row.stream)} /> },
  { title: "Freshness", kind: "number", order: "freshness", cell: (row) => <Freshness row={row} /> },
  { title: "Records", kind: "number", order: "records", cell: ({ records_live }) => number(records_live) },
  { title: "Pending", kind: "number", order: "pending", cell: ({ pending }) => number(pending) },
  { title: "Quarantine", kind: "number", order: "quarantined", cell: ({ quarantined }) => number(quarantined) }
]

export const StreamTable = ({ rows }: { readonly rows: ReadonlyArray<StreamRow> }) => (
  <Table
    label="Streams"
    columns={columnsOf(
      new Set(
        rows.flatMap(({ cause, stream }, index) => cause !== null && cause === rows[index - 1]?.cause ? [stream] : [])
      )
    )}
    rows={rows}
    keyOf={({ stream }) => stream}
  />
)

const Shown = ({ after, limit, total }: Readonly<Record<"after" | "limit" | "total", number>>) => (
  <p class="pages" role="status">
    {number(after + 1)} to {number(Math.min(total, after + limit))} of {plural(total, "stream")}
  </p>
)

export const StreamsPage = () => {
  const limit = limitOr(100)
  const names = ["search", "state", "order", "after"] as const
  const query = queryOf({ ...Object.fromEntries(names.map((name) => [name, parameter(name)])), limit })
  const after = Number(parameter("after"))
  const rows = useResource<Rows>(`/v1/overview/streams${query}`)
  return (
    <>
      <Title text="Streams" />
      <Filters>
        <Search label="Search in name and cause" />
        <SelectFilter label="State" name="state" options={Object.keys(tones)} />
      </Filters>
      <Loaded resource={rows}>
        {({ items, next, total }) => (
          <>
            {total === 0 ? null : <Shown after={after} limit={limit} total={total} />}
            {items.length === 0
              ? (
                <Empty>
                  {parameter("search") + parameter("state") !== ""
                    ? "No stream matches."
                    : (
                      <>
                        No stream is read. <a href="/integrations">Add an integration</a>, here or in the configuration.
                      </>
                    )}
                </Empty>
              )
              : <StreamTable rows={items} />}
            <Pager label="streams" next={next} previous={after <= limit ? "" : String(after - limit)} />
          </>
        )}
      </Loaded>
    </>
  )
}
