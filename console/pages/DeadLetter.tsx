/** One dead letter: why it was given up, its attempts, and the report about a write of unknown outcome. */
import { useState } from "preact/hooks"
import { isTemporary, remedyOf } from "../../src/domain/FailureCause.ts"
import type { DeadLetterDetailView, OutcomeView } from "../../src/http/contract/DeadLetterViews.ts"
import { get, post, RequestError } from "../Client.ts"
import { number } from "../Format.ts"
import { At, Badge, Empty, Fact, Facts, Section, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Message } from "../parts/Message.tsx"
import { Planned } from "../parts/Planned.tsx"
import { RedriveProgress } from "../parts/Redriven.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { Steps } from "../parts/Steps.tsx"

/** The event or the tick of the delivery. */
const Subject = ({ letter: { event, position, scheduled_at } }: { readonly letter: DeadLetterDetailView }) =>
  event === null ?
    <At at={scheduled_at} /> :
    <a href={`/events/${encodeURIComponent(position)}`}>{event.model} {event.record}, version {event.version}</a>

const effects = {
  happened: "The handler continues without sending it again. If it did not happen, it never will.",
  didNot: "The handler sends it again. If it did happen, it then happens twice."
} as const

const Resolve = ({ after, letter, outcome }: {
  readonly letter: DeadLetterDetailView
  readonly outcome: OutcomeView
  readonly after: () => unknown
}) => {
  const [id, setId] = useState("")
  const returnsId = outcome.commands.happened.includes("--id")
  const report = (happened: boolean) => async () => {
    const created = happened && returnsId ? { id: id.trim() } : {}
    const { redriven } = await post<{ redriven: boolean }>(`/v1/deadletters/${letter.id}/resolve`, {
      outcome: outcome.outcome,
      happened,
      ...created
    })
    return redriven ? `Reported; dead letter ${letter.id} is tried again` : "Reported; another outcome is still unknown"
  }
  const isDecidable = outcome.state === "unknown" || outcome.state === "unsent" || outcome.state === "answered"
  return (
    <li>
      <h3>
        {outcome.write ?? outcome.step} <Badge tone="warn">{outcome.state}</Badge>
      </h3>
      <p>
        {outcome.sent_at === null ? "Not sent" : (
          <>
            Sent at <At at={outcome.sent_at} />
          </>
        )}
        {outcome.integration === null ? null : ` to ${outcome.integration}`}, for <Subject letter={letter} />
      </p>
      {outcome.path === null ? null : (
        <p>
          <code>{outcome.method} {outcome.path}</code>
        </p>
      )}
      <p>{outcome.where_to_look}</p>
      {isDecidable
        ? (
          <>
            <div class="buttons">
              <Command
                label="It happened"
                title="Did the write happen?"
                confirm="It happened"
                isBlocked={returnsId && id.trim() === ""}
                run={report(true)}
                after={after}
              >
                <p>{effects.happened}</p>
                {returnsId
                  ? (
                    <label>
                      Id of what it created, in the unified API
                      <input type="text" value={id} onInput={({ currentTarget: { value } }) => setId(value)} />
                    </label>
                  )
                  : null}
              </Command>
              <span class="quiet">{effects.happened}</span>
            </div>
            <div class="buttons">
              <Command
                label="It did not happen"
                title="Did the write not happen?"
                confirm="It did not happen: send it again"
                tone="danger"
                run={report(false)}
                after={after}
              >
                <p>{effects.didNot}</p>
              </Command>
              <span class="quiet">{effects.didNot}</span>
            </div>
          </>
        )
        : <p>The attempt that sent it is still running.</p>}
    </li>
  )
}

