/** The problems, since when, and for which customers; below them the path of a change and the freshness of the last hours. */
import type { Matter, OverviewView, Step } from "../../src/http/contract/OverviewApi.ts"
import { duration, moment, number, plural, rate } from "../Format.ts"
import { connection, overview, serverNow } from "../Live.ts"
import { Badge, Breakable, Loading, Section, Since, Title } from "../parts/Basics.tsx"
import { HistorySection } from "../parts/History.tsx"

const kinds: Readonly<Record<Matter["kind"], string>> = {
  store: "Store",
  process: "Process",
  kafka: "Kafka",
  disk: "Disk",
  hold: "Hold",
  blocked: "Blocked",
  failing: "Failing",
  late: "Late",
  late_sweep: "Late sweep",
  circuit: "Circuit",
  dead_letters: "Dead letters",
  plugin: "Plugin",
  switched_off: "Off",
  quarantine: "Quarantine"
}

const scopeOf = ({ integration_count, integrations, kind, stream_count }: Matter): string => {
  if (integration_count === 0) return kind === "circuit" ? "every integration of the plugin" : "everything"
  const others = integration_count - integrations.length
  const names = `${integrations.join(", ")}${others > 0 ? ` and ${number(others)} more` : ""}`
  return stream_count > 1 ? `${names} (${plural(stream_count, "stream")})` : names
}

const MatterRow = ({ matter }: { readonly matter: Matter }) => (
  <li class={`matter ${matter.severity}`}>
    <div class="kind">
      <Badge tone={matter.severity === "act" ? "bad" : "warn"}>{kinds[matter.kind]}</Badge>
    </div>
    <div class="what">
      <h3>{matter.title}</h3>
      <p>
        <Breakable text={matter.detail} />
      </p>
    </div>
    <div class="scope">
      {matter.since === null ? null : (
        <>
          for <Since at={matter.since} />, since {moment(matter.since, serverNow.value)} UTC ·{" "}
        </>
      )}
      {scopeOf(matter)}
    </div>
    <a class="button" href={matter.link}>
      {matter.action}
      <span class="hidden">: {matter.title}</span>
    </a>
  </li>
)

const Calm = ({ integrations, streams }: OverviewView) =>
  integrations === 0
    ? (
      <p class="notice">
        Nothing is read: there is no integration. Add one <a href="/integrations">in the console</a>, with{" "}
        <code>rollcall integrations add greenhouse:acme</code>, or in the configuration.
      </p>
    )
    : (
      <p class="calm">
        <Badge tone="good">OK</Badge> Nothing waits for you.{" "}
        {streams.backfilling > 0 ? `${plural(streams.backfilling, "stream")} still backfilling.` : ""}
      </p>
    )

const Matters = (state: OverviewView) => {
  const { matters, omitted } = state
  const count = matters.length + omitted
  return (
    <Section id="attention" title={count === 0 ? "Needs attention" : `Needs attention: ${number(count)}`}>
      {matters.length === 0
        ? <Calm {...state} />
        : <ul class="matters">{matters.map((matter) => <MatterRow key={matter.id} matter={matter} />)}</ul>}
      {omitted === 0 ? null : <p class="quiet">{number(omitted)} more are not shown.</p>}
    </Section>
  )
}

const steps: Readonly<Record<Step["step"], readonly [name: string, unit: string, waiting: string, oldest: string]>> = {
  source: ["Source", "records read/s", "streams not read in time", "longest for"],
  log: ["Event log", "events found/s", "changes not published", "oldest hold"],
  kafka: ["Kafka", "events published/s", "events to publish", "oldest event"],
  handlers: ["Handlers", "events taken/s", "deliveries open", "oldest delivery"]
}
const stepTones = { ok: "good", late: "warn", stopped: "bad", unused: "plain" } as const
const stepStates = { ok: "ok", late: "behind", stopped: "stopped", unused: "not used" } as const
const stateOf = ({ state, step }: Step): string =>
  step === "log" && state === "late" ? "holds changes" : stepStates[state]

const StepCard = ({ step }: { readonly step: Step }) => {
  const [name, unit, waiting, oldest] = steps[step.step]
  const isUsed = step.state !== "unused"
  return (
    <li class="step">
      <h3>
        {name} <Badge tone={stepTones[step.state]}>{stateOf(step)}</Badge>
      </h3>
      {isUsed
        ? (
          <dl>
            <div>
              <dt>{unit}</dt>
              <dd>{step.rate === null ? "–" : rate(step.rate)}</dd>
            </div>
            <div>
              <dt>{waiting}</dt>
              <dd>{number(step.waiting)}</dd>
            </div>
            <div>
              <dt>{oldest}</dt>
              <dd>
                <Since at={step.oldest_at} />
              </dd>
            </div>
          </dl>
        )
        : null}
      {step.remark === null ? null : <p class="quiet">{step.remark}</p>}
    </li>
  )
}

const seconds = (value: number | null): string => value === null ? "–" : duration(value)

const Numbers = ({ freshness, integrations, records, streams }: OverviewView) => (
  <p class="numbers">
    {plural(integrations, "integration")} · {plural(streams.total, "stream")}: {number(streams.live - streams.late)} ok
    {streams.late > 0 ? `, ${number(streams.late)} late` : ""}
    {streams.backfilling > 0 ? `, ${number(streams.backfilling)} backfilling` : ""}
    {streams.blocked > 0 ? `, ${number(streams.blocked)} blocked` : ""}
    {streams.failing > 0 ? `, ${number(streams.failing)} failing` : ""}
    {streams.paused > 0 ? `, ${number(streams.paused)} paused` : ""} · {plural(records, "record")}
    {freshness.worst_seconds === null
      ? ""
      : ` · freshness of the ${plural(freshness.streams, "stream")} that were read: ${
        seconds(freshness.median_seconds)
      } median, ${seconds(freshness.p95_seconds)} for 95 %, ${seconds(freshness.worst_seconds)} worst`}
  </p>
)

const size = (bytes: number): string =>
  bytes < 1024 ** 3 ? `${number(bytes / 1024 ** 2)} MiB` : `${number(bytes / 1024 ** 3)} GiB`

const Store = ({ store: { disk_bytes, free_bytes, size_bytes } }: OverviewView) => (
  <p class="numbers">
    store: {size_bytes === null ? "size not known" : size(size_bytes)} · {free_bytes === null || disk_bytes === null
      ? "the free space is known only to the database server"
      : `${size(free_bytes)} of ${size(disk_bytes)} free on its disk`}
  </p>
)

export const OverviewPage = () => {
  const state = overview.value
  return (
    <>
      <Title text="Overview" />
      {state === null ? connection.value === "lost" ? null : <Loading /> : (
        <>
          <Matters {...state} />
          <Section id="path" title="Data path, with the rates of the last minute">
            <ol class="path">{state.path.map((step) => <StepCard key={step.step} step={step} />)}</ol>
            <Numbers {...state} />
            <Store {...state} />
          </Section>
          <HistorySection />
        </>
      )}
    </>
  )
}
