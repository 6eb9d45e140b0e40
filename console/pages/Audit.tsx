/** The audit log: who ran which command and who read records, and the open sessions. */
import type { AuditedReadsView, AuditEntryView } from "../../src/http/contract/AuditApi.ts"
import type { SessionView } from "../../src/http/contract/SessionApi.ts"
import { isSignedIn, remove } from "../Client.ts"
import { plural, time } from "../Format.ts"
import { At, Empty, Section, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Loaded, type Page, useResource } from "../parts/Resource.tsx"
import { type Column, Pager, Table } from "../parts/Table.tsx"
import { limitOr, parameter, queryOf } from "../Router.ts"
import { commandsInWords, readsInWords, targetPath } from "./AuditWords.ts"
import { eventPath } from "./Events.tsx"

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
        {commandsInWords[command] ?? command}
        <p class="cause">{command}</p>
      </>
    )
  },
  {
    title: "Target",
    cell: ({ command, target }) => {
      const path = targetPath(command, target)
      const text = command.startsWith("holds.") ? `hold ${target}` : target
      return path === null ? text : <a href={path}>{text}</a>
    }
  },
  {
    title: "Detail",
    cell: (entry) =>
      entry.command === "events.reveal"
        ? <a href={eventPath(entry.detail.replace("position ", ""))}>{entry.detail}</a>
        : detailOf(entry)
  },
  { title: "Actor", cell: ({ actor }) => <span class="one-line">{actor}</span> },
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
  {
    title: "Hour (UTC)",
    cell: ({ hour }) => {
      const end = new Date(Date.parse(hour) + 3_600_000).toISOString()
      return <time dateTime={hour}>{time(hour).slice(0, 16)} to {time(end).slice(11, 16)}</time>
    }
  },
  {
    title: "Read",
    kind: "name",
    cell: ({ route }) => (
      <>
        {readsInWords[route] ?? route}
        <p class="cause">{route}</p>
      </>
    )
  },
  {
    title: "Stream in the request",
    cell: ({ target }) => target.replace(/^\*\//, "all integrations, ").replace(/^\*$/, "none named")
  },
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
        items.length === 0 ? <Empty>No browser is signed in.</Empty> : (
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
    {isSignedIn ? null : (
      <p class="notice warn">
        This page was opened without signing in. While no token is set, each person who reaches this address can run
        every command, and the log names the actor “no token”.
      </p>
    )}
    <Section id="commands" title="Commands">
      <Commands />
    </Section>
    <Section id="reads" title="Reads of records">
      <p>Requests that show records or their ids. The same request has one line an hour, however often it was sent.</p>
      <ReadEntries />
    </Section>
    <Section id="sessions" title="Sessions">
      <Sessions />
    </Section>
  </>
)
