/** Holds of the guard: the changes that wait for a decision, and the decision. */
import { useState } from "preact/hooks"
import type { HoldPage as HoldRecords, HoldPlanView, HoldView } from "../../src/http/contract/HoldApi.ts"
import { get, post } from "../Client.ts"
import { number, plural } from "../Format.ts"
import { At, Badge, Empty, Fact, Facts, Section, Since, Title, type Tone } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Filters, SelectFilter } from "../parts/Filters.tsx"
import { Loaded, type Page, usePlan, useResource } from "../parts/Resource.tsx"
import { type Column, Pager, Table } from "../parts/Table.tsx"
import { limitOr, parameter, queryOf, streamPath } from "../Router.ts"

const tones: Readonly<Record<HoldView["state"], Tone>> = {
  open: "bad",
  rejected: "warn",
  approving: "warn",
  approved: "good",
  canceled: "plain"
}

const columns: ReadonlyArray<Column<HoldView>> = [
  { title: "Hold", kind: "name", cell: ({ id }) => <a href={`/holds/${id}`}>Hold {id}</a> },
  {
    title: "Stream",
    cell: ({ integration, model, stream }) => <a href={streamPath(integration, model)}>{stream}</a>
  },
  { title: "State", cell: ({ state }) => <Badge tone={tones[state]}>{state}</Badge> },
  { title: "Changes", kind: "number", cell: ({ records }) => number(records) },
  { title: "Kind", cell: ({ kind }) => kind },
  { title: "Opened", cell: ({ opened_at }) => <Since at={opened_at} suffix=" ago" /> }
]

export const HoldsPage = () => {
  const [state, after] = [parameter("state"), parameter("after")]
  const list = useResource<Page<HoldView>>(`/v1/holds${queryOf({ state, after, limit: limitOr(100) })}`)
  return (
    <>
      <Title text="Holds" />
      <Filters>
        <SelectFilter label="State" name="state" options={Object.keys(tones)} all="not approved" />
      </Filters>
      <Loaded resource={list}>
        {({ items, next }) =>
          items.length === 0
            ? <Empty>No hold: the guard holds no change back.</Empty>
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

const modeTexts: Readonly<Record<Mode, string>> = {
  events: "Publish the changes as events",
  backfill: "Publish them as old records: plugins skip them by default",
  silent: "Publish nothing: the new content counts as published"
}

const Approve = ({ hold, reload }: { readonly hold: HoldView; readonly reload: () => unknown }) => {
  const { load, plan, shown } = usePlan(() => get<HoldPlanView>(`/v1/holds/${hold.id}/plan`))
  const [mode, setMode] = useState<Mode>("events")
  const count = plan?.hold.records ?? hold.records
  const offered = (Object.keys(modes) as Array<Mode>).filter((one) => one !== "silent" || hold.kind === "scope")
  return (
    <Command
      label="Approve"
      tone="main"
      title={`Approve hold ${hold.id}?`}
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
      <p>An approval cannot be undone. It applies to exactly the changes that are counted here.</p>
      {shown(({ hold, plan }) => (
        <Facts>
          <Fact name="Changes">{number(hold.records)}</Fact>
          <Fact name="Plan">
            <code>{plan}</code>
          </Fact>
        </Facts>
      ))}
      <fieldset>
        <legend>How</legend>
        {offered.map((one) => (
          <label key={one} class="choice">
            <input type="radio" name="mode" checked={mode === one} onChange={() => setMode(one)} /> {modeTexts[one]}
          </label>
        ))}
      </fieldset>
    </Command>
  )
}

const recordColumns: ReadonlyArray<Column<HoldRecords["records"][number]>> = [
  { title: "Record", kind: "name", cell: ({ id }) => <code>{id}</code> },
  { title: "Status", cell: ({ status }) => status },
  { title: "Why it counts as deleted", cell: ({ reason }) => reason ?? "–" },
  { title: "Changed at", cell: ({ changed_at }) => <At at={changed_at} /> },
  { title: "Detected at", cell: ({ detected_at }) => <At at={detected_at} /> }
]

const Records = ({ page }: { readonly page: HoldRecords }) => (
  <Section id="records" title="Samples">
    <p>Look at two or three of these records in the source system: are the changes real?</p>
    {page.records.length === 0
      ? <Empty>No record is held now.</Empty>
      : <Table label="Held records" columns={recordColumns} rows={page.records} keyOf={({ id }) => id} />}
    <Pager label="held records" next={page.next} />
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
          const isDecidable = hold.state === "open" || hold.state === "rejected"
          return (
            <>
              <p class="sentence">
                <Badge tone={tones[hold.state]}>{hold.state}</Badge> {hold.reason}
              </p>
              {hold.waiting_reason === null ? null : <p>{hold.waiting_reason}</p>}
              {isDecidable
                ? (
                  <div class="buttons">
                    <Approve hold={hold} reload={resource.reload} />
                    {hold.state === "open"
                      ? (
                        <Command
                          label="Reject"
                          tone="danger"
                          title={`Reject hold ${hold.id}?`}
                          confirm={`Reject ${plural(hold.records, "change")}`}
                          run={async () => {
                            await post<HoldView>(`/v1/holds/${hold.id}/reject`)
                            return `Hold ${hold.id} is rejected: its changes stay unpublished`
                          }}
                          after={resource.reload}
                        >
                          <p>
                            The records stay as they were published. They are held again only if the API shows them with
                            different content. A rejected hold can still be approved.
                          </p>
                        </Command>
                      )
                      : null}
                  </div>
                )
                : null}
              <Facts>
                <Fact name="Stream">
                  <a href={streamPath(hold.integration, hold.model)}>{hold.stream}</a>
                </Fact>
                <Fact name="Kind">{hold.kind}</Fact>
                <Fact name="Changes">{number(hold.records)}</Fact>
                <Fact name="Opened">
                  <Since at={hold.opened_at} suffix=" ago" />
                </Fact>
                <Fact name="Released">{number(hold.released)}</Fact>
                {hold.paths.length === 0 ? null : <Fact name="Paths">{hold.paths.join(", ")}</Fact>}
              </Facts>
              <Records page={page} />
            </>
          )
        }}
      </Loaded>
    </>
  )
}
