/** One stream: its state in a sentence, its freshness against the target, its runs, and its commands. */
import { type ComponentChildren, Fragment } from "preact"
import { useState } from "preact/hooks"
import type { AuditView, CommandView, StreamView } from "../../src/http/contract/StreamApi.ts"
import type { IdlePollsView, RunView, StreamDetailView, StreamRuns } from "../../src/http/contract/StreamDetailApi.ts"
import { post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { At, Badge, Empty, Fact, Facts, meaningOf, Scroll, Section, Since, Title } from "../parts/Basics.tsx"
import { Command, type CommandProps } from "../parts/Command.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { streamPath } from "../Router.ts"
import { tones } from "./Streams.tsx"

const outcomes = [
  ["unchanged", "unchanged"],
  ["equivalent", "equivalent"],
  ["changed", "new or changed"],
  ["tombstones", "deleted before"],
  ["duplicates", "read twice"],
  ["pending", "not published"],
  ["quarantined", "in quarantine"]
] as const

const runTones = {
  running: "plain",
  complete: "good",
  repeated: "warn",
  failed: "bad",
  blocked: "bad",
  replaced: "plain"
} as const

/** `9 = 1 unchanged + 8 not published` */
const balanceOf = (run: RunView): string => {
  const parts = outcomes.filter(([key]) => run[key] > 0).map(([key, label]) => `${number(run[key])} ${label}`)
  return run.read === 0 && parts.length === 0 ? "–" : `${number(run.read)} = ${parts.join(" + ") || "0"}`
}

const tookOf = (start: string, end: string): string => {
  const seconds = (Date.parse(end) - Date.parse(start)) / 1_000
  return seconds < 1 ? "< 1 s" : duration(seconds)
}

const columns = ["Pages", "Read", "New", "Updated", "Deleted"] as const

const Cell = ({ children, kind = "", title }: {
  readonly children: ComponentChildren
  readonly kind?: string
  readonly title: string
}) => (
  <td role="cell" class={kind} data-title={title}>
    <div>{children}</div>
  </td>
)

const RunRows = ({ run }: { readonly run: RunView }) => (
  <>
    <tr role="row">
      <th role="rowheader" scope="row">{run.kind}{run.pass > 1 ? `, pass ${run.pass}` : ""}</th>
      <Cell title="Result" kind="one-line">
        <Badge tone={runTones[run.outcome]}>{run.outcome}</Badge>
        {run.times > 1 ? `\u00A0${number(run.times)}\u00A0times` : ""}
      </Cell>
      <Cell title="Started">
        <At at={run.started_at} />
      </Cell>
      <Cell title="Took" kind="n">
        {run.ended_at === null ? "–" : tookOf(run.started_at, run.ended_at)}
        {run.times > 1 ? " in all" : ""}
      </Cell>
      {[run.pages, run.read, run.created, run.updated, run.deleted].map((value, index) => (
        <Cell key={columns[index]} title={columns[index] ?? ""} kind="n">{number(value)}</Cell>
      ))}
      <Cell title="Balance">
        {run.balanced ? balanceOf(run) : <Badge tone="bad">does not add up: {balanceOf(run)}</Badge>}
      </Cell>
    </tr>
    {run.reason === null ? null : (
      <tr role="row">
        <td role="cell" class="quiet" colSpan={5 + columns.length}>
          <div class="reason">{run.outcome}: {run.reason}</div>
        </td>
      </tr>
    )}
  </>
)

const IdleRow = ({ idle }: { readonly idle: IdlePollsView | null }) =>
  idle === null ? null : (
    <tr role="row">
      <td role="cell" class="quiet" colSpan={5 + columns.length}>
        <div class="reason">
          {plural(idle.polls, "poll")} found nothing new, <At at={idle.since} /> to <At at={idle.until} />
        </div>
      </td>
    </tr>
  )

const Runs = ({ idle, items }: StreamRuns) =>
  items.length === 0 && idle === null ? <Empty>No run has ended yet.</Empty> : (
    <Scroll label="Runs">
      <table role="table" class="stacks runs">
        <thead role="rowgroup">
          <tr role="row">
            {["Run", "Result", "Started"].map((name) => <th key={name} role="columnheader">{name}</th>)}
            {["Took", ...columns].map((name) => <th key={name} role="columnheader" class="n">{name}</th>)}
            <th role="columnheader" title={meaningOf("balance")}>Balance</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {items.filter(({ outcome }) => outcome === "running").map((run) => <RunRows key="running" run={run} />)}
          <IdleRow idle={idle} />
          {items.filter(({ outcome }) => outcome !== "running").map((run) => (
            <Fragment key={run.number}>
              <RunRows run={run} />
              <IdleRow idle={run.idle_before} />
            </Fragment>
          ))}
        </tbody>
      </table>
    </Scroll>
  )

/** Without a bar for a stream that is not read: its state says more than its freshness. */
const Freshness = ({ state, stream, target_seconds: target }: StreamDetailView) => {
  const { freshness_seconds: value } = stream
  const text = value === null ? "never read completely" : `last read completely ${duration(value)} ago`
  return (
    <div class="meter">
      {value === null || (state !== "ok" && state !== "late") ? null : (
        <>
          <meter
            min={0}
            max={target}
            high={target * 0.99}
            optimum={0}
            value={Math.min(value, target)}
            aria-label="Freshness against its target"
          />
          <span class="quiet" aria-hidden="true">{duration(target)}</span>
        </>
      )}
      <p>
        Freshness: {text}; the target is {duration(target)} (three poll intervals, at least 2 min)
      </p>
    </div>
  )
}

const Audit = ({ report }: { readonly report: AuditView }) => (
  <Section id="audit" title="Audit">
    <p>
      {plural(report.read, "record")} read, {plural(report.differing, "difference")}
      {report.differing > report.differences.length ? `, of which ${report.differences.length} are listed` : ""}.
    </p>
    {report.differences.length === 0 ? null : (
      <ul>
        {report.differences.map(({ id, paths, what }) => (
          <li key={id}>
            <code>{id}</code>: {what} {paths.join(", ")}
          </li>
        ))}
      </ul>
    )}
  </Section>
)

const Commands = ({ reload, show, stream }: {
  readonly stream: StreamView
  readonly reload: () => unknown
  readonly show: (report: AuditView) => void
}) => {
  const [to, setTo] = useState("")
  const path = `/v1${streamPath(stream.integration, stream.model)}`
  const run = (command: string, done: string, body: unknown = {}) => async () => {
    await post<CommandView>(`${path}/${command}`, body)
    return `${stream.stream}: ${done}`
  }
  /** A command without parameters. `done`: what the stream is afterwards. */
  const simple = (
    label: string,
    command: string,
    done: string,
    effect: string,
    texts: Partial<Pick<CommandProps, "title" | "confirm" | "tone">> = {}
  ) => (
    <Command
      label={label}
      title={`${label} ${stream.stream}?`}
      confirm={label}
      hint={effect}
      {...texts}
      run={run(command, done)}
      after={reload}
    >
      <p>{effect}</p>
    </Command>
  )
  const records = plural(stream.records_live, "record")
  const [resumes, triesAgain, polls, sweeps, backfills, pauses, rewinds, audits] = [
    "It is read again, from where it stopped.",
    "Rollcall sends a request at once, instead of at the next probe. If the cause is gone, the stream continues.",
    "Reads the changes since the last poll now, and publishes them.",
    `Reads all ${records} and publishes the differences, also those of open holds that are fewer than the limits. It uses the request ` +
    "budget of the account for a while.",
    `Reads all ${records} and publishes the differences. New records get the origin backfill, which plugins skip by default.`,
    "It is not read until an operator resumes it. No change is lost within 14 days.",
    "The next poll reads the changes since this time again. Changes that are published already cause no event.",
    "Reads all records and compares them with what is published. It publishes nothing, and may take minutes."
  ]
  return (
    <div class="buttons">
      {stream.paused
        ? simple("Resume", "resume", "resumed", resumes, { tone: "main" })
        : stream.blocked !== null || stream.failing !== null
        ? simple("Try again now", "resume", "is tried again", triesAgain, {
          tone: "main",
          title: `Try ${stream.stream} again?`
        })
        : null}
      {simple("Poll now", "poll", "is polled", polls, { title: `Poll ${stream.stream} now?` })}
      <Command
        label="Audit"
        title={`Audit ${stream.stream}?`}
        hint={audits}
        confirm="Start the audit"
        run={async () => {
          const report = await post<AuditView>(`${path}/audit`)
          show(report)
          return `${stream.stream}: ${plural(report.differing, "difference")}`
        }}
      >
        <p>{audits}</p>
      </Command>
      {simple("Sweep", "sweep", "is swept", sweeps, { confirm: "Start a sweep" })}
      <Command
        label="Rewind"
        hint={rewinds}
        title={`Rewind ${stream.stream}?`}
        confirm="Rewind"
        isBlocked={Number.isNaN(Date.parse(`${to}Z`))}
        run={async () => run("rewind", "rewound", { to: new Date(`${to}Z`).toISOString() })()}
        after={reload}
      >
        <p>{rewinds}</p>
        <label>
          Time, in UTC
          <input type="datetime-local" value={to} onInput={({ currentTarget: { value } }) => setTo(value)} />
        </label>
      </Command>
      {simple("Backfill", "backfill", "a backfill starts", backfills, { confirm: "Start a backfill", tone: "danger" })}
      {stream.paused ? null : simple("Pause", "pause", "paused", pauses, { tone: "danger" })}
    </div>
  )
}

export const StreamPage = ({ parameters: [integration = "", model = ""] }: {
  readonly parameters: ReadonlyArray<string>
}) => {
  const detail = useResource<StreamDetailView>(`/v1${streamPath(integration, model)}/detail`)
  const runs = useResource<StreamRuns>(`/v1${streamPath(integration, model)}/runs`)
  const [report, setReport] = useState<AuditView | null>(null)
  return (
    <>
      <Title text={`${integration}/${model}`}>
        <a href={`/integrations/${encodeURIComponent(integration)}`}>All streams of {integration}</a>
      </Title>
      <Loaded resource={detail}>
        {(found) => {
          const { budget, sentence, state, stream } = found
          return (
            <>
              <p class="sentence">
                <Badge tone={tones[state]}>{state}</Badge> {sentence}
              </p>
              <Commands stream={stream} reload={detail.reload} show={setReport} />
              {report === null ? null : <Audit report={report} />}
              <Freshness {...found} />
              <Facts>
                <Fact name="Records">{number(stream.records_live)}</Fact>
                <Fact name="Pending">
                  {Object.entries(stream.pending).map(([status, rows], index) => (
                    <Fragment key={status}>
                      {index === 0 ? "" : ", "}
                      {status === "held"
                        ? <a href="/holds">{number(rows)} held</a>
                        : `${number(rows)} ${status}`}
                    </Fragment>
                  ))}
                  {Object.keys(stream.pending).length === 0 ? "none" : ""}
                </Fact>
                <Fact name="Quarantine">{number(stream.quarantined)}</Fact>
                <Fact name="Stale records">{number(stream.stale_records)}</Fact>
                <Fact name="Complete to">
                  <At at={stream.complete_to} />
                  {stream.complete_to_remark === null ? null : <p class="quiet">It {stream.complete_to_remark}.</p>}
                </Fact>
                <Fact name="Last complete poll">
                  <Since at={stream.last_poll_at} suffix=" ago" />
                </Fact>
                <Fact name="Last complete sweep">
                  <Since at={stream.last_sweep_at} suffix=" ago" />
                </Fact>
                <Fact name="Generation">{stream.generation}</Fact>
              </Facts>
              <Section id="runs" title="Runs">
                <Loaded resource={runs}>{(found) => <Runs {...found} />}</Loaded>
              </Section>
              <Section id="budget" title={`Request budget of account ${budget.account}`}>
                <p>{budget.text}</p>
              </Section>
            </>
          )
        }}
      </Loaded>
    </>
  )
}
