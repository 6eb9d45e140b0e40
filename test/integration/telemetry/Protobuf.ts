/**
 * Decodes the requests of OTLP in the form of protobuf, written after the published `.proto` files: it shares no code with the encoder.
 * The result has the names of OTLP's JSON form.
 */

type Kind = "text" | "hex" | "varint" | "fixed64" | "sfixed64" | "double" | Fields
interface Fields {
  readonly [number: number]: readonly [name: string, kind: Kind, many?: "many"]
}

const anyValue: Fields = {
  1: ["stringValue", "text"],
  2: ["boolValue", "varint"],
  3: ["intValue", "varint"],
  4: ["doubleValue", "double"]
}
const keyValue: Fields = { 1: ["key", "text"], 2: ["value", anyValue] }
const resource: Fields = { 1: ["attributes", keyValue, "many"] }
const scope: Fields = { 1: ["name", "text"], 2: ["version", "text"] }

const event: Fields = { 1: ["timeUnixNano", "fixed64"], 2: ["name", "text"], 3: ["attributes", keyValue, "many"] }
const link: Fields = { 1: ["traceId", "hex"], 2: ["spanId", "hex"], 4: ["attributes", keyValue, "many"] }
const status: Fields = { 2: ["message", "text"], 3: ["code", "varint"] }
const span: Fields = {
  1: ["traceId", "hex"],
  2: ["spanId", "hex"],
  4: ["parentSpanId", "hex"],
  5: ["name", "text"],
  6: ["kind", "varint"],
  7: ["startTimeUnixNano", "fixed64"],
  8: ["endTimeUnixNano", "fixed64"],
  9: ["attributes", keyValue, "many"],
  10: ["droppedAttributesCount", "varint"],
  11: ["events", event, "many"],
  12: ["droppedEventsCount", "varint"],
  13: ["links", link, "many"],
  14: ["droppedLinksCount", "varint"],
  15: ["status", status]
}

const number: Fields = {
  2: ["startTimeUnixNano", "fixed64"],
  3: ["timeUnixNano", "fixed64"],
  4: ["asDouble", "double"],
  6: ["asInt", "sfixed64"],
  7: ["attributes", keyValue, "many"]
}
const distribution: Fields = {
  2: ["startTimeUnixNano", "fixed64"],
  3: ["timeUnixNano", "fixed64"],
  4: ["count", "fixed64"],
  5: ["sum", "double"],
  6: ["bucketCounts", "fixed64", "many"],
  7: ["explicitBounds", "double", "many"],
  9: ["attributes", keyValue, "many"],
  11: ["min", "double"],
  12: ["max", "double"]
}
const metric: Fields = {
  1: ["name", "text"],
  2: ["description", "text"],
  3: ["unit", "text"],
  5: ["gauge", { 1: ["dataPoints", number, "many"] }],
  7: ["sum", {
    1: ["dataPoints", number, "many"],
    2: ["aggregationTemporality", "varint"],
    3: ["isMonotonic", "varint"]
  }],
  9: ["histogram", { 1: ["dataPoints", distribution, "many"], 2: ["aggregationTemporality", "varint"] }]
}

const requestOf = (resources: string, scopes: string, items: string, item: Fields): Fields => ({
  1: [
    resources,
    { 1: ["resource", resource], 2: [scopes, { 1: ["scope", scope], 2: [items, item, "many"] }, "many"] },
    "many"
  ]
})
export const traces = requestOf("resourceSpans", "scopeSpans", "spans", span)
export const metrics = requestOf("resourceMetrics", "scopeMetrics", "metrics", metric)

export const decode = (fields: Fields, bytes: Buffer): Record<string, unknown> => {
  const message: Record<string, unknown> = {}
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n;; shift += 7n) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Error("the message ends inside a number")
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const fixed = (kind: Kind): unknown => {
    at += 8
    if (kind === "double") return bytes.readDoubleLE(at - 8)
    if (kind === "fixed64") return String(bytes.readBigUInt64LE(at - 8))
    return kind === "sfixed64" ? String(bytes.readBigInt64LE(at - 8)) : undefined
  }
  const read = (kind: Kind, wire: number): ReadonlyArray<unknown> => {
    if (wire === 0 && kind === "varint") return [Number(BigInt.asIntN(64, varint()))]
    if (wire === 1) return [fixed(kind)]
    if (wire !== 2) return [undefined]
    const end = Number(varint()) + at
    if (end > bytes.length) throw new Error("a part is cut off")
    // numbers of a list may be packed into one part
    if (kind === "double" || kind === "fixed64") {
      const numbers: Array<unknown> = []
      while (at < end) numbers.push(fixed(kind))
      return numbers
    }
    const part = bytes.subarray(at, at = end)
    if (kind === "text") return [part.toString("utf8")]
    if (kind === "hex") return [part.toString("hex")]
    return [typeof kind === "object" ? decode(kind, part) : undefined]
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const [field, wire] = [tag >> 3, tag & 7]
    const known = fields[field]
    if (known === undefined) throw new Error(`field ${field} is not in the .proto file`)
    const [name, kind, many] = known
    const values = read(kind, wire)
    if (values.includes(undefined)) throw new Error(`${name} has the wire type ${wire}`)
    message[name] = many === undefined
      ? values[0]
      : [...(message[name] as ReadonlyArray<unknown> | undefined) ?? [], ...values]
  }
  return message
}