export const DeadLetterPage = ({ parameters: [id = ""] }: { readonly parameters: ReadonlyArray<string> }) => {
  const resource = useResource<DeadLetterDetailView>(`/v1/deadletters/${encodeURIComponent(id)}`)
  const [isGone, setGone] = useState(false)
  const after = async () => {
    // what was sent again or discarded is not a dead letter now
    const found = await get(`/v1/deadletters/${encodeURIComponent(id)}`).catch((error: RequestError) => error)
    if (found instanceof RequestError && found.status === 404) setGone(true)
    else await resource.reload()
  }
  if (isGone) {
    return (
      <>
        <Title text={`Dead letter ${id}`} />
        <RedriveProgress />
        <Empty>It was sent again or discarded.</Empty>
        <p>
          <a href="/dead-letters">All dead letters</a>
        </p>
      </>
    )
  }
  return (
    <>
      <Title text={`Dead letter ${id}`}>
        <a href="/dead-letters">All dead letters</a>
      </Title>
      <RedriveProgress />
      <Loaded resource={resource}>
        {(letter) => (
          <>
            <p class="sentence">
              <Badge tone="bad">{letter.refusal ?? letter.reason}</Badge> <Message message={letter.message} />
            </p>
            <p>{remedyOf(letter.reason, letter.refusal)}</p>
            {letter.faults.length === 0 ? null : (
              <ul>
                {letter.faults.map(({ message, path, rule }) => (
                  <li key={`${path} ${rule}`}>
                    <code>{path}</code>: {message}
                  </li>
                ))}
              </ul>
            )}
            {letter.outcomes.length === 0 ? null : (
              <Section id="outcomes" title="Writes of unknown outcome">
                <ul class="outcomes">
                  {letter.outcomes.map((outcome) => (
                    <Resolve key={outcome.outcome} letter={letter} outcome={outcome} after={after} />
                  ))}
                </ul>
              </Section>
            )}
            <div class="buttons">
              <Planned
                label="Send again"
                command="redrive"
                isMain={isTemporary(letter.reason, letter.refusal)}
                counted={1}
                filter={{ ids: [letter.id] }}
                after={after}
              />
              <Planned label="Discard" command="discard" filter={{ ids: [letter.id] }} after={after} />
            </div>
            <Facts>
              <Fact name="Handler">
                <a href={`/plugins/${encodeURIComponent(letter.plugin)}`}>{letter.plugin}</a> ({letter.handler})
              </Fact>
              <Fact name="Integration">
                <a href={`/integrations/${encodeURIComponent(letter.integration)}`}>{letter.integration}</a>
              </Fact>
              <Fact name={letter.event === null ? "Tick" : "Event"}>
                <Subject letter={letter} />
              </Fact>
              <Fact name="Given up">
                <At at={letter.died_at} />
              </Fact>
              <Fact name="Waiting behind it">{number(letter.parked)}</Fact>
            </Facts>
            <Section id="attempts" title="Attempts">
              {letter.failed_attempts.length === 0 ? <Empty>It was never attempted.</Empty> : (
                <ol class="attempts">
                  {letter.failed_attempts.map((attempt) => (
                    <li key={attempt.number}>
                      <h3>
                        Attempt {attempt.number}: {attempt.refusal ?? attempt.reason}
                      </h3>
                      <p>
                        <Message message={attempt.message} />
                      </p>
                      <p class="quiet">
                        <At at={attempt.started_at} /> to <At at={attempt.failed_at} />
                      </p>
                      <ul>
                        {attempt.requests.map(({ at, integration, outcome, what }) => (
                          <li key={`${at} ${what}`}>
                            <code>{what}</code> {integration}{" "}
                            <Badge tone={outcome === "done" ? "good" : "warn"}>{outcome}</Badge>
                          </li>
                        ))}
                      </ul>
                    </li>
                  ))}
                </ol>
              )}
            </Section>
            <Section id="journal" title="Steps">
              {letter.journal.length === 0 ? <Empty>No step has started.</Empty> : <Steps steps={letter.journal} />}
            </Section>
          </>
        )}
      </Loaded>
    </>
  )
}
