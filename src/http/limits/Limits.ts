/** The limits on the resources of this process that one client, or all clients together, may use. */
import * as Duration from "effect/Duration"

export interface Limits {
  /** Open connections. */
  readonly connections: number
  /** Readers of server-sent events. */
  readonly eventReaders: number
  /** Time to send the headers of a request, counted from the start of the connection. */
  readonly headers: Duration.Input
  /** Time to send a whole request. */
  readonly request: Duration.Input
  /** Time without progress after which a client that does not read its response is disconnected. */
  readonly stall: Duration.Input
  readonly bodyBytes: number
  /** Total size of pages that are being made or were not received yet, over all connections; at least one page of `maxPageBytes`. */
  readonly pageBytes: number
  /** How long a request waits for the memory of its page. */
  readonly pageWait: Duration.Input
  /** How long a client may take to receive a page while another request waits for memory. */
  readonly pageReceipt: Duration.Input
}

/** Maximum size of a page. A page of a thousand ordinary rows is far smaller. */
export const maxPageBytes = 8 * 1024 * 1024
/** The header `Retry-After` of a refused request, in seconds. */
export const retryAfter = "30"

export const defaults: Limits = {
  connections: 512,
  eventReaders: 128,
  headers: Duration.seconds(10),
  request: Duration.seconds(30),
  stall: Duration.seconds(30),
  bodyBytes: 64 * 1024,
  pageBytes: 8 * maxPageBytes,
  pageWait: Duration.seconds(5),
  pageReceipt: Duration.seconds(30)
}
