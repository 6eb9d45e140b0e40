/**
 * Asks the API what a list supports, and writes the module that defines the list.
 *
 * Invariants
 * 1. Neither the module nor an error contains a value of a record   (I11)
 */
import * as Effect from "effect/Effect"
import { isObject, type JsonObject, maxDepth } from "../../domain/Canonical.ts"
import { titleOf } from "../../domain/Model.ts"
import { parseTime } from "../../domain/Watermark.ts"
import { type Page, type PageRequest, Source, type SourceError } from "../../source/Source.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import { CommandError, progressPrinter, refuse } from "../terminal/Process.ts"
import { formatPlural } from "../terminal/Tables.ts"
import { findNested, inferReferences } from "./InferReferences.ts"
import { type Fields, inferFields, schemaText } from "./InferSchema.ts"

export interface Probe extends Pick<PageRequest, "account" | "integration" | "model"> {
  readonly path: string
  /** The number of pages to read. */
  readonly pages: number
}

const report = progressPrinter(false)

type Records = ReadonlyArray<JsonObject>
type Ask = (part: Partial<PageRequest>) => Effect.Effect<Page, SourceError>

const compare = "Compare the path with the API's documentation, and check that the integration's tool offers the list."
const repeat = "Run the command again later."

/** The other reasons have hints that fit this command. */
const hints: { readonly [tag in SourceError["reason"]["_tag"]]?: string } = {
  Forbidden: "Enable the permission in the account's scope configuration, then run the command again.",
  NotReady: `The integration's first synchronization is not finished. ${repeat}`,
  RateLimited: repeat,
  Rejected: compare,
  Transient: `Check the URL of the account and the network. ${repeat}`,
  Unreadable:
    "A list answers with data.results and data.next. Check the path, and that the account's URL is the API's base URL.",
  Unsupported: compare
}

// ---- findings -------------------------------------------------------------------------------------------------------

/** The answer to a further request in words. Its error is a finding too. */
const finding = (request: Effect.Effect<string, SourceError>) =>
  Effect.catch(request, ({ reason }) => Effect.succeed(`unknown, because of an error: ${reason.message}`))

/** In ms; -Infinity for a value that is not a time, or one so far away that a request could not name it. */
const timeOf = (value: unknown): number => {
  const time = parseTime(value) ?? -Infinity
  return time > 0 && time < Date.UTC(2100) ? time : -Infinity
}

const emptyFilter = "returns nothing: sweeps find the changes"

/** Requests the changes after now, and those after shortly before the newest change among the records. */
const checkUpdatedAfter = Effect.fnUntraced(function*(ask: Ask, first: Page, records: Records) {
  const newest = records.reduce((latest, record) => Math.max(latest, timeOf(record["changed_at"])), -Infinity)
  const now = Math.max(first.serverTime ?? first.requestedAt, newest + 1)
  const later = yield* ask({ updatedAfter: now })
  const unchanged = later.results.filter((row) => timeOf(row.changedAt) < now).length
  if (unchanged > 0 && 2 * unchanged >= first.results.length) return "ignored: every poll reads the whole list"
  if (newest === -Infinity) return "supported"
  const recent = yield* ask({ updatedAfter: newest - 1000 })
  return recent.results.length === 0 ? emptyFilter : "supported"
}, finding)

/** Requests one of the records by its id. */
const checkIds = Effect.fnUntraced(function*(ask: Ask, ids: ReadonlyArray<string>) {
  const id = ids.findLast((id) => !id.includes(","))
  if (id === undefined || ids.length < 2) return "unknown: the list has too few records"
  const { results } = yield* ask({ ids: [id] })
  const isAnswer = results.length > 0 && results.every((row) => row.id === id)
  return isAnswer
    ? "supported"
    : "not supported: a missing record is shown as absent, and is never published as deleted"
}, finding)

const isRising = (values: ReadonlyArray<string>) =>
  values.every((value, index) => index === 0 || values[index - 1]! <= value)

const findOrder = (records: Records): string => {
  const name = ["changed_at", "remote_created_at", "id"].find((name) => {
    const values = records.map((record) => record[name]).filter((value) => typeof value === "string")
    return values.length === records.length && isRising(values) !== isRising(values.toReversed())
  })
  return name === undefined ? "not recognized" : `by ${name}`
}

