/**
 * Headers of messages. Most headers of a stream's messages have the same value in each message, so the messages share a template
 * with these values, which a driver encodes once.
 */

export interface HeaderTemplate {
  readonly names: ReadonlyArray<string>
  /** The value of each header; null if the value differs between messages. */
  readonly values: ReadonlyArray<string | null>
  /** Upper bound of the encoded size (bytes) without the values that differ between messages. */
  readonly bytes: number
}

export interface Headers {
  readonly template: HeaderTemplate
  /** The values of this message for the headers that are null in the template, in the order of the template. */
  readonly varying: ReadonlyArray<string>
}

/** Longest length prefixes of a header's name and value. */
const prefixBytes = 10

export const template = (headers: Readonly<Record<string, string | null>>): HeaderTemplate => {
  const names = Object.keys(headers)
  const values = Object.values(headers)
  let bytes = prefixBytes * names.length
  for (const text of [...names, ...values]) bytes += Buffer.byteLength(text ?? "")
  return { names, values, bytes }
}

export const none: Headers = { template: template({}), varying: [] }

/** Headers with these values. */
export const fixed = (headers: Readonly<Record<string, string>>): Headers => ({
  template: template(headers),
  varying: []
})

/** Upper bound of the encoded size, bytes. */
export const sizeOf = ({ template, varying }: Headers): number => {
  let { bytes } = template
  for (const value of varying) bytes += Buffer.byteLength(value)
  return bytes
}

export const toRecord = ({ template: { names, values }, varying }: Headers): Record<string, string> => {
  const headers: Record<string, string> = {}
  let next = 0
  for (let i = 0; i < names.length; i++) headers[names[i]!] = values[i] ?? varying[next++]!
  return headers
}
