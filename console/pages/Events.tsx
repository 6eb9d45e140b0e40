/** Search in the event log, newest first. */
import { useEffect, useRef, useState } from "preact/hooks"
import type { ChangeView } from "../../src/http/contract/ChangeApi.ts"
import { get, RequestError } from "../Client.ts"
import { plural, time } from "../Format.ts"
import { overview } from "../Live.ts"
import { Badge, Empty, Failure, Since, StreamName, Title, type Tone } from "../parts/Basics.tsx"
import { Filters, SelectFilter, TextFilter } from "../parts/Filters.tsx"
import type { Page } from "../parts/Resource.tsx"
import { type Column, Table } from "../parts/Table.tsx"
import { limitOr, parameter, queryOf, streamPath } from "../Router.ts"

export const kindTones: Readonly<Record<ChangeView["kind"], Tone>> = {
  created: "good",
  updated: "plain",
  deleted: "bad"
}
const names = ["integration", "model", "id", "remote_id", "kind", "transition", "hold"] as const
/** Pages that one search reads by itself. */
const mostPages = 10

export const eventPath = (position: string): string => `/events/${encodeURIComponent(position)}`

const columns: ReadonlyArray<Column<ChangeView>> = [
  {
    title: "Detected (UTC)",
    kind: "name",
    cell: ({ detected_at, position }) => (
      <>
        <a href={eventPath(position)}>{time(detected_at)}</a>{" "}
        <span class="quiet">
          <Since at={detected_at} suffix=" ago" />
        </span>
      </>
    )
  },
  {
    title: "Kind",
    cell: ({ kind, origin }) => (
      <>
        <Badge tone={kindTones[kind]}>{kind}</Badge>
        {origin === "backfill" ? " backfill" : ""}
      </>
    )
  },
  {
    title: "Stream",
    cell: ({ integration, model }) => (
      <a href={streamPath(integration, model)}>
        <StreamName integration={integration} model={model} />
      </a>
    )
  },
  {
    title: "Record",
    cell: ({ integration, model, record, remote_id, version }) => (
      <span title={remote_id === null ? undefined : `at the vendor: ${remote_id}`}>
        <a href={`/events${queryOf({ integration, model, id: record })}`}>
          <code>{record}</code>
        </a>, version {version}
      </span>
    )
  },
  {
    title: "Transition, properties",
    cell: ({ paths, transitions }) =>
      paths.length + transitions.length === 0 ? "" : (
        <>
          {transitions.map((name) => <Badge key={name} tone="good">{name}</Badge>)}{" "}
          <span class="quiet" title={paths.join(", ")}>
            {paths.slice(0, 2).join(", ")}
            {paths.length > 2 ? ` and ${paths.length - 2} more` : ""}
          </span>
        </>
      )
  }
]

const causeColumn: Column<ChangeView> = { title: "Caused by", cell: ({ cause }) => cause === null ? "" : cause.plugin }

export const ChangeTable = ({ items }: { readonly items: ReadonlyArray<ChangeView> }) => (
  <Table
    label="Events"
    isDense
    columns={items.some(({ cause }) => cause !== null) ? [...columns, causeColumn] : columns}
    rows={items}
    keyOf={({ position }) => position}
  />
)

interface State extends Page<ChangeView> {
  readonly status: "searching" | "done" | RequestError
}

const begun: State = { items: [], next: null, status: "searching" }

/** Searches further back, page by page, until enough events are found. */
const search = async (
  filter: Readonly<Record<string, string>>,
  from: string | null,
  found: ReadonlyArray<ChangeView>,
  show: (state: State) => void,
  signal: AbortSignal
): Promise<void> => {
  let [items, next, read] = [found, from, 0]
  const wanted = found.length + limitOr(50)
  try {
    do {
      const limit = Math.min(200, wanted - items.length)
      const page = await get<Page<ChangeView>>(`/v1/changes${queryOf({ ...filter, before: next ?? "", limit })}`, {
        signal
      })
      items = [...items, ...page.items]
      next = page.next
      read += 1
      show({ items, next, status: next === null || items.length >= wanted || read >= mostPages ? "done" : "searching" })
    } while (next !== null && items.length < wanted && read < mostPages)
  } catch (error) {
    if (!signal.aborted) {
      show({ items, next, status: error instanceof RequestError ? error : new RequestError(0, String(error), null) })
    }
  }
}

export const EventsPage = () => {
  const filter = Object.fromEntries(names.map((name) => [name, parameter(name)]))
  const key = JSON.stringify(filter)
  const [state, setState] = useState(begun)
  const running = useRef(new AbortController())
  /** Ends the search before it, whose results are for another filter. */
  const start = (from: State) => {
    running.current.abort()
    running.current = new AbortController()
    setState({ ...from, status: "searching" })
    void search(filter, from.next, from.items, setState, running.current.signal)
  }
  useEffect(() => {
    start(begun)
    return () => running.current.abort()
  }, [key])
  const { items, next, status } = state
  // the button stays while it works, so that the keyboard keeps its place
  const again = () => {
    if (status !== "searching") start(state)
  }
  return (
    <>
      <Title text="Events" />
      {parameter("hold") === "" ? null : (
        <p class="notice">
          Only the events that the approval of <a href={`/holds/${parameter("hold")}`}>hold {parameter("hold")}</a>{" "}
          has published. <a href="/events">All events</a>
        </p>
      )}
      <Filters isTyped>
        <TextFilter name="id" label="Id of a record" />
        <TextFilter name="remote_id" label="Its id at the vendor" />
        <TextFilter name="integration" label="Integration" />
        <SelectFilter label="Model" name="model" options={overview.value?.models ?? []} />
        <SelectFilter label="Kind" name="kind" options={["created", "updated", "deleted"]} />
        <SelectFilter label="Transition" name="transition" options={overview.value?.transitions ?? []} />
      </Filters>
      {status instanceof RequestError ? <Failure error={status} retry={again} /> : null}
      <p class="pages" role="status">
        {status === "searching"
          ? "Searching…"
          : status === "done" && items.length > 0
          ? next === null
            ? `${plural(items.length, "event")}, back to the oldest that is kept`
            : `The newest ${plural(items.length, "event")}`
          : ""}
      </p>
      {items.length > 0
        ? <ChangeTable items={items} />
        : status === "done"
        ? (
          <Empty>
            {Object.values(filter).every((value) => value === "") && next === null
              ? "No event yet."
              : `No event matches${next === null ? "" : " so far"}.`}
          </Empty>
        )
        : null}
      {next === null ? null : (
        <div class="buttons">
          <button type="button" aria-disabled={status === "searching"} onClick={again}>Show older events</button>
        </div>
      )}
    </>
  )
}
