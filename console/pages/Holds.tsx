/** Holds of the guard: the changes that wait for a decision, and the decision. */
import { Fragment } from "preact"
import { useState } from "preact/hooks"
import type {
  HeldContents,
  HoldPage as HoldRecords,
  HoldPatterns,
  HoldPlanView,
  HoldView
} from "../../src/http/contract/HoldApi.ts"
import type { PluginList } from "../../src/http/contract/PluginApi.ts"
import type { StreamDetailView } from "../../src/http/contract/StreamDetailApi.ts"
import { get, post, RequestError } from "../Client.ts"
import { number, plural, sentence } from "../Format.ts"
import { overview, usesKafka } from "../Live.ts"
import {
  At,
  Badge,
  Breakable,
  Empty,
  Fact,
  Facts,
  Failure,
  Section,
  Since,
  Title,
  type Tone
} from "../parts/Basics.tsx"
import { Choices } from "../parts/Choices.tsx"
import { Command, Immediate } from "../parts/Command.tsx"
import { Filters, SelectFilter } from "../parts/Filters.tsx"
import { Loaded, type Page, usePlan, useResource } from "../parts/Resource.tsx"
import { type Column, Pager, Table } from "../parts/Table.tsx"
import { Change, deletions, masked } from "../parts/Values.tsx"
import { limitOr, parameter, queryOf, streamPath } from "../Router.ts"

const tones: Readonly<Record<HoldView["state"], Tone>> = {
  open: "bad",
  rejected: "warn",
  approving: "warn",
  approved: "good",
  canceled: "plain"
}

const kinds: Readonly<Record<HoldView["kind"], string>> = {
  deletes: "records that would be deleted",
  restores: "records that would come back",
  scope: "properties that many records would lose or get"
}

const columns: ReadonlyArray<Column<HoldView>> = [
  { title: "Hold", kind: "name", cell: ({ id }) => <a href={`/holds/${id}`}>Hold {id}</a> },
  {
    title: "Stream",
    cell: ({ integration, model, stream }) => (
      <a href={streamPath(integration, model)}>
        <Breakable text={stream} />
      </a>
    )
  },
  { title: "State", cell: ({ state }) => <Badge tone={tones[state]}>{state}</Badge> },
  { title: "Changes", kind: "number", cell: ({ records }) => number(records) },
  { title: "Kind", cell: ({ kind }) => kinds[kind] },
  { title: "Opened", cell: ({ opened_at }) => <Since at={opened_at} suffix=" ago" /> }
]

export const HoldsPage = () => {
  const [state, after] = [parameter("state"), parameter("after")]
  const list = useResource<Page<HoldView>>(`/v1/holds${queryOf({ state, after, limit: limitOr(100) })}`)
  return (
    <>
      <Title text="Holds" />
      <p>{plural(overview.value?.open_holds ?? 0, "hold waits", "holds wait")} for a decision.</p>
      <Filters>
        <SelectFilter label="State" name="state" options={Object.keys(tones)} all="not ended" />
      </Filters>
      <Loaded resource={list}>
        {({ items, next }) =>
          items.length === 0
            ? (
              <Empty>
                No hold{state === ""
                  ? ". Changes are held when unusually many records change at once"
                  : " is " + state}.
              </Empty>
            )
            : (
              <>
                <Table label="Holds" columns={columns} rows={items} keyOf={({ id }) => id} />
                <Pager label="holds" next={next} />
              </>
            )}
      </Loaded>
    </>
  )
}

/** How an approval publishes: parameters of the request. */
const modes = { events: {}, backfill: { origin: "backfill" }, silent: { silent: "true" } } as const
type Mode = keyof typeof modes

const publishing = {
  events: "Publish them as events: every consumer gets them",
  backfill: "Publish them as old records: every consumer gets them, and plugins skip them by default"
}
/** Only of properties that records lose or get. */
const accepting = {
  ...publishing,
  silent: "Publish nothing: no consumer gets an event, and the new content counts as published"
}