/** `3 of 40 records` */
const share = (records: Records, name: string): string =>
  `${records.filter((record) => (record[name] ?? null) !== null).length} of ${formatPlural(records.length, "record")}`

// ---- the module -----------------------------------------------------------------------------------------------------

const moduleText = ({ model, path }: Probe, findings: ReadonlyArray<string>, fields: Fields, records: Records) => {
  const title = titleOf(model)
  const schema = fields.size === 0 ? null : schemaText(fields, "  ", true)
  const references = inferReferences(fields, records, model.replace(/^.*\./, "")).map(({ kind, path, shared }) =>
    `  //   { path: "${path}", kind: "${kind}", shared: ${JSON.stringify(shared).replaceAll(",", ", ")} },`
  )
  return [
    ...findings.map((line) => `// ${oneLine(line)}`),
    ...schema === null ? [] : ['import * as Schema from "effect/Schema"'],
    'import { defineList } from "rollcall"\n',
    .../\btime\b(?!:)/.test(schema ?? "") ? ['const time = Schema.String.annotate({ format: "date-time" })\n'] : [],
    `export const ${title.charAt(0).toLowerCase()}${title.slice(1)} = defineList("${model}", {`,
    `  path: "${path}",`,
    ...findings.some((line) => line.endsWith(emptyFilter)) ? ["  sweepOnly: true,"] : [],
    ...schema === null ? [] : [`  schema: ${schema},`],
    ...references.length === 0 ? [] : [
      "  // Several records repeat the same record at these paths. With the next lines, its changes are found before the next sweep:",
      `  // references: [\n${references.join("\n")}\n  // ]`
    ],
    "})"
  ].join("\n")
}

export const probeList = Effect.fnUntraced(function*(probe: Probe): Effect.fn.Return<string, CommandError, Source> {
  const { pages: most, path, ...stream } = probe
  const source = yield* Source
  const ask: Ask = (part) =>
    source.page({ ...stream, priority: "poll", cursor: null, updatedAfter: null, ids: null, ...part })
  const pages: Array<Page> = []
  let cursor: string | null = null
  do {
    yield* report(`reading page ${pages.length + 1} of ${path}`)
    const page: Page = yield* Effect.mapError(
      ask({ cursor }),
      ({ reason }) =>
        new CommandError({
          message: `${path} cannot be read: ${reason.message}`,
          hint: hints[reason._tag] ?? reason.hint
        })
    )
    pages.push(page)
    cursor = page.next
  } while (cursor !== null && pages.length < most)
  const rows = pages.flatMap(({ results }) => results)
  const readable = rows.filter(({ depth, id }) => typeof id === "string" && id !== "" && depth <= maxDepth)
  const records = readable.map(({ value }) => value).filter(isObject)
  const [first] = pages
  if (first === undefined || rows.length === 0) {
    return moduleText(probe, [`${path} of ${stream.integration} is empty, so its fields are not known`], new Map(), [])
  }
  if (records.length === 0) {
    return yield* refuse(`no row of ${path} has a text as its id, so ${path} is not a list of records`, compare)
  }
  yield* report(`testing the filters of ${path}`)
  const ids = [...new Set(records.map(({ id }) => String(id)))]
  const fields = inferFields(records)
  const unnamed = new Set(records.flatMap((record) => Object.keys(record))).size - fields.size
  const findings = [
    `${path} of ${stream.integration}: ${formatPlural(records.length, "record")} on ${
      formatPlural(pages.length, "page")
    }${cursor === null ? "" : ", and there are more"}`,
    `- rows that cannot be read: ${rows.length - records.length}; records that appeared twice: ${
      records.length - ids.length
    }`,
    ...unnamed === 0 ? [] : [`- fields that the schema leaves out, because their names may be data: ${unnamed}`],
    `- updated_after: ${yield* checkUpdatedAfter(ask, first, records)}`,
    `- ids: ${yield* checkIds(ask, ids)}`,
    `- include_deleted: ${share(records, "remote_deleted_at")} have remote_deleted_at`,
    `- changed_at: ${share(records, "changed_at")} have it`,
    `- order: ${findOrder(records)}`,
    `- nested records with ids: ${findNested(fields).map(({ path }) => path).join(", ") || "none"}`
  ]
  return moduleText(probe, findings, fields, records)
}, Effect.ensuring(report("")))
