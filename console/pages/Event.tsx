/** One change: its path from the run that found it to the writes that it led to, and its values once they are revealed. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import type { ChangeContent, ChangePath, ChangeView } from "../../src/http/contract/ChangeApi.ts"
import { get, RequestError } from "../Client.ts"
import { plural } from "../Format.ts"
import { At, Badge, Fact, Facts, Failure, Scroll, Section, Title } from "../parts/Basics.tsx"
import { Message } from "../parts/Message.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { Steps } from "../parts/Steps.tsx"
import { deletions, masked, Value } from "../parts/Values.tsx"
import { queryOf, streamPath } from "../Router.ts"
import { ChangeTable, eventPath, kindTones } from "./Events.tsx"

type Delivery = ChangePath["deliveries"][number]

/** The changed paths with their values side by side; without content the values are masked. */
const Values = ({ content, kind, paths }: Pick<ChangeView, "kind"> & {
  readonly paths: ReadonlyArray<string>
  readonly content: ChangeContent | null
}) => (
  <Scroll label="Values">
    <table class="values">
      <thead>
        <tr>
          <th>Path</th>
          <th>Before</th>
          <th>After</th>
        </tr>
      </thead>
      <tbody>
        {(content !== null && content.changes.length > 0
          ? content.changes
          : paths.map((path) => ({ path, before: masked, after: masked }))).map((
            { after, before, path }
          ) => (
            <tr key={path}>
              <th scope="row">
                <code>{path === "" ? "(the record)" : path}</code>
              </th>
              <td>
                {path === "" && kind === "created"
                  ? <span class="quiet">did not exist</span>
                  : <Value value={path === "" && content !== null ? content.before : before} />}
              </td>
              <td>
                {path === "" && kind === "deleted"
                  ? <span class="quiet">deleted</span>
                  : <Value value={path === "" && content !== null ? content.after : after} />}
              </td>
            </tr>
          ))}
      </tbody>
    </table>
  </Scroll>
)

const Records = ({ content }: { readonly content: ChangeContent }) => (
  <details>
    <summary>The whole record</summary>
    <div class="sides">
      <div>
        <h3>Before</h3>
        <Value value={content.before} />
      </div>
      <div>
        <h3>After</h3>
        <Value value={content.after} />
      </div>
    </div>
  </details>
)

const Content = ({ kind, paths, position }: Pick<ChangeView, "kind" | "paths"> & { readonly position: string }) => {
  const [state, setState] = useState<ChangeContent | RequestError | null>(null)
  const content = state instanceof RequestError ? null : state
  const reveal = () => {
    get<ChangeContent>(`/v1/changes/${encodeURIComponent(position)}/content`).then(setState, setState)
  }
  return (
    <Section id="values" title="Before and after">
      <div class="buttons">
        {content === null
          ? <button type="button" onClick={reveal}>Reveal values</button>
          : <button type="button" onClick={() => setState(null)}>Hide values</button>}
        <span class="quiet">Revealing is recorded in the audit log.</span>
      </div>
      {state instanceof RequestError ? <Failure error={state} retry={reveal} /> : null}
      <Values kind={kind} paths={paths.length === 0 ? [""] : paths} content={content} />
      {content === null ? null : <Records content={content} />}
    </Section>
  )
}

const tones = { waiting: "plain", due: "plain", running: "plain", dead: "bad", settled: "good" } as const
const words = { waiting: "waiting", due: "due", running: "running", dead: "dead letter", settled: "done" } as const

const DeliveryStep = ({ delivery }: { readonly delivery: Delivery }) => (
  <li>
    <h3>
      {delivery.plugin} ({delivery.handler}) <Badge tone={tones[delivery.state]}>{words[delivery.state]}</Badge>
    </h3>
    {delivery.state === "dead"
      ? (
        <p>
          <a href={`/dead-letters/${delivery.delivery}`}>Dead letter {delivery.delivery}</a>
        </p>
      )
      : null}
    {delivery.failed_attempts.map(({ failed_at, message, number, reason, refusal }) => (
      <p key={number}>
        Attempt {number} failed at <At at={failed_at} />: {refusal ?? reason}, <Message message={message} />
      </p>
    ))}
    {delivery.due_at === null ? null : (
      <p>
        Next attempt at <At at={delivery.due_at} />
      </p>
    )}
    <Steps steps={delivery.steps} />
    {delivery.echoes.length === 0 ? null : (
      <>
        <p>The changes that came back:</p>
        <ChangeTable items={delivery.echoes} />
      </>
    )}
  </li>
)

