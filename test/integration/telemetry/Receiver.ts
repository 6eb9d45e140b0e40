/** A collector: receives OTLP over HTTP as JSON or protobuf, and decodes it. */
import { createServer, type IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import * as Protobuf from "./Protobuf.ts"

interface KeyValue {
  readonly key: string
  readonly value: {
    readonly stringValue?: string
    readonly boolValue?: boolean | number
    readonly intValue?: number | string
    readonly doubleValue?: number
  }
}

interface SentSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes?: ReadonlyArray<KeyValue>
  readonly events?: ReadonlyArray<{ readonly name: string; readonly attributes?: ReadonlyArray<KeyValue> }>
  readonly links?: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
  readonly status?: { readonly code?: number; readonly message?: string }
}

interface DataPoint {
  readonly attributes?: ReadonlyArray<KeyValue>
  readonly asDouble?: number
  readonly asInt?: number | string
  readonly count?: number | string
}

interface SentMetric {
  readonly name: string
  readonly description?: string
  readonly gauge?: { readonly dataPoints?: ReadonlyArray<DataPoint> }
  readonly sum?: { readonly dataPoints?: ReadonlyArray<DataPoint>; readonly isMonotonic?: boolean | number }
  readonly histogram?: { readonly dataPoints?: ReadonlyArray<DataPoint> }
}

interface Sent<Scopes> {
  readonly resource: { readonly attributes: ReadonlyArray<KeyValue> }
  readonly scopes: Scopes
}

export interface Span extends Omit<SentSpan, "attributes" | "links" | "parentSpanId"> {
  readonly parentSpanId: string | null
  readonly attributes: Readonly<Record<string, unknown>>
  readonly links: ReadonlyArray<string>
}

export interface Metric {
  readonly name: string
  readonly type: "gauge" | "counter" | "histogram"
  readonly points: ReadonlyArray<{ readonly labels: Readonly<Record<string, unknown>>; readonly value: number }>
}

export interface Request {
  readonly signal: "traces" | "metrics"
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly resource: Readonly<Record<string, unknown>>
  readonly spans: ReadonlyArray<Span>
  readonly metrics: ReadonlyArray<Metric>
}

const recordOf = (pairs: ReadonlyArray<KeyValue> = []): Record<string, unknown> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]]))

const spanOf = ({ attributes, links = [], parentSpanId = "", ...span }: SentSpan): Span => ({
  ...span,
  parentSpanId: parentSpanId === "" ? null : parentSpanId,
  attributes: recordOf(attributes),
  links: links.map(({ spanId, traceId }) => `${traceId}-${spanId}`)
})

const metricOf = ({ gauge, histogram, name, sum }: SentMetric): Metric => ({
  name,
  type: gauge !== undefined ? "gauge" : sum !== undefined ? "counter" : "histogram",
  points: ((gauge ?? sum ?? histogram)?.dataPoints ?? []).map(({ asDouble, asInt, attributes, count }) => ({
    labels: recordOf(attributes),
    value: Number(asDouble ?? asInt ?? count ?? 0)
  }))
})

const decode = (path: string, headers: IncomingHttpHeaders, body: Buffer): Request => {
  const signal = path.endsWith("/metrics") ? "metrics" : "traces"
  const type = headers["content-type"]
  if (type !== "application/json" && type !== "application/x-protobuf") throw new Error(`content type ${type}`)
  const message = type === "application/json"
    ? JSON.parse(body.toString("utf8"))
    : Protobuf.decode(Protobuf[signal], body)
  const [{ resource, scopes }] = (message.resourceSpans ?? message.resourceMetrics).map(
    ({ resource, scopeMetrics, scopeSpans }: Record<string, unknown>) => ({
      resource,
      scopes: scopeSpans ?? scopeMetrics
    })
  ) as [Sent<ReadonlyArray<{ readonly spans?: Array<SentSpan>; readonly metrics?: Array<SentMetric> }>>]
  return {
    signal,
    path,
    headers,
    resource: recordOf(resource.attributes),
    spans: scopes.flatMap(({ spans = [] }) => spans.map(spanOf)),
    metrics: scopes.flatMap(({ metrics = [] }) => metrics.map(metricOf))
  }
}

/** Answers with a status, or not at all. */
export type Behavior = number | "silent"

export class Receiver {
  readonly requests: Array<Request> = []
  /** Requests that could not be decoded. */
  readonly faults: Array<string> = []
  /** How many requests were received, with any behavior. */
  received = 0
  behavior: Behavior = 200
  #changed: () => void = () => {}
  readonly #server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
      this.received++
      if (this.behavior === 200) {
        try {
          this.requests.push(decode(request.url ?? "", request.headers, Buffer.concat(chunks)))
        } catch (error) {
          this.faults.push(String(error))
        }
      }
      if (this.behavior !== "silent") {
        response.writeHead(this.behavior, { "content-type": "application/json" }).end("{}")
      }
      this.#changed()
    })
  })

  static async start(port = 0): Promise<Receiver> {
    const receiver = new Receiver()
    await new Promise<void>((resolve) => receiver.#server.listen(port, "127.0.0.1", resolve))
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get spans(): ReadonlyArray<Span> {
    return this.requests.flatMap(({ spans }) => spans)
  }

  /** The metrics of the newest request that has some. */
  get metrics(): ReadonlyMap<string, Metric> {
    const newest = this.requests.findLast(({ metrics }) => metrics.length > 0)
    return new Map(newest?.metrics.map((metric) => [metric.name, metric]))
  }

  /** Waits until the received requests satisfy the condition. */
  async until<A>(find: (receiver: Receiver) => A | undefined | false): Promise<A> {
    for (;;) {
      if (this.faults.length > 0) throw new Error(this.faults.join("; "))
      const found = find(this)
      if (found !== undefined && found !== false) return found
      await new Promise<void>((resolve) => this.#changed = resolve)
    }
  }

  stop(): Promise<void> {
    this.#server.closeAllConnections()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }
}
