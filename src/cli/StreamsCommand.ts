/** `rollcall streams …`: shows the streams of the running process and sends commands to them. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Model } from "../domain/Model.ts"
import type { AuditView, StreamView } from "../http/contract/StreamApi.ts"
import { oneLine, paint } from "../telemetry/TerminalText.ts"
import { clientCommand } from "./client/ClientCommand.ts"
import { streamWork, type WaitedCommand } from "./client/WaitedWork.ts"
import { checkWaitFlags, startAndWait, waitFlags, waitFor, withElapsed } from "./client/Waiting.ts"
import { instantFlag } from "./terminal/Flags.ts"
import { progressPrinter, refuse } from "./terminal/Process.ts"
import { formatCount, streamTable, table } from "./terminal/Tables.ts"

const auditHint = "the next sweep finds changes that polls cannot see: run `rollcall streams sweep`, then audit again"

/** The parts of a stream name. The running process checks the model. */
const parseStreamName = (name: string): Option.Option<{ readonly integration: string; readonly model: Model }> => {
  const [, integration, model] = /^(?!\.\.?\/)([^/]+)\/([^/]+)$/.exec(name) ?? []
  return integration === undefined ? Option.none() : Option.some({ integration, model: model as Model })
}

const stream = Argument.String("stream").pipe(
  Argument.filterMap(
    parseStreamName,
    () => "Expected <integration>/<model>, such as greenhouse:acme/ats.application"
  ),
  Argument.withDescription("<integration>/<model>, such as greenhouse:acme/ats.application")
)

const streamDetails = (view: StreamView): string => {
  const lines: ReadonlyArray<readonly [string, string | null]> = [
    ["watermark", view.watermark],
    ["complete to", view.complete_to && `${view.complete_to}: ${view.complete_to_remark}`],
    ["last poll", view.last_poll_at],
    ["last sweep", view.last_sweep_at],
    ["blocked", view.blocked && `${view.blocked.reason} since ${view.blocked.since}: ${view.blocked.message}`],
    ["failing", view.failing && `${view.failing.count} times since ${view.failing.since}: ${view.failing.message}`],
    [
      "redacting",
      view.redacting &&
      `stored content since ${view.redacting.started_at}: ${Math.floor(100 * view.redacting.share)} % of the ` +
        `event log, ${formatCount(view.redacting.rows)} rows rewritten`
    ],
    ["pending", Object.entries(view.pending).map(([status, rows]) => `${rows} ${status}`).join(", ") || null]
  ]
  return lines.flatMap(([name, text]) => text === null ? [] : [`${paint("gray", name.padEnd(12))}${oneLine(text)}`])
    .join("\n")
}

const auditText = ({ differences, differing, pending, quarantined, read, stream }: AuditView): string => {
  const waiting = Object.entries(pending).map(([status, rows]) => `${rows} ${status}`)
  const summary = [
    `${stream}: ${formatCount(read)} records read, ${formatCount(differing)} differ`,
    ...(waiting.length === 0 ? [] : [`pending: ${waiting.join(", ")}`]),
    ...(quarantined === 0 ? [] : [`quarantined: ${quarantined}`])
  ].join("; ")
  if (differences.length === 0) return oneLine(summary)
  const records = table(differences, {
    RECORD: ({ id }) => id,
    DIFFERENCE: ({ what }) => what,
    PATHS: ({ paths }) => paths.join(" ")
  })
  return `${oneLine(summary)}\n\n${records}`
}

const streamCommand = (command: "pause" | "resume", description: string) =>
  clientCommand(command, {
    description,
    flags: { stream },
    request: (client, { stream }) => client.streamCommands.command({ params: { ...stream, command } }),
    text: (view) => streamTable([view])
  })

const waitedCommand = (command: WaitedCommand, description: string) =>
  clientCommand(command, {
    description,
    examples: [{
      command: `rollcall streams ${command} greenhouse:acme/ats.tag --wait --timeout "20 minutes"`,
      description: "Return when it is done"
    }],
    flags: { stream, wait: waitFlags },
    request: Effect.fnUntraced(function*(client, { stream, wait: { timeout, wait } }, { json }) {
      yield* checkWaitFlags({ timeout, wait })
      const read = client.streams.stream({ params: stream })
      const show = progressPrinter(json)
      const hint = "The command may have been accepted: `rollcall streams show` shows the last runs of the stream."
      return yield* startAndWait(
        { hint, timeout },
        client.streamCommands.command({ params: { ...stream, command } }),
        (accepted, limit) =>
          wait ? waitFor(streamWork(command, accepted), { limit, read, show }) : Effect.succeed(accepted)
      )
    }),
    text: (view: StreamView) => streamTable([view])
  })

const list = clientCommand("list", {
  description: "List all streams",
  flags: {},
  request: (client) => client.allStreams,
  text: streamTable
})

const show = clientCommand("show", {
  description: "Show one stream: watermark, last poll and sweep, and errors",
  flags: { stream },
  request: (client, { stream }) => client.streams.stream({ params: stream }),
  text: (view) => `${streamTable([view])}\n\n${streamDetails(view)}`
})

const rewind = clientCommand("rewind", {
  description: "Read a stream's changes again from a point in time; changes that are already published cause no event",
  flags: {
    stream,
    to: instantFlag("to", "API server time from which changes are read again")
  },
  request: (client, { stream, to }) => client.streamCommands.rewind({ params: stream, payload: { to } }),
  text: (view) => streamTable([view])
})

const audit = clientCommand("audit", {
  description: "Read a whole stream and compare it with its published records; the exit code is 1 if they differ",
  flags: { stream },
  request: (client, { stream }, { json }) =>
    Effect.gen(function*() {
      // only for the time left
      const { items } = yield* Effect.orElseSucceed(client.streamDetail.runs({ params: stream }), () => ({ items: [] }))
      const sweep = items.find(({ kind, outcome }) =>
        kind !== "poll" && (outcome === "complete" || outcome === "repeated")
      )
      const expected = sweep === undefined ? null : (Date.parse(sweep.ended_at!) - Date.parse(sweep.started_at)) / 1_000
      const show = progressPrinter(json)
      return yield* withElapsed(client.streamCommands.audit({ params: stream }), show, expected)
    }),
  text: auditText,
  verify: ({ differing }) =>
    differing === 0
      ? Effect.void
      : refuse(`${differing} records differ from their published content`, auditHint)
})

export const streams = Command.make("streams").pipe(
  Command.withDescription("List the streams of the running process, and poll, sweep, pause or audit them"),
  Command.withSubcommands([
    list,
    show,
    streamCommand("pause", "Stop reading a stream until it is resumed"),
    streamCommand("resume", "Read a paused stream again, or retry a blocked stream now"),
    waitedCommand("poll", "Poll a stream now"),
    waitedCommand("sweep", "Start a sweep of a stream now"),
    waitedCommand("backfill", "Read all records again; those that were not known count as old (origin backfill)"),
    rewind,
    audit
  ])
)
