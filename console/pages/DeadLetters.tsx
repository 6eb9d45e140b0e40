/** Deliveries that were given up: find them, send them again, discard them, or report what happened to a write. */
import { useState } from "preact/hooks"
import type { PlanView, RedriveView } from "../../src/http/contract/DeadLetterApi.ts"
import type {
  DeadLetterDetailView,
  DeadLetterGroups,
  DeadLetterView,
  GroupView,
  OutcomeView
} from "../../src/http/contract/DeadLetterViews.ts"
import { get, post, RequestError } from "../Client.ts"
import { number, plural, since, time } from "../Format.ts"
import { serverNow } from "../Live.ts"
import { At, Badge, Empty, Fact, Facts, Section, Since, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Filters, SelectFilter, TextFilter } from "../parts/Filters.tsx"
import { Message } from "../parts/Message.tsx"
import { redriven, RedriveProgress } from "../parts/Redriven.tsx"
import { Loaded, type Page, usePlan, useResource } from "../parts/Resource.tsx"
import { parameter, queryOf } from "../Router.ts"

type Filter = Readonly<Record<string, string | ReadonlyArray<number>>>

const reasons = ["Transient", "RateLimited", "Permanent", "TimedOut", "Defect", "LoopDetected", "ProcessEnded"]
const names = ["plugin", "handler", "integration", "reason"] as const

const PlanFacts = ({ plan }: { readonly plan: PlanView }) => (
  <>
    <Facts>
      <Fact name="Dead letters">{number(plan.count)}</Fact>
      <Fact name="Waiting behind them">{number(plan.parked)}</Fact>
      <Fact name="Plan">
        <code>{plan.plan}</code>
      </Fact>
    </Facts>
    <ul>
      {plan.shares.map(({ count, handler, plugin, reason }) => (
        <li key={`${plugin} ${handler} ${reason}`}>
          {number(count)} of {plugin} ({handler}): {reason}
        </li>
      ))}
    </ul>
    {plan.circuits.length === 0 ? null : (
      <div class="notice warn">
        {plan.circuits.map((circuit) => (
          <p key={`${circuit.plugin} ${circuit.handler}`}>
            They wait: the circuit of {circuit.plugin} ({circuit.handler}) is open until <At at={circuit.until} />.
          </p>
        ))}
      </div>
    )}
    {plan.unknown === 0 ? null : (
      <p class="notice warn">
        {plural(plan.unknown, "of them has", "of them have")}{" "}
        a write of unknown outcome and will fail again: open it and report what happened first.
      </p>
    )}
  </>
)

/** The most dead letters that are sent again without a dialog. */
const mostAtOnce = 100

/** A command that acts on exactly the dead letters that its dialog counts, or that the page counts. */
const Planned = ({ after, command, counted = null, filter, label }: {
  readonly filter: Filter
  /** How many the page counts: they are sent again at the click if nothing delays them and no outcome is unknown. */
  readonly counted?: number | null
  readonly command: "redrive" | "discard"
  readonly label: string
  readonly after: () => unknown
}) => {
  const read = () => post<PlanView>("/v1/deadletters/plan", filter)
  const { load, plan, shown } = usePlan(read)
  const [over, setOver] = useState("")
  const count = plan === null ? "" : ` ${plural(plan.count, "dead letter")}`
  const sends = command === "redrive"
  const execute = async (plan: PlanView) => {
    const spread = sends && over !== "" ? { over } : {}
    const startedAt = Date.now()
    const result = await post<{ count: number } | RedriveView>(
      `/v1/deadletters/${command}`,
      { ...filter, plan: plan.plan, ...spread }
    )
    const { count } = result
    if ("ranges" in result) redriven.value = { ...result, startedAt, handlers: plan.shares }
    const circuit = plan.circuits.find(({ until }) => Date.parse(until) > serverNow.value)
    return sends && circuit !== undefined
      ? {
        tone: "warn" as const,
        text:
          `${
            plural(count, "dead letter")
          } sent again, waiting: the circuit of ${circuit.plugin} (${circuit.handler}) is open, ` +
          `one is tried at ${time(circuit.until)} UTC`
      }
      : `${plural(count, "dead letter")} ${sends ? "sent again" : "discarded"}`
  }
  const direct = async () => {
    const plan = await read()
    const isClear = plan.count === counted && counted <= mostAtOnce && plan.circuits.length + plan.unknown === 0
    return isClear ? execute(plan) : null
  }
  return (
    <Command
      label={label}
      tone={sends ? "main" : "danger"}
      title={sends ? "Send dead letters again?" : "Discard dead letters?"}
      confirm={sends ? `Send${count} again` : `Discard${count}`}
      isBlocked={plan === null || plan.count === 0}
      onOpen={load}
      {...counted === null ? {} : { direct }}
      run={async () => {
        if (plan === null) throw new Error("There is no plan yet.")
        return execute(plan)
      }}
      after={after}
    >
      <p>
        {sends
          ? "Each gets all its attempts again. Steps that are done are not repeated."
          : "They are deleted for good, and later deliveries of their records continue."}
      </p>
      {shown((plan) => <PlanFacts plan={plan} />)}
      {sends
        ? (
          <label>
            Spread over
            <select value={over} onChange={({ currentTarget: { value } }) => setOver(value)}>
              <option value="">at once</option>
              <option value="10 minutes">10 minutes</option>
              <option value="1 hour">1 hour</option>
            </select>
          </label>
        )
        : null}
    </Command>
  )
}