const Place = ({ place }: { readonly place: NonNullable<ChangePath["kafka"]>["place"] }) =>
  place === null
    ? <p class="quiet">Its partition and offset were not recorded, or no longer are.</p>
    : (
      <p>
        Topic <code>{place.topic}</code>, partition <code>{place.partition}</code>, offset <code>{place.offset}</code>,
        {" "}
        published at <At at={place.published_at} />
      </p>
    )

const Stage = ({ children, state, title }: {
  readonly title: string
  readonly state: ComponentChildren
  readonly children: ComponentChildren
}) => (
  <li>
    <h3>
      {title} {state}
    </h3>
    {children}
  </li>
)

const Path = ({ caused_by, change, deliveries, event_id, kafka }: ChangePath) => (
  <Section id="path" title="Path of the change">
    <ol class="stages">
      <Stage title="Source" state={<Badge tone="good">read</Badge>}>
        <p>
          {change.changed_at === null ? null : (
            <>
              Changed at <At at={change.changed_at} />,{" "}
            </>
          )}
          found by a {change.origin} at <At at={change.detected_at} />
        </p>
        {change.cause === null ? null : (
          <p>
            A write of the plugin {change.cause.plugin} caused it (delivery {change.cause.delivery}).{" "}
            {caused_by === null ? null : <a href={eventPath(caused_by)}>The event that it reacted to</a>}
          </p>
        )}
      </Stage>
      <Stage title="Event log" state={<Badge tone="good">committed</Badge>}>
        <p>
          Position <code>{change.position}</code>, event <code>{event_id}</code>
        </p>
      </Stage>
      {kafka === null
        ? <Stage title="Kafka" state={<Badge tone="plain">not used</Badge>}>{null}</Stage>
        : (
          <Stage
            title="Kafka"
            state={kafka.published ? <Badge tone="good">published</Badge> : <Badge tone="warn">waits</Badge>}
          >
            <p>
              Key <code>{kafka.key}</code>
              {kafka.published ? "" : `; ${plural(kafka.waiting, "event")} before it`}
            </p>
            {kafka.published ? <Place place={kafka.place} /> : null}
          </Stage>
        )}
      {deliveries.length === 0
        ? (
          <Stage title="Handlers" state={<Badge tone="plain">nothing open</Badge>}>
            <p>
              No handler waits for this event. A handler that has finished with it is listed here only if it made a step
              or a write.
            </p>
          </Stage>
        )
        : deliveries.map((delivery) => (
          <DeliveryStep key={`${delivery.plugin} ${delivery.handler}`} delivery={delivery} />
        ))}
    </ol>
  </Section>
)

export const EventPage = ({ parameters: [position = ""] }: { readonly parameters: ReadonlyArray<string> }) => {
  const resource = useResource<ChangePath>(`/v1/changes/${encodeURIComponent(position)}`)
  const change = resource.data?.change
  return (
    <>
      <Title text={change === undefined ? "Event" : `Event: ${change.model} ${change.kind}`}>
        <a href="/events">All events</a>
      </Title>
      <Loaded resource={resource}>
        {(path) => {
          const { change } = path
          const { integration, model, record } = change
          return (
            <>
              <p class="sentence">
                <Badge tone={kindTones[change.kind]}>{change.kind}</Badge> Record <code>{record}</code>, version{" "}
                {change.version}
              </p>
              <Facts>
                <Fact name="Stream">
                  <a href={streamPath(integration, model)}>{integration}/{model}</a>
                </Fact>
                <Fact name="Record">
                  <a href={`/events${queryOf({ integration, model, id: record })}`}>All its events</a>
                </Fact>
                <Fact name="Transitions">{change.transitions.join(", ") || "none"}</Fact>
                {change.reason === null
                  ? null
                  : <Fact name="The record was">{deletions[change.reason] ?? change.reason}</Fact>}
              </Facts>
              <Content position={position} kind={change.kind} paths={change.paths} />
              <Path {...path} />
            </>
          )
        }}
      </Loaded>
    </>
  )
}
