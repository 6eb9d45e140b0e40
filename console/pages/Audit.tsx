/** The audit log: who ran which command and who read records, and the open sessions. */
import type { SessionView } from "../../src/http/sessions/SessionApi.ts"
import { remove } from "../Client.ts"
import { number, plural } from "../Format.ts"
import { At, Empty, Scroll, Section, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { parameter, queryOf, setParameters } from "../Router.ts"

interface Entry {
  readonly id: number
  readonly at: string
  readonly command: string
  readonly target: string
  readonly detail: string
  readonly actor: string | null
  readonly address: string | null
}

interface Reads {
  readonly id: number
  readonly hour: string
  readonly route: string
  readonly target: string
  readonly actor: string
  readonly address: string
  readonly requests: number
}

interface List<A> {
  readonly items: ReadonlyArray<A>
  readonly next: string | null
}

const Commands = () => {
  const list = useResource<List<Entry>>(`/v1/audit${queryOf({ after: parameter("after"), limit: 50 })}`)
  return (
    <Loaded resource={list}>
      {({ items, next }) =>
        items.length === 0 ? <Empty>No command yet.</Empty> : (
          <>
            <Scroll label="Commands">
              <table>
                <thead>
                  <tr>
                    <th>At (UTC)</th>
                    <th>Command</th>
                    <th>Target</th>
                    <th>Detail</th>
                    <th>Actor</th>
                    <th>Address</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((entry) => (
                    <tr key={entry.id}>
                      <td>
                        <At at={entry.at} />
                      </td>
                      <th scope="row">{entry.command}</th>
                      <td>{entry.target}</td>
                      <td>{entry.detail}</td>
                      <td>{entry.actor ?? "–"}</td>
                      <td>{entry.address ?? "–"}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
            {next === null
              ? null
              : <button type="button" onClick={() => setParameters({ after: next })}>Older commands</button>}
          </>
        )}
    </Loaded>
  )
}

const ReadEntries = () => {
  const list = useResource<List<Reads>>("/v1/audit/reads?limit=50", false)
  return (
    <Loaded resource={list}>
      {({ items }) =>
        items.length === 0 ? <Empty>No record was read yet.</Empty> : (
          <Scroll label="Reads">
            <table>
              <thead>
                <tr>
                  <th>Hour (UTC)</th>
                  <th>Route</th>
                  <th>Stream</th>
                  <th>Actor</th>
                  <th>Address</th>
                  <th class="n">Requests</th>
                </tr>
              </thead>
              <tbody>
                {items.map((entry) => (
                  <tr key={entry.id}>
                    <td>
                      <At at={entry.hour} />
                    </td>
                    <th scope="row">{entry.route}</th>
                    <td>{entry.target}</td>
                    <td>{entry.actor}</td>
                    <td>{entry.address}</td>
                    <td class="n">{number(entry.requests)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
    </Loaded>
  )
}

const Sessions = () => {
  const list = useResource<List<SessionView>>("/v1/sessions")
  return (
    <Loaded resource={list}>
      {({ items }) =>
        items.length === 0 ? <Empty>No session is open.</Empty> : (
          <>
            <p>{plural(items.length, "session")}</p>
            <Scroll label="Sessions">
              <table>
                <thead>
                  <tr>
                    <th>Session</th>
                    <th>Right</th>
                    <th>Address</th>
                    <th>Started (UTC)</th>
                    <th>Last request</th>
                    <th>End it</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((session) => (
                    <tr key={session.id}>
                      <th scope="row">
                        <code>{session.id}</code> {session.current ? "(this one)" : ""}
                      </th>
                      <td>{session.right}</td>
                      <td>{session.address}</td>
                      <td>
                        <At at={session.started_at} />
                      </td>
                      <td>
                        <At at={session.last_request_at} />
                      </td>
                      <td>
                        <Command
                          label="End"
                          tone="danger"
                          title={`End session ${session.id}?`}
                          confirm="End the session"
                          run={async () => {
                            await remove(`/v1/sessions/${session.id}`)
                            return `Session ${session.id} has ended`
                          }}
                          after={list.reload}
                        >
                          <p>Its user has to sign in again.</p>
                        </Command>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
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
