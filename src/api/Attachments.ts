/**
 * Files: uploads as base64 inside JSON, and the attachments of an application.
 *
 * Source: docs/contract.md, "Other reads" and "Writes".
 *
 * Gotchas
 * - The limit applies to the whole body, and base64 makes a file a third larger: a file of up to about 24 MiB fits.
 * - The limit is an assumption: the specification does not show it. `data_url` is known from the public TypeScript client.
 */
import * as Schema from "effect/Schema"
import { nullish, oneOf, openEnum, recordIds, remoteTimes, text } from "./Fields.ts"

/** Size limit of a request body. */
export const largestBodyBytes = 32 * 1024 * 1024

const Content = Schema.String.check(Schema.isBase64(), Schema.isMaxLength(largestBodyBytes))

const uploadFields = {
  /** File name. */
  name: Schema.String,
  /** Media type; required with `data`. */
  content_type: text,
  /** Content as base64 with padding. */
  data: nullish(Content),
  /** Instead of `data`: a URL that the API can read without credentials. */
  data_url: text
}

interface UploadedContent {
  readonly content_type?: string | null
  readonly data?: string | null
  readonly data_url?: string | null
}

const hasContent = ({ content_type, data, data_url }: UploadedContent): boolean =>
  data_url != null || (data != null && content_type != null)

const withContent = Schema.makeFilter<UploadedContent>(hasContent, {
  expected: "a file with `data` and `content_type`, or with `data_url`"
})

const fitsTogether = (files: ReadonlyArray<UploadedContent>): boolean =>
  files.reduce((sum, { data }) => sum + (data?.length ?? 0), 0) <= largestBodyBytes

/** A file in a request. */
export const Upload = Schema.Struct(uploadFields).check(withContent)
export type Upload = typeof Upload.Type

export const AttachmentUpload = Schema.Struct({ ...uploadFields, type: openEnum("CV", "COVER_LETTER", "OTHER") })
  .check(withContent).annotate({ identifier: "AttachmentUpload" })
export type AttachmentUpload = typeof AttachmentUpload.Type

/** Several files in one body. */
export const AttachmentUploads = Schema.Array(AttachmentUpload).check(
  Schema.makeFilter(fitsTogether, { expected: `files that together stay under ${largestBodyBytes} bytes of base64` })
)

/** A document for an employee; `category_id` is one of the integration's document categories. */
export const UploadDocument = Schema.Struct({
  category_id: Schema.String,
  document: Upload
}).annotate({ identifier: "UploadDocument" })

/** @deprecated The API recommends attaching to the application instead, but does not document that endpoint. */
export const AddCandidateAttachment = Schema.Struct({ attachment: AttachmentUpload }).annotate({
  identifier: "AddCandidateAttachment"
})

/** An attachment of the application, or of the candidate if the third-party system stores attachments there. */
export const Attachment = Schema.Struct({
  ...recordIds,
  type: oneOf("CV", "COVER_LETTER", "OTHER"),
  /** URL of the file. */
  data_url: text,
  file_name: text,
  content_type: text,
  ...remoteTimes
}).annotate({ identifier: "Attachment" })
export type Attachment = typeof Attachment.Type

export const AttachmentList = Schema.Struct({ results: Schema.Array(Attachment) })
