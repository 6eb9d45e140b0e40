/**
 * Uploaded files. Depending on the system, a file belongs to an application or to a candidate.
 *
 * Gotchas
 * - Contents stay in memory, as base64, while the sandbox runs.
 * - A file that is given by its URL is not downloaded: the sandbox sends no requests.
 */
import * as Result from "effect/Result"
import type { AttachmentUpload, Upload } from "../../api/Attachments.ts"
import { toolOf } from "../../api/Tools.ts"
import { type ApiError, invalidInput } from "./ApiError.ts"
import { type Fields, isLive, type Records, type Row } from "./Records.ts"

/** These tools keep attachments on the application, all others on the candidate. */
const toolsAttachingToApplications: ReadonlyArray<string> = ["lever", "ashby"]
const attachesToApplications = ({ integration }: Records): boolean =>
  toolsAttachingToApplications.includes(toolOf(integration))

/** The attachments that this system shows for an application. */
export const attachmentsOf = (records: Records, application: Row): ReadonlyArray<Row> => {
  const candidate = application.one["candidate"]
  const belongs = attachesToApplications(records)
    ? (row: Row) => row.one["application"] === application
    : (row: Row) => candidate != null && row.one["candidate"] === candidate
  return records.rows("ats.attachment").filter((row) => isLive(row) && belongs(row))
}

/** The stored content of a file. The real service gets the type of a file that is given by its URL from the file's server. */
export const contentOf = ({ content_type, data, data_url }: Upload): Fields => ({
  content_type: content_type ?? "application/octet-stream",
  data: data ?? null,
  ...(data == null && { data_url: data_url ?? null })
})

export const isWebAddress = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? "")

/** Rejects a file whose `data_url` is not a web address. */
export const requireReadable = (field: string, { data_url }: Upload): Result.Result<void, ApiError> =>
  data_url == null || isWebAddress(data_url)
    ? Result.succeed(undefined)
    : Result.fail(invalidInput(`${field}.data_url must be an http or https address.`))

/**
 * Stores a file. If the system attaches files to applications and no application is named, the file is added to the candidate's newest
 * application.
 */
export const storeAttachment = (
  records: Records,
  candidate: Row,
  application: Row | null,
  upload: AttachmentUpload,
  at: number
): Row =>
  records.insert("ats.attachment", at, {
    fields: { type: upload.type, file_name: upload.name, ...contentOf(upload) },
    one: {
      candidate,
      application: attachesToApplications(records) ? application ?? newestApplicationOf(records, candidate) : null
    }
  })

const newestApplicationOf = (records: Records, candidate: Row): Row | null =>
  records.rows("ats.application")
    .filter((row) => isLive(row) && row.one["candidate"] === candidate)
    .reduce<Row | null>((newest, row) => newest === null || row.serial > newest.serial ? row : newest, null)

/** The content of an attachment; null if it does not exist. */
export const readAttachment = (records: Records, id: string) => {
  const row = records.find("ats.attachment", id)
  const { content_type, data } = row?.fields ?? {}
  if (typeof data !== "string") return null
  return { bytes: Buffer.from(data, "base64"), contentType: String(content_type) }
}