/** While the stream is not read, the page shows an old state of the source. */
const Unread = ({ hold: { integration, model } }: { readonly hold: HoldView }) => {
  const { data } = useResource<StreamDetailView>(`/v1${streamPath(integration, model)}/detail`)
  return data === null || !["blocked", "failing", "paused"].includes(data.state) ? null : (
    <div class="notice warn">
      <p>
        <strong>The stream is {data.state}:</strong> the page shows what was read{" "}
        <Since at={data.stream.last_poll_at} suffix=" ago" />, and the source may have changed since. Decide after it is
        read again.
      </p>
    </div>
  )
}

const Approve = ({ hold, reload }: { readonly hold: HoldView; readonly reload: () => unknown }) => {
  const { load, plan, shown } = usePlan(() => get<HoldPlanView>(`/v1/holds/${hold.id}/plan`))
  const [mode, setMode] = useState<Mode>("events")
  const count = plan?.hold.records ?? hold.records
  return (
    <Command
      label={`Approve ${plural(hold.records, "change")}`}
      tone="danger"
      title={`Approve ${plural(count, "change")} of ${hold.stream}?`}
      confirm={mode === "silent" ? `Accept ${plural(count, "change")}` : `Publish ${plural(count, "change")}`}
      isBlocked={plan === null}
      onOpen={load}
      run={async () => {
        if (plan === null) throw new Error("There is no plan yet.")
        await post<HoldView>(`/v1/holds/${hold.id}/approve${queryOf({ plan: plan.plan, ...modes[mode] })}`)
        return `Hold ${hold.id} is approved: ${plural(plan.hold.records, "change")}`
      }}
      after={reload}
    >
      <Unread hold={hold} />
      <p>
        An approval cannot be undone. If a record changes before you confirm, nothing is published, and this dialog says
        so.
      </p>
      {shown(({ hold: { reason } }) => <p>{sentence(reason)}.</p>)}
      <Choices<Mode>
        legend="How"
        name="mode"
        texts={hold.kind === "scope" ? accepting : publishing}
        chosen={mode}
        choose={setMode}
      />
    </Command>
  )
}

type Held = HoldRecords["records"][number]
type Content = HeldContents["items"][number]

const Changes = ({ content, kind, record }: {
  readonly record: Held
  readonly content: Content | undefined
  readonly kind: HoldView["kind"]
}) => {
  if (record.reason !== null) return <>deleted: {deletions[record.reason] ?? record.reason}</>
  if (record.paths.length === 0) return <>{kind === "deletes" ? "deleted" : kind === "restores" ? "comes back" : "–"}</>
  const changes = content?.changes ?? record.paths.map((path) => ({
    path,
    before: record.gained.includes(path) ? "nothing" : masked,
    after: record.lost.includes(path) ? "nothing" : masked
  }))
  return <>{changes.map((change) => <Change key={change.path} {...change} />)}</>
}

const recordColumns = (
  { integration, kind, model }: HoldView,
  contents: ReadonlyMap<string, Content> | null
): ReadonlyArray<Column<Held>> => [
  {
    title: "Record",
    kind: "name",
    cell: ({ id, remote_id }) => (
      <>
        <code>{id}</code>
        {remote_id === null ? null : <div class="quiet">at the vendor: {remote_id}</div>}
      </>
    )
  },
  { title: "Name", cell: ({ id }) => contents === null ? masked : contents.get(id)?.name ?? "–" },
  {
    title: "Effect",
    kind: "wide",
    cell: (record) => <Changes record={record} content={contents?.get(record.id)} kind={kind} />
  },
  { title: "Changed at (UTC)", cell: ({ changed_at }) => <At at={changed_at} /> },
  {
    title: "More",
    cell: ({ id }) => {
      const url = contents?.get(id)?.remote_url ?? null
      return (
        <>
          <a href={`/events${queryOf({ integration, model, id })}`}>
            History<span class="hidden">of {id}</span>
          </a>
          {url === null ? null : (
            <>
              {" · "}
              <a href={url} target="_blank" rel="noopener noreferrer">
                At the vendor<span class="hidden">: {id}</span>
              </a>
            </>
          )}
        </>
      )
    }
  }
]

