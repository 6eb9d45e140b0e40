/** A process whose plugin writes to the sandbox for a new tag, prints `written`, and that exports to a collector. */
import type { RunningSandbox } from "../../../src/sandbox/Sandbox.ts"
import { configured } from "../cli/Configured.ts"
import { inDirectory, type Start } from "../cli/Program.ts"
import { Receiver, type Span } from "./Receiver.ts"

/** The name of the tag that a test creates: personal data must not be in a span, and this stands for it. */
export const secretName = "Ada Lovelace"

const plugin = `Plugin.make("tagging", { needs: { writes: ["addTag"] } }).on("ats.tag.created", {
  retry: { first: "1 second" }
}, (event) =>
  event.after.name === "${secretName}"
    ? process.env.BUSY ? new Plugin.Transient({ message: event.after.name + " is busy" }) : Effect.flatMap(Plugin.Api, (api) => api.addTag(process.env.CANDIDATE, { tag: { name: "seen" } })).pipe(
      Effect.map(() => void process.stdout.write("written\\n")))
    : Effect.void)`

export interface Traced {
  readonly collector: Receiver
  readonly sandbox: RunningSandbox
  readonly start: Start
  readonly directory: string
  /** Starts the service; it exports to the collector unless the variables say something else. */
  readonly service: (variables?: Readonly<Record<string, string>>) => ReturnType<Start>
  /** The operating API of the service. */
  readonly api: string
  /** Creates the tag that the plugin handles; returns its id. */
  readonly createTag: () => Promise<string>
}

export const traced = async <A>(use: (traced: Traced) => Promise<A>): Promise<A> => {
  const collector = await Receiver.start()
  try {
    return await inDirectory(async (directory, start, serve) => {
      let sandbox: RunningSandbox | undefined
      const { api, environment, id } = await configured(
        async (options) => sandbox = await serve(options),
        directory,
        plugin
      )
      const running = sandbox!
      const service = (variables: Readonly<Record<string, string>> = {}) =>
        start(
          ["start"],
          {
            ...environment,
            CANDIDATE: running.ids.candidate,
            ROLLCALL_INTERVAL: "1 second",
            OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
            OTEL_BSP_SCHEDULE_DELAY: "100",
            OTEL_METRIC_EXPORT_INTERVAL: "500",
            ...variables
          },
          directory
        )
      const createTag = async () => {
        const created = await running.mutate({
          op: "create",
          integration: id,
          model: "ats.tag",
          fields: { name: secretName }
        })
        return created.id
      }
      return await use({ collector, sandbox: running, start, directory, service, api, createTag })
    })
  } finally {
    await collector.stop()
  }
}

export const named = (spans: ReadonlyArray<Span>, name: string) => spans.filter((span) => span.name === name)

/** The spans of a span's trace from this one to the first, by their parents. */
export const pathOf = (spans: ReadonlyArray<Span>, span: Span): ReadonlyArray<Span> => {
  const parent = spans.find(({ spanId, traceId }) => spanId === span.parentSpanId && traceId === span.traceId)
  return parent === undefined ? [span] : [span, ...pathOf(spans, parent)]
}

export const namesOf = (spans: ReadonlyArray<Span>) => spans.map(({ name }) => name)
