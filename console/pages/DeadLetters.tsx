/** Deliveries that were given up, by cause: find them, send them again, or discard them. */
import { useState } from "preact/hooks"
import { isTemporary } from "../../src/domain/FailureCause.ts"
import type { DeadLetterGroups, DeadLetterView, GroupView } from "../../src/http/contract/DeadLetterViews.ts"
import { number, plural, since } from "../Format.ts"
import { serverNow } from "../Live.ts"
import { At, Badge, Empty, Section, Since, Title } from "../parts/Basics.tsx"
import { Filters, SelectFilter, TextFilter } from "../parts/Filters.tsx"
import { Message } from "../parts/Message.tsx"
import { Planned } from "../parts/Planned.tsx"
import { RedriveProgress } from "../parts/Redriven.tsx"
import { Loaded, type Page, useResource } from "../parts/Resource.tsx"
import { parameter, queryOf } from "../Router.ts"

const reasons = ["Transient", "RateLimited", "Permanent", "TimedOut", "Defect", "LoopDetected", "ProcessEnded"]
const names = ["plugin", "handler", "integration", "reason"] as const

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
  const needsReports = refusal === "OutcomeUnknown"
  const [isOpen, setOpen] = useState(needsReports)
  const filter = { ...within, plugin, handler, cause }
  const isOneTime = since(oldest_at, serverNow.value) === since(newest_at, serverNow.value)
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
        {integrations.join(", ")} · {count === 1 || !isOneTime ? "" : "all "}given up {isOneTime ? null : (
          <>
            from <Since at={oldest_at} suffix=" ago" /> to{" "}
          </>
        )}
        <Since at={newest_at} suffix=" ago" />
        {parked === 0
          ? ""
          : ` · ${plural(parked, "delivery waits", "deliveries wait")} behind ${count === 1 ? "it" : "them"}`}
      </p>
      <details open={isOpen} onToggle={({ currentTarget: { open } }) => setOpen(open)}>
        <summary>{needsReports ? "Open each to report what happened" : "Show each"}</summary>
        {isOpen ? <Letters filter={filter} count={count} /> : null}
      </details>
      <div class="buttons">
        <Planned
          label="Send again"
          command="redrive"
          isMain={isTemporary(reason, refusal)}
          counted={count}
          filter={filter}
          after={after}
        />
        <Planned label="Discard" command="discard" filter={filter} after={after} />
      </div>
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

/** The commands for all dead letters that the page lists. */
const ForAll = ({ after, filter, groups: { complete, items } }: {
  readonly groups: DeadLetterGroups
  readonly filter: Readonly<Record<string, string>>
  readonly after: () => unknown
}) => {
  const count = complete ? ` ${number(items.reduce((sum, { count }) => sum + count, 0))}` : ""
  const which = Object.keys(filter).length === 0 ? `all${count}` : `the${count} shown`
  return items.length === 1 ? null : (
    <div class="buttons">
      <Planned
        label={`Send ${which} again`}
        command="redrive"
        isMain={items.every(({ reason, refusal }) => isTemporary(reason, refusal))}
        filter={filter}
        after={after}
      />
      <Planned label={`Discard ${which}`} command="discard" filter={filter} after={after} />
    </div>
  )
}

export const DeadLettersPage = () => {
  const filter = Object.fromEntries(names.flatMap((name) => parameter(name) === "" ? [] : [[name, parameter(name)]]))
  const list = useResource<DeadLetterGroups>(`/v1/deadletters/groups${queryOf(filter)}`)
  return (
    <>
      <Title text="Dead letters" />
      <RedriveProgress />
      <Filters isTyped>
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
                <ForAll groups={groups} filter={filter} after={list.reload} />
                <Section id="causes" title="By cause">
                  <Groups groups={groups} within={filter} after={list.reload} />
                </Section>
              </>
            )}
      </Loaded>
    </>
  )
}