const Records = ({ page: { hold, next, records } }: { readonly page: HoldRecords }) => {
  const [state, setState] = useState<HeldContents | RequestError | null>(null)
  const contents = state === null || state instanceof RequestError
    ? null
    : new Map(state.items.map((item) => [item.id, item]))
  const reveal = () => {
    const query = queryOf({ after: parameter("after"), limit: limitOr(25) })
    get<HeldContents>(`/v1/holds/${hold.id}/content${query}`).then(setState, setState)
  }
  return (
    <Section id="records" title="Records">
      {records.length === 0 ? <Empty>No record is held now.</Empty> : (
        <>
          <div class="buttons">
            {contents === null
              ? <button type="button" onClick={reveal}>Reveal names and values</button>
              : <button type="button" onClick={() => setState(null)}>Hide names and values</button>}
            {contents === null ? <span class="quiet">Revealing is recorded in the audit log.</span> : null}
          </div>
          {records.length === hold.records
            ? null
            : <p class="quiet">{number(records.length)} of {plural(hold.records, "record")}</p>}
          {state instanceof RequestError ? <Failure error={state} retry={reveal} /> : null}
          <Table label="Held records" columns={recordColumns(hold, contents)} rows={records} keyOf={({ id }) => id} />
        </>
      )}
      <Pager label="held records" next={next} />
    </Section>
  )
}

const publishedKinds: Readonly<Record<HoldView["kind"], string>> = {
  deletes: "deleted",
  restores: "created",
  scope: "updated"
}

/** The consumers of the events that an approval publishes. */
const Consumers = ({ hold: { kind, model } }: { readonly hold: HoldView }) => {
  const { data } = useResource<PluginList>("/v1/plugins", false)
  if (data === null) return null
  const event = `${model}.${publishedKinds[kind]}`
  const plugins = data.items.filter(({ handlers }) => handlers.some(({ trigger }) => trigger?.of === event))
  return (
    <p>
      The events <code>{event}</code> go to the readers of the event feed{usesKafka() ? ", to Kafka" : ""} and to{" "}
      {plugins.length === 0
        ? "no plugin"
        : plugins.map(({ plugin }, index) => (
          <Fragment key={plugin}>
            {index === 0 ? "" : ", "}
            <a href={`/plugins/${encodeURIComponent(plugin)}`}>{plugin}</a>
          </Fragment>
        ))}.
    </p>
  )
}