const mostShown = 100

const Letters = ({ count, filter }: { readonly filter: Readonly<Record<string, string>>; readonly count: number }) => {
  const list = useResource<Page<DeadLetterView>>(`/v1/deadletters${queryOf({ ...filter, limit: mostShown })}`)
  return (
    <Loaded resource={list}>
      {({ items }) => (
        <>
          <ul>
            {items.map(({ attempts, died_at, event, id, integration }) => (
              <li key={id}>
                <a href={`/dead-letters/${id}`}>Dead letter {id}</a>: {event?.record ?? "tick"} of {integration},{" "}
                {plural(attempts, "attempt")}, given up <At at={died_at} />
              </li>
            ))}
          </ul>
          {count <= items.length ? null : <p class="quiet">{number(count - items.length)} more are not shown.</p>}
        </>
      )}
    </Loaded>
  )
}

/** Dead letters with the same cause; single ones are read when they are opened. */
const Group = ({ after, group, within }: {
  readonly group: GroupView
  readonly within: Readonly<Record<string, string>>
  readonly after: () => unknown
}) => {
  const {
    cause,
    count,
    handler,
    integrations,
    message,
    newest_at,
    oldest_at,
    parked,
    plugin,
    reason,
    refusal,
    remedy
  } = group
  const [isOpen, setOpen] = useState(false)
  const filter = { ...within, plugin, handler, cause }
  return (
    <li class="group">
      <h3>
        {plural(count, "dead letter")} of <a href={`/plugins/${encodeURIComponent(plugin)}`}>{plugin}</a> ({handler})
      </h3>
      <p>
        <Badge tone="bad">{refusal ?? reason}</Badge> <Message message={message} />
      </p>
      <p>{remedy}</p>
      <p class="quiet">
        {integrations.join(", ")} ·{" "}
        {count === 1 || since(oldest_at, serverNow.value) === since(newest_at, serverNow.value) ? null : (
          <>
            first <Since at={oldest_at} suffix=" ago" />, last{" "}
          </>
        )}
        <Since at={newest_at} suffix=" ago" />
        {parked === 0
          ? ""
          : ` · ${plural(parked, "delivery waits", "deliveries wait")} behind ${count === 1 ? "it" : "them"}`}
      </p>
      <div class="buttons">
        <Planned label="Send again" command="redrive" counted={count} filter={filter} after={after} />
        <Planned label="Discard" command="discard" filter={filter} after={after} />
      </div>
      <details onToggle={({ currentTarget: { open } }) => setOpen(open)}>
        <summary>Show each</summary>
        {isOpen ? <Letters filter={filter} count={count} /> : null}
      </details>
    </li>
  )
}

/** `within`: the filter with which the groups were read. */
export const Groups = ({ after, groups: { complete, items }, within }: {
  readonly groups: DeadLetterGroups
  readonly within: Readonly<Record<string, string>>
  readonly after: () => unknown
}) => (
  <>
    {complete ? null : <p class="notice">The hundred causes with the most dead letters are listed; there are more.</p>}
    <ul class="groups">
      {items.map((group) => (
        <Group key={`${group.plugin} ${group.handler} ${group.cause}`} group={group} within={within} after={after} />
      ))}
    </ul>
  </>
)

