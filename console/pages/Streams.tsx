/** All streams: search, filter and sort. The server does that, so that thousands of streams cost the browser nothing. */
import { useState } from "preact/hooks"
import type { StreamRow } from "../../src/http/overview/OverviewApi.ts"
import { duration, number, plural } from "../Format.ts"
import { Badge, Empty, Scroll, Since, Title, type Tone } from "../parts/Basics.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { parameter, queryOf, setParameters, streamPath } from "../Router.ts"

interface Rows {
  readonly items: ReadonlyArray<StreamRow>
  readonly total: number
  readonly next: string | null
}

export const tones: Readonly<Record<StreamRow["state"], Tone>> = {
  ok: "good",
  late: "warn",
  backfilling: "plain",
  failing: "bad",
  blocked: "bad",
  paused: "warn"
}

const pageSize = 100

/** Column → its order. */
const columns = [
  ["Stream", "stream", ""],
  ["State", "urgency", ""],
  ["Freshness", "freshness", "n"],
  ["Records", "records", "n"],
  ["Pending", "pending", "n"],
  ["Quarantine", "quarantined", "n"]
] as const

const Head = ({ order }: { readonly order: string }) => (
  <thead>
    <tr>
      {columns.map(([label, key, style]) => (
        <th
          key={key}
          class={style}
          aria-sort={order === key ? key === "stream" ? "ascending" : "descending" : undefined}
        >
          <button
            type="button"
            class="sort"
            onClick={() => setParameters({ order: key === "urgency" ? "" : key, after: "" })}
          >
            {label}
            {order === key ? <span aria-hidden="true">{key === "stream" ? " ↑" : " ↓"}</span> : null}
          </button>
        </th>
      ))}
    </tr>
  </thead>
)

export const Row = ({ row }: { readonly row: StreamRow }) => (
  <tr>
    <th scope="row">
      <a href={streamPath(row.integration, row.model)}>{row.stream}</a>
    </th>
    <td class="state">
      <Badge tone={tones[row.state]}>{row.state}</Badge>
      {row.since === null ? null : (
        <>
          {" "}for <Since at={row.since} />
        </>
      )}
      {row.cause === null ? null : <p class="cause">{row.cause}</p>}
    </td>
    <td class={`n${row.state === "late" ? " warn" : ""}`} title={`target: ${duration(row.target_seconds)}`}>
      {row.freshness_seconds === null ? "–" : duration(row.freshness_seconds)}
    </td>
    <td class="n">{number(row.records_live)}</td>
    <td class="n">{number(row.pending)}</td>
    <td class="n">{number(row.quarantined)}</td>
  </tr>
)

export const StreamTable = ({ order, rows }: { readonly rows: ReadonlyArray<StreamRow>; readonly order: string }) => (
  <Scroll label="Streams">
    <table>
      <Head order={order} />
      <tbody>{rows.map((row) => <Row key={row.stream} row={row} />)}</tbody>
    </table>
  </Scroll>
)

export const Search = ({ label }: { readonly label: string }) => {
  const [text, setText] = useState(parameter("search"))
  return (
    <label>
      {label}
      <input
        type="search"
        value={text}
        onInput={({ currentTarget: { value } }) => {
          setText(value)
          setParameters({ search: value, after: "" })
        }}
      />
    </label>
  )
}

const States = () => (
  <label>
    State
    <select
      value={parameter("state")}
      onChange={({ currentTarget: { value } }) => setParameters({ state: value, after: "" })}
    >
      <option value="">all</option>
      {Object.keys(tones).map((state) => <option key={state} value={state}>{state}</option>)}
    </select>
  </label>
)

/** Moves through the pages of a list that is numbered from 0. */
const Pages = (
  { after, next, total }: { readonly after: number; readonly total: number; readonly next: string | null }
) => (
  <p class="pages">
    {total === 0
      ? "no stream"
      : `${number(after + 1)} to ${number(Math.min(total, after + pageSize))} of ${plural(total, "stream")}`}
    {total <= pageSize ? null : (
      <>
        <button
          type="button"
          class="small"
          disabled={after === 0}
          onClick={() => setParameters({ after: after <= pageSize ? "" : String(after - pageSize) })}
        >
          Previous
        </button>
        <button
          type="button"
          class="small"
          disabled={next === null}
          onClick={() => setParameters({ after: next ?? "" })}
        >
          Next
        </button>
      </>
    )}
  </p>
)

export const StreamsPage = () => {
  const [search, state, order, after] = ["search", "state", "order", "after"].map(parameter)
  const query = queryOf({
    search: search ?? "",
    state: state ?? "",
    order: order ?? "",
    after: after ?? "",
    limit: pageSize
  })
  const rows = useResource<Rows>(`/v1/overview/streams${query}`)
  return (
    <>
      <Title text="Streams" />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Search label="Search in name and cause" />
        <States />
      </form>
      <Loaded resource={rows}>
        {({ items, next, total }) => (
          <>
            <Pages after={Number(after)} total={total} next={next} />
            {items.length === 0
              ? <Empty>No stream matches. Change the search, or add an integration.</Empty>
              : <StreamTable rows={items} order={order === "" || order === undefined ? "urgency" : order} />}
          </>
        )}
      </Loaded>
    </>
  )
}