/** Counted once for each number of records, because the server compares all of them. */
const Patterns = ({ hold }: { readonly hold: HoldView }) => {
  const resource = useResource<HoldPatterns>(`/v1/holds/${hold.id}/patterns`, false)
  return (
    <Section id="patterns" title="An approval would publish">
      <Loaded resource={resource}>
        {({ counted, patterns }) => (
          <ul>
            {patterns.map(({ records, what }) => (
              <li key={what}>
                <strong>{number(records)} of {number(counted)}</strong> {what}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <Consumers hold={hold} />
    </Section>
  )
}

const words: Readonly<Record<HoldView["state"], string>> = {
  open: "Opened",
  rejected: "Rejected",
  approving: "Approved",
  approved: "Approved",
  canceled: "Ended by itself: no record is held any longer"
}

/** The decision, its time, the caller, and the published events. */
const Decision = ({ page: { decision, hold } }: { readonly page: HoldRecords }) =>
  hold.decided_at === null ? null : (
    <div class="notice">
      <p>
        <strong>{words[hold.state]}</strong> <At at={decision?.at ?? hold.decided_at} />
        {decision === null
          ? "."
          : ` by ${decision.actor}${decision.address === null ? "" : ` from ${decision.address}`}.`} {hold.published
          ? (
            <a href={`/events${queryOf({ hold: hold.id })}`}>
              The events of {plural(hold.released, "published change")}
            </a>
          )
          : hold.state === "approved"
          ? `Nothing was published: the new content of ${plural(hold.released, "record")} counts as published.`
          : null}
      </p>
      {hold.waiting_reason === null ? null : <p>{hold.waiting_reason}</p>}
    </div>
  )

/** When a rejected change is held, or published, once more. */
const again: Readonly<Record<HoldView["kind"], string>> = {
  deletes: "A record counts as deleted again only after the API has shown it in between.",
  restores: "They are held again only if the API shows them with different content.",
  scope: "They are held again only if the API shows them with different content."
}

const Decide = ({ hold, reload }: { readonly hold: HoldView; readonly reload: () => unknown }) =>
  hold.state !== "open" && hold.state !== "rejected" ? null : (
    <Section id="decide" title="What to do">
      <ul>
        {hold.state === "open"
          ? (
            <>
              <li>
                <strong>Do nothing</strong>{" "}
                if the source is wrong and will be repaired: records that look as before leave the hold.{" "}
                {hold.sweep_at === null
                  ? "The others wait until you decide, or until a sweep finds fewer than the limits."
                  : (
                    <>
                      The sweep at about <At at={hold.sweep_at} /> UTC publishes the others.
                    </>
                  )} {hold.kind === "scope"
                  ? "Other changes of these records, and all other records, are published meanwhile."
                  : "All other changes are published meanwhile."}
              </li>
              <li>
                <strong>Reject</strong>{" "}
                if the source is wrong and stays so: nothing is published, no sweep publishes it later, and you can
                still approve. {again[hold.kind]} The button acts at once.
              </li>
            </>
          )
          : null}
        <li>
          <strong>Approve</strong>{" "}
          if the changes are real: they are published. This cannot be undone; a dialog asks first.
        </li>
      </ul>
      <div class="buttons decision">
        {hold.state === "open"
          ? (
            <Immediate
              label={`Reject ${plural(hold.records, "change")}`}
              run={async () => {
                await post<HoldView>(`/v1/holds/${hold.id}/reject`)
                return `Hold ${hold.id} is rejected: its changes stay unpublished`
              }}
              after={reload}
            />
          )
          : null}
        <Approve hold={hold} reload={reload} />
      </div>
    </Section>
  )

export const HoldPage = ({ parameters: [id = ""] }: { readonly parameters: ReadonlyArray<string> }) => {
  const resource = useResource<HoldRecords>(
    `/v1/holds/${encodeURIComponent(id)}${queryOf({ after: parameter("after"), limit: limitOr(25) })}`
  )
  return (
    <>
      <Title text={`Hold ${id}`}>
        <a href="/holds">All holds</a>
      </Title>
      <Loaded resource={resource}>
        {(page) => {
          const { hold } = page
          return (
            <>
              <p class="sentence">
                <Badge tone={tones[hold.state]}>{hold.state}</Badge> {hold.reason}
              </p>
              <Decision page={page} />
              <Unread hold={hold} />
              <Facts>
                <Fact name="Stream">
                  <a href={streamPath(hold.integration, hold.model)}>{hold.stream}</a>
                </Fact>
                <Fact name="Held now">{number(hold.records)}</Fact>
                <Fact name="Kind">{kinds[hold.kind]}</Fact>
                <Fact name="Opened">
                  <Since at={hold.opened_at} suffix=" ago" />
                </Fact>
                {hold.paths.length === 0 ? null : <Fact name="Paths">{hold.paths.join(", ")}</Fact>}
              </Facts>
              {hold.records === 0 ? null : <Patterns key={hold.records} hold={hold} />}
              <Decide hold={hold} reload={resource.reload} />
              <Records key={parameter("after")} page={page} />
            </>
          )
        }}
      </Loaded>
    </>
  )
}
