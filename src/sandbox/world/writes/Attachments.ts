/**
 * Uploaded files. A system keeps them on the application or on the candidate.
 *
 * Gotchas
 * - Contents stay in memory, as base64, while the sandbox runs.
 */
import type { AttachmentUpload } from "../../../api/Attachments.ts"
import { toolOf } from "../../../api/Tools.ts"
import { isLive, type Records, type Row } from "../Records.ts"

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

/** Stores a file. Without an application it goes to the candidate's newest one, if the system attaches files to applications. */
export const storeAttachment = (
  records: Records,
  candidate: Row,
  application: Row | null,
  { content_type, data, name, type }: AttachmentUpload,
  at: number
): Row =>
  records.insert("ats.attachment", at, {
    fields: { type, file_name: name, content_type, data },
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
  if (row === undefined) return null
  const { content_type, data } = row.fields
  return { bytes: Buffer.from(String(data), "base64"), contentType: String(content_type) }
}
