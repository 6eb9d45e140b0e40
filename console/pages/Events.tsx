/** Search in the event log, newest first. */
import { useEffect, useState } from "preact/hooks"
import type { ChangeView } from "../../src/http/changes/ChangeApi.ts"
import { get, RequestError } from "../Client.ts"
import { plural, time } from "../Format.ts"
import { Badge, Empty, Failure, Loading, Scroll, Since, Title, type Tone } from "../parts/Basics.tsx"
import { parameter, queryOf, setParameters } from "../Router.ts"

interface Found {
  readonly items: ReadonlyArray<ChangeView>
  readonly next: string | null
}

export const kindTones: Readonly<Record<ChangeView["kind"], Tone>> = {
  created: "good",
  updated: "plain",
  deleted: "bad"
}
const names = ["integration", "model", "id", "kind", "transition"] as const
const shown = 50
/** Pages that one search reads by itself. */
const mostPages = 10

export const eventPath = (position: string): string => `/events/${encodeURIComponent(position)}`

const Row = ({ change }: { readonly change: ChangeView }) => (
  <tr>
    <th scope="row">
      <a href={eventPath(change.position)}>{time(change.detected_at)}</a>
      <p class="cause">
        <Since at={change.detected_at} suffix=" ago" />
      </p>
    </th>
    <td>
      <Badge tone={kindTones[change.kind]}>{change.kind}</Badge>
      {change.origin === "backfill" ? " backfill" : ""}
    </td>
    <td>
      {change.integration}/{change.model}
      <p class="cause">
        <code>{change.record}</code>, version {change.version}
      </p>
    </td>
    <td>
      {change.transitions.map((name) => <Badge key={name} tone="good">{name}</Badge>)}
      <p class="cause">
        {change.paths.slice(0, 4).join(", ")}
        {change.paths.length > 4 ? ` and ${change.paths.length - 4} more` : ""}
      </p>
    </td>
    <td>{change.cause === null ? "" : change.cause.plugin}</td>
  </tr>
)

export const ChangeTable = ({ items }: { readonly items: ReadonlyArray<ChangeView> }) => (
  <Scroll label="Events">
    <table>
      <thead>
        <tr>
          <th>Detected (UTC)</th>
          <th>Kind</th>
          <th>Record</th>
          <th>Changed</th>
          <th>Caused by</th>
        </tr>
      </thead>
      <tbody>{items.map((change) => <Row key={change.position} change={change} />)}</tbody>
    </table>
  </Scroll>
)

const Select = ({ name, options }: { readonly name: string; readonly options: ReadonlyArray<string> }) => (
  <label>
    {name[0]?.toUpperCase()}
    {name.slice(1)}
    <select value={parameter(name)} onChange={({ currentTarget: { value } }) => setParameters({ [name]: value })}>
      <option value="">all</option>
      {options.map((option) => <option key={option} value={option}>{option}</option>)}
    </select>
  </label>
)

const Text = ({ label, name }: { readonly name: string; readonly label: string }) => (
  <label>
    {label}
    <input
      type="search"
      value={parameter(name)}
      onChange={({ currentTarget: { value } }) => setParameters({ [name]: value.trim() })}
    />
  </label>
)

interface State extends Found {
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
  const wanted = found.length + shown
  try {
    do {
      const limit = Math.min(200, wanted - items.length)
      const page = await get<Found>(`/v1/changes${queryOf({ ...filter, before: next ?? "", limit })}`, { signal })
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
  useEffect(() => {
    const stop = new AbortController()
    setState(begun)
    void search(filter, null, [], setState, stop.signal)
    return () => stop.abort()
  }, [key])
  const { items, next, status } = state
  const more = () => {
    setState({ ...state, status: "searching" })
    void search(filter, next, items, setState, new AbortController().signal)
  }
  return (
    <>
      <Title text="Events" />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Text name="id" label="Id of a record" />
        <Text name="integration" label="Integration" />
        <Select name="model" options={MODEL_NAMES} />
        <Select name="kind" options={["created", "updated", "deleted"]} />
        <Select name="transition" options={TRANSITION_NAMES} />
      </form>
      {status instanceof RequestError ? <Failure error={status} /> : null}
      <p class="pages" role="status">
        {status === "searching"
          ? "Searching…"
          : `${plural(items.length, "event")}${next === null ? ", back to the oldest that is kept" : ""}`}
      </p>
      {items.length === 0
        ? status === "searching" ? <Loading /> : <Empty>No event matches{next === null ? "" : " so far"}.</Empty>
        : <ChangeTable items={items} />}
      {next === null || status === "searching"
        ? null
        : (
          <div class="buttons">
            <button type="button" onClick={more}>Search further back</button>
          </div>
        )}
    </>
  )
}
