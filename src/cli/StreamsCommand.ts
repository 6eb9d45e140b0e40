/** `rollcall streams …`: shows the streams of the running process and sends commands to them. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AuditView, StreamView } from "../http/streams/StreamApi.ts"
import { type ConfigFlag, type ConnectClient, json, print, runClientCommand } from "./Flags.ts"
import { paint, streamTable, table } from "./terminal/Terminal.ts"

/** The audit found differences that are neither published nor pending. */
export class AuditDiffers extends Schema.TaggedError<AuditDiffers>()("AuditDiffers", { message: Schema.String }) {
  readonly hint = "the next sweep finds changes that polls cannot see: run `rollcall streams sweep`, then audit again"
}

const pathOf = (stream: string) =>
  /^[^/]+\/[^/]+$/.test(stream)
    ? Option.some(`/v1/streams/${stream.split("/").map(encodeURIComponent).join("/")}`)
    : Option.none()

const stream = Argument.String("stream").pipe(
  Argument.filterMap(
    pathOf,
    () => "Expected <integration>/<model>, such as greenhouse:acme/ats.application"
  ),
  Argument.withDescription("<integration>/<model>, such as greenhouse:acme/ats.application")
)

const streamDetails = (view: StreamView): string => {
  const lines: ReadonlyArray<readonly [string, string | null]> = [
    ["watermark", view.watermark],
    ["last poll", view.last_poll_at],
    ["last sweep", view.last_sweep_at],
    ["blocked", view.blocked && `${view.blocked.reason} since ${view.blocked.since}: ${view.blocked.message}`],
    ["failing", view.failing && `${view.failing.count} times since ${view.failing.since}: ${view.failing.message}`],
    ["pending", Object.entries(view.pending).map(([status, rows]) => `${rows} ${status}`).join(", ") || null]
  ]
  return lines.flatMap(([name, text]) => text === null ? [] : [`${paint("gray", name.padEnd(12))}${text}`]).join("\n")
}

const auditText = ({ differences, differing, pending, quarantined, read, stream }: AuditView): string => {
  const waiting = Object.entries(pending).map(([status, rows]) => `${rows} ${status}`)
  const summary = [
    `${stream}: ${read.toLocaleString("en")} records read, ${differing.toLocaleString("en")} differ`,
    ...(waiting.length === 0 ? [] : [`pending: ${waiting.join(", ")}`]),
    ...(quarantined === 0 ? [] : [`quarantined: ${quarantined}`])
  ].join("; ")
  return differences.length === 0
    ? summary
    : `${summary}\n\n${
      table(["RECORD", "DIFFERENCE", "PATHS"], differences.map(({ id, paths, what }) => [id, what, paths.join(" ")]))
    }`
}

export const streams = <E extends Error>(config: ConfigFlag, connect: ConnectClient<E>) => {
  const streamCommand = (name: string, description: string) =>
    Command.make(name, { stream, json, config }, ({ config, json, stream }) =>
      Effect.gen(function*() {
        const { post } = yield* connect(config)
        const view = yield* post(`${stream}/${name}`, {}, StreamView)
        yield* print(json ? JSON.stringify(view) : streamTable([view]))
      }).pipe(runClientCommand)).pipe(Command.withDescription(description))

  const list = Command.make("list", { json, config }, ({ config, json }) =>
    Effect.gen(function*() {
      const { streams } = yield* connect(config)
      const views = yield* streams
      yield* print(json ? JSON.stringify(views) : streamTable(views))
    }).pipe(runClientCommand)).pipe(Command.withDescription("List all streams"))

  const show = Command.make("show", { stream, json, config }, ({ config, json, stream }) =>
    Effect.gen(function*() {
      const { get } = yield* connect(config)
      const view = yield* get(stream, StreamView)
      yield* print(json ? JSON.stringify(view) : `${streamTable([view])}\n\n${streamDetails(view)}`)
    }).pipe(runClientCommand)).pipe(
      Command.withDescription("Show one stream: watermark, last poll and sweep, and errors")
    )

  const rewind = Command.make("rewind", {
    stream,
    to: Flag.Date("to").pipe(
      Flag.withDescription("API server time from which changes are read again, such as 2026-03-01T12:00:00Z"),
      Flag.withMetavar("instant")
    ),
    json,
    config
  }, ({ config, json, stream, to }) =>
    Effect.gen(function*() {
      const { post } = yield* connect(config)
      const view = yield* post(`${stream}/rewind`, { to: to.toISOString() }, StreamView)
      yield* print(json ? JSON.stringify(view) : streamTable([view]))
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Read a stream's changes again from a point in time; changes that are already published cause no event"
      )
    )

  const audit = Command.make("audit", { stream, json, config }, ({ config, json, stream }) =>
    Effect.gen(function*() {
      const { post } = yield* connect(config)
      const report = yield* post(`${stream}/audit`, {}, AuditView)
      yield* print(json ? JSON.stringify(report) : auditText(report))
      if (report.differing > 0) {
        return yield* new AuditDiffers({ message: `${report.differing} records differ from their published content` })
      }
    }).pipe(runClientCommand)).pipe(
      Command.withDescription(
        "Read a whole stream and compare it with its published records; the exit code is 1 if they differ"
      )
    )

  return Command.make("streams").pipe(
    Command.withDescription("List the streams of the running process, and poll, sweep, pause or audit them"),
    Command.withSubcommands([
      list,
      show,
      streamCommand("pause", "Stop reading a stream until it is resumed"),
      streamCommand("resume", "Read a paused stream again, or retry a blocked stream now"),
      streamCommand("poll", "Poll a stream now"),
      streamCommand("sweep", "Start a sweep of a stream now"),
      streamCommand("backfill", "Start a sweep whose events have the origin backfill"),
      rewind,
      audit
    ])
  )
}
