/** The audit log: who ran which command and who read records, and the open sessions. */
import type { AuditedReadsView, AuditEntryView } from "../../src/http/contract/AuditApi.ts"
import type { SessionView } from "../../src/http/contract/SessionApi.ts"
import { remove } from "../Client.ts"
import { plural } from "../Format.ts"
import { At, Empty, Section, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Loaded, type Page, useResource } from "../parts/Resource.tsx"
import { type Column, Pager, Table } from "../parts/Table.tsx"
import { limitOr, parameter, queryOf } from "../Router.ts"

const deeds: Readonly<Record<string, string>> = {
  "streams.poll": "Polled a stream",
  "streams.sweep": "Started a sweep",
  "streams.backfill": "Started a backfill",
  "streams.rewind": "Rewound a stream",
  "streams.audit": "Compared a stream with the API",
  "streams.pause": "Paused a stream",
  "streams.resume": "Resumed a stream, or tried it again",
  "holds.approve": "Approved a hold",
  "holds.reject": "Rejected a hold",
  "holds.reveal": "Revealed records of a hold",
  "events.reveal": "Revealed the values of an event",
  "plugins.on": "Switched a plugin on",
  "plugins.off": "Switched a plugin off",
  "plugins.stop-writes": "Stopped all writes",
  "plugins.resume-writes": "Resumed writes",
  "plugins.try": "Tried a handler with an open circuit",
  "plugins.replay": "Delivered events again",
  "deadletters.redrive": "Sent dead letters again",
  "deadletters.discard": "Discarded dead letters",
  "deadletters.resolve": "Reported the outcome of a write",
  "integrations.add": "Added an integration",
  "integrations.remove": "Removed an integration",
  "sessions.end": "Ended sessions",
  forget: "Forgot a record",
  "forget.allow": "Allowed a forgotten record again"
}

/** The mode of an approval is JSON. */
const detailOf = ({ command, detail }: AuditEntryView): string => {
  if (command !== "holds.approve" || !detail.startsWith("{")) return detail
  const { origin, silent } = JSON.parse(detail) as { readonly origin: string | null; readonly silent: boolean }
  return silent ? "nothing published" : origin === null ? "published as events" : "published as old records"
}

const commandColumns: ReadonlyArray<Column<AuditEntryView>> = [
  { title: "At (UTC)", cell: ({ at }) => <At at={at} /> },
  {
    title: "Command",
    kind: "name",
    cell: ({ command }) => (
      <>
        {deeds[command] ?? command}
        <p class="cause">{command}</p>
      </>
    )
  },
  {
    title: "Target",
    cell: ({ command, target }) =>
      command.startsWith("holds.") ? <a href={`/holds/${target}`}>hold {target}</a> : target
  },
  { title: "Detail", cell: detailOf },
  { title: "Actor", cell: ({ actor }) => actor },
  { title: "Address", cell: ({ address }) => address ?? "–" }
]

const Commands = () => {
  const list = useResource<Page<AuditEntryView>>(
    `/v1/audit${queryOf({ after: parameter("after"), limit: limitOr(50) })}`
  )
  return (
    <Loaded resource={list}>
      {({ items, next }) =>
        items.length === 0 ? <Empty>No command yet.</Empty> : (
          <>
            <Table label="Commands" columns={commandColumns} rows={items} keyOf={({ id }) => id} />
            <Pager label="commands" next={next} />
          </>
        )}
    </Loaded>
  )
}

const readColumns: ReadonlyArray<Column<AuditedReadsView>> = [
  { title: "Hour (UTC)", cell: ({ hour }) => <At at={hour} /> },
  { title: "Route", kind: "name", cell: ({ route }) => route },
  { title: "Stream", cell: ({ target }) => target.replace(/^\*\//, "all integrations, ").replace(/^\*$/, "all") },
  { title: "Actor", cell: ({ actor }) => actor },
  { title: "Address", cell: ({ address }) => address }
]

const ReadEntries = () => {
  const list = useResource<Page<AuditedReadsView>>("/v1/audit/reads?limit=50", false)
  return (
    <Loaded resource={list}>
      {({ items }) =>
        items.length === 0
          ? <Empty>No record was read yet.</Empty>
          : <Table label="Reads" columns={readColumns} rows={items} keyOf={({ id }) => id} />}
    </Loaded>
  )
}

const End = ({ after, session }: { readonly session: SessionView; readonly after: () => unknown }) => (
  <Command
    label="End"
    subject={`session ${session.id}`}
    tone="danger"
    title={`End session ${session.id}?`}
    confirm="End the session"
    run={async () => {
      await remove(`/v1/sessions/${session.id}`)
      return `Session ${session.id} has ended`
    }}
    after={after}
  >
    <p>{session.current ? "This is your own session: you have to sign in again." : "Its user has to sign in again."}</p>
  </Command>
)

const sessionColumns = (after: () => unknown): ReadonlyArray<Column<SessionView>> => [
  {
    title: "Session",
    kind: "name",
    cell: ({ current, id }) => (
      <>
        <code>{id}</code> {current ? "(this one)" : ""}
      </>
    )
  },
  { title: "Right", cell: ({ right }) => right },
  { title: "Address", cell: ({ address }) => address },
  { title: "Started (UTC)", cell: ({ started_at }) => <At at={started_at} /> },
  { title: "Last request", cell: ({ last_request_at }) => <At at={last_request_at} /> },
  { title: "End it", cell: (session) => <End session={session} after={after} /> }
]

const Sessions = () => {
  const list = useResource<Page<SessionView>>("/v1/sessions")
  return (
    <Loaded resource={list}>
      {({ items }) =>
        items.length === 0 ? <Empty>No session is open.</Empty> : (
          <>
            <p>{plural(items.length, "session")}</p>
            <Table label="Sessions" columns={sessionColumns(list.reload)} rows={items} keyOf={({ id }) => id} />
          </>
        )}
    </Loaded>
  )
}

export const AuditPage = () => (
  <>
    <Title text="Audit log" />
    <Section id="commands" title="Commands">
      <Commands />
    </Section>
    <Section id="reads" title="Reads of records">
      <ReadEntries />
    </Section>
    <Section id="sessions" title="Sessions">
      <Sessions />
    </Section>
  </>
)
