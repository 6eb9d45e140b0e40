/** The processes that share the store, and the work of each. */
import type { FleetView, ProcessView } from "../../src/http/contract/FleetApi.ts"
import { duration, number } from "../Format.ts"
import { At, Badge, Title } from "../parts/Basics.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { type Column, Table } from "../parts/Table.tsx"

const workOf = ({ dispatches, publishes, shards }: ProcessView): string =>
  [
    shards === 64 ? "reads all streams" : `reads the streams of ${number(shards)} of 64 shards`,
    ...publishes ? ["publishes to Kafka"] : [],
    ...dispatches ? ["hands events to plugins"] : []
  ].join(", ")

/** Compared with the database, to a tenth of a second. */
const clockText = (offset: number): string => {
  const tenths = Math.round(offset * 10)
  return tenths === 0 ? "equal" : `${Math.abs(tenths / 10)} s ${tenths > 0 ? "ahead of" : "behind"} the database`
}

const State = ({ process: { problems, state } }: { readonly process: ProcessView }) => (
  <>
    <Badge tone={state === "silent" || problems.length > 0 ? "bad" : "good"}>{state}</Badge>
    {problems.map(({ name, reason }) => <p key={name} class="cause">{name}: {reason}</p>)}
  </>
)

const columns: ReadonlyArray<Column<ProcessView>> = [
  {
    title: "Process",
    kind: "name",
    cell: ({ current, host, pid }) => `${host}, process ${pid}${current ? " (this one)" : ""}`
  },
  { title: "State", kind: "wide", cell: (process) => <State process={process} /> },
  { title: "Version", cell: ({ version }) => version },
  { title: "Work", kind: "wide", cell: workOf },
  { title: "Started", cell: ({ started_at }) => <At at={started_at} /> },
  { title: "Last heartbeat", kind: "number", cell: ({ silence_seconds }) => `${duration(silence_seconds)} ago` },
  {
    title: "Clock",
    kind: "number",
    cell: ({ clock_offset_seconds: offset }) => offset === null ? "–" : clockText(offset)
  }
]

export const ProcessesPage = () => {
  const fleet = useResource<FleetView>("/v1/fleet")
  return (
    <>
      <Title text="Processes" />
      <Loaded resource={fleet}>
        {({ items, versions }) => (
          <>
            {versions.length > 1
              ? <p class="notice warn">The processes run different versions: {versions.join(", ")}</p>
              : null}
            <p>A process that misses several heartbeats is shown as silent.</p>
            <Table label="Processes" columns={columns} rows={items} keyOf={({ id }) => id} />
          </>
        )}
      </Loaded>
    </>
  )
}
