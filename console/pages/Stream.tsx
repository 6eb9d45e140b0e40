/** One stream: its state in a sentence, its freshness against the target, its runs, and its commands. */
import { useState } from "preact/hooks"
import type { AuditView, CommandView, StreamView } from "../../src/http/streams/StreamApi.ts"
import type { StreamDetailView } from "../../src/http/streams/StreamDetailApi.ts"
import { post } from "../Client.ts"
import { duration, number, plural } from "../Format.ts"
import { At, Badge, Empty, Fact, Facts, Scroll, Section, Since, Title } from "../parts/Basics.tsx"
import { Command } from "../parts/Command.tsx"
import { Loaded, useResource } from "../parts/Resource.tsx"
import { streamPath } from "../Router.ts"
import { tones } from "./Streams.tsx"

const balance = [
  ["unchanged", "unchanged"],
  ["equivalent", "equivalent"],
  ["changed", "changed"],
  ["tombstones", "deleted before"],
  ["duplicates", "duplicates"],
  ["pending", "pending"],
  ["quarantined", "quarantined"]
] as const

type Run = StreamDetailView["runs"][number]

const Runs = ({ runs }: { readonly runs: ReadonlyArray<Run> }) =>
  runs.length === 0 ? <Empty>No run has ended yet.</Empty> : (
    <Scroll label="Runs">
      <table>
        <thead>
          <tr>
            <th>Run</th>
            <th>Balance</th>
            <th>Started</th>
            <th class="n">Took</th>
            <th class="n">Pages</th>
            <th class="n">Read</th>
            {balance.map(([key, label]) => <th key={key} class="n">{label}</th>)}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={`${run.kind} ${run.id}`}>
              <th scope="row">{run.kind}{run.pass > 1 ? `, pass ${run.pass}` : ""}</th>
              <td>{run.balanced ? <Badge tone="good">adds up</Badge> : <Badge tone="bad">does not add up</Badge>}</td>
              <td>
                <At at={run.started_at} />
              </td>
              <td class="n">
                {run.ended_at === null
                  ? "running"
                  : duration((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1_000)}
              </td>
              <td class="n">{number(run.pages)}</td>
              <td class="n">{number(run.read)}</td>
              {balance.map(([key]) => <td key={key} class="n">{number(run[key])}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )

const Freshness = ({ stream, target }: { readonly stream: StreamView; readonly target: number }) => {
  const { freshness_seconds: value } = stream
  return (
    <div class="meter">
      <meter
        min={0}
        max={target * 2}
        high={target}
        optimum={0}
        value={Math.min(value ?? 0, target * 2)}
        aria-label="Freshness against its target"
      />
      <p>
        {value === null ? "not known yet" : `${duration(value)} behind`}; the target is {duration(target)}
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
  const isBroken = stream.blocked !== null || stream.failing !== null
  return (
    <div class="buttons">
      {stream.paused
        ? (
          <Command
            label="Resume"
            tone="main"
            title={`Resume ${stream.stream}?`}
            confirm="Resume"
            run={run("resume", "resumed")}
            after={reload}
          >
            <p>It is read again, from where it stopped.</p>
          </Command>
        )
        : isBroken
        ? (
          <Command
            label="Try again now"
            tone="main"
            title={`Try ${stream.stream} again?`}
            confirm="Try again now"
            run={run("resume", "is tried again")}
            after={reload}
          >
            <p>
              Rollcall sends a request at once, instead of at the next probe. If the cause is gone, the stream
              continues.
            </p>
          </Command>
        )
        : null}
      <Command
        label="Poll now"
        title={`Poll ${stream.stream} now?`}
        confirm="Poll now"
        run={run("poll", "is polled")}
        after={reload}
      >
        <p>Reads the changes since the last poll now.</p>
      </Command>
      <Command
        label="Sweep"
        title={`Sweep ${stream.stream}?`}
        confirm="Start a sweep"
        run={run("sweep", "is swept")}
        after={reload}
      >
        <p>
          Reads all {plural(stream.records_live, "record")}{" "}
          and publishes what differs. It uses the request budget of the account for a while.
        </p>
      </Command>
      <Command
        label="Backfill"
        title={`Backfill ${stream.stream}?`}
        confirm="Start a backfill"
        run={run("backfill", "a backfill starts")}
        after={reload}
      >
        <p>
          Reads all{" "}
          {plural(stream.records_live, "record")}; events of records that differ have the origin backfill, which plugins
          skip by default.
        </p>
      </Command>
      <Command
        label="Rewind"
        title={`Rewind ${stream.stream}?`}
        confirm="Rewind"
        isBlocked={Number.isNaN(Date.parse(`${to}Z`))}
        run={async () => run("rewind", "rewound", { to: new Date(`${to}Z`).toISOString() })()}
        after={reload}
      >
        <p>The next poll reads the changes since this time again. Changes that are published already cause no event.</p>
        <label>
          Time, in UTC
          <input type="datetime-local" value={to} onInput={({ currentTarget: { value } }) => setTo(value)} />
        </label>
      </Command>
      <Command
        label="Audit"
        title={`Audit ${stream.stream}?`}
        confirm="Start the audit"
        run={async () => {
          const report = await post<AuditView>(`${path}/audit`)
          show(report)
          return `${stream.stream}: ${plural(report.differing, "difference")}`
        }}
      >
        <p>Reads all records and compares them with what is published. It publishes nothing, and may take minutes.</p>
      </Command>
      {stream.paused ?
        null :
        (
          <Command
            label="Pause"
            title={`Pause ${stream.stream}?`}
            confirm="Pause"
            run={run("pause", "paused")}
            after={reload}
          >
            <p>It is not read until an operator resumes it. No change is lost within 14 days.</p>
          </Command>
        )}
    </div>
  )
}

export const StreamPage = ({ parameters: [integration = "", model = ""] }: {
  readonly parameters: ReadonlyArray<string>
}) => {
  const detail = useResource<StreamDetailView>(`/v1${streamPath(integration, model)}/detail`)
  const [report, setReport] = useState<AuditView | null>(null)
  return (
    <>
      <Title text={`${integration}/${model}`}>
        <a href={`/integrations/${encodeURIComponent(integration)}`}>All streams of {integration}</a>
      </Title>
      <Loaded resource={detail}>
        {({ budget, runs, sentence, state, stream, target_seconds }) => (
          <>
            <p class="sentence">
              <Badge tone={tones[state]}>{state}</Badge> {sentence}
            </p>
            <Commands stream={stream} reload={detail.reload} show={setReport} />
            {report === null ? null : <Audit report={report} />}
            <Freshness stream={stream} target={target_seconds} />
            <Facts>
              <Fact name="Records">{number(stream.records_live)}</Fact>
              <Fact name="Pending">
                {Object.entries(stream.pending).map(([status, rows]) => `${number(rows)} ${status}`).join(", ") ||
                  "none"}
              </Fact>
              <Fact name="Quarantine">{number(stream.quarantined)}</Fact>
              <Fact name="Stale records">{number(stream.stale_records)}</Fact>
              <Fact name="Complete to">
                <At at={stream.complete_to} />
              </Fact>
              <Fact name="Last poll">
                <Since at={stream.last_poll_at} suffix=" ago" />
              </Fact>
              <Fact name="Last sweep">
                <Since at={stream.last_sweep_at} suffix=" ago" />
              </Fact>
              <Fact name="Generation">{stream.generation}</Fact>
            </Facts>
            <Section id="runs" title="Runs">
              <Runs runs={runs} />
            </Section>
            <Section id="budget" title={`Request budget of account ${budget.account}`}>
              <p>{budget.text}</p>
            </Section>
          </>
        )}
      </Loaded>
    </>
  )
}