export const DeadLettersPage = () => {
  const filter = Object.fromEntries(names.flatMap((name) => parameter(name) === "" ? [] : [[name, parameter(name)]]))
  const list = useResource<DeadLetterGroups>(`/v1/deadletters/groups${queryOf(filter)}`)
  return (
    <>
      <Title text="Dead letters" />
      <RedriveProgress />
      <Filters>
        <TextFilter name="plugin" label="Plugin" />
        <TextFilter name="handler" label="Handler" />
        <TextFilter name="integration" label="Integration" />
        <SelectFilter name="reason" label="Reason" options={reasons} />
      </Filters>
      <Loaded resource={list}>
        {(groups) =>
          groups.items.length === 0
            ? <Empty>No dead letter{Object.keys(filter).length === 0 ? "" : " matches this filter"}.</Empty>
            : (
              <>
                {groups.items.length === 1 ? null : (
                  <div class="buttons">
                    <Planned label="Send all again" command="redrive" filter={filter} after={list.reload} />
                    <Planned label="Discard all" command="discard" filter={filter} after={list.reload} />
                  </div>
                )}
                <Section id="causes" title="By cause">
                  <Groups groups={groups} within={filter} after={list.reload} />
                </Section>
              </>
            )}
      </Loaded>
    </>
  )
}

const Resolve = ({ after, letter, outcome }: {
  readonly letter: number
  readonly outcome: OutcomeView
  readonly after: () => unknown
}) => {
  const [id, setId] = useState("")
  const returnsId = outcome.commands.happened.includes("--id")
  const report = (happened: boolean) => async () => {
    const created = happened && returnsId ? { id: id.trim() } : {}
    const { redriven } = await post<{ redriven: boolean }>(`/v1/deadletters/${letter}/resolve`, {
      outcome: outcome.outcome,
      happened,
      ...created
    })
    return redriven ? `Reported; dead letter ${letter} is tried again` : "Reported; another outcome is still unknown"
  }
  const isDecidable = outcome.state === "unknown" || outcome.state === "unsent" || outcome.state === "answered"
  return (
    <li>
      <h3>
        {outcome.method} {outcome.path ?? outcome.step} <Badge tone="warn">{outcome.state}</Badge>
      </h3>
      <p>{outcome.where_to_look}</p>
      <p>
        Sent <At at={outcome.sent_at} />
        {outcome.integration === null ? null : ` to ${outcome.integration}`}
      </p>
      {isDecidable
        ? (
          <div class="buttons">
            <Command
              label="It happened"
              title="Did the write happen?"
              confirm="It happened"
              tone="main"
              isBlocked={returnsId && id.trim() === ""}
              run={report(true)}
              after={after}
            >
              <p>The handler continues after the write, without sending it.</p>
              {returnsId
                ? (
                  <label>
                    Id of what it created, in the unified API
                    <input type="text" value={id} onInput={({ currentTarget: { value } }) => setId(value)} />
                  </label>
                )
                : null}
            </Command>
            <Command
              label="It did not happen"
              title="Did the write not happen?"
              confirm="It did not happen: send it again"
              tone="danger"
              run={report(false)}
              after={after}
            >
              <p>The handler sends the write again. If it did happen, it then happens twice.</p>
            </Command>
          </div>
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
            <div class="buttons">
              <Planned label="Send again" command="redrive" counted={1} filter={{ ids: [letter.id] }} after={after} />
              <Planned label="Discard" command="discard" filter={{ ids: [letter.id] }} after={after} />
            </div>
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
                    <Resolve key={outcome.outcome} letter={letter.id} outcome={outcome} after={after} />
                  ))}
                </ul>
              </Section>
            )}
            <Facts>
              <Fact name="Handler">
                <a href={`/plugins/${encodeURIComponent(letter.plugin)}`}>{letter.plugin}</a> ({letter.handler})
              </Fact>
              <Fact name="Integration">
                <a href={`/integrations/${encodeURIComponent(letter.integration)}`}>{letter.integration}</a>
              </Fact>
              <Fact name={letter.event === null ? "Tick" : "Event"}>
                {letter.event === null ?
                  <At at={letter.scheduled_at} /> :
                  (
                    <a href={`/events/${encodeURIComponent(letter.position)}`}>
                      {letter.event.model} {letter.event.record}, version {letter.event.version}
                    </a>
                  )}
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
                        Attempt {attempt.number}: {attempt.reason}
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
              {letter.journal.length === 0 ? <Empty>No step has started.</Empty> : (
                <ul>
                  {letter.journal.map(({ begun_at, done, step }) => (
                    <li key={step}>
                      <code>{step}</code>{" "}
                      <Badge tone={done ? "good" : "warn"}>{done ? "done" : "outcome unknown"}</Badge>{" "}
                      <At at={begun_at} />
                    </li>
                  ))}
                </ul>
              )}
            </Section>
          </>
        )}
      </Loaded>
    </>
  )
}
