import { assert, describe, it } from "@effect/vitest"
import { createRequire } from "node:module"
import { afterEach, beforeEach, vi } from "vitest"
import "./KafkaJsCorrections.ts"

interface Queue {
  readonly push: (request: {
    readonly entry: Readonly<Record<string, unknown>>
    readonly expectResponse: boolean
    readonly sendRequest: () => void
  }) => void
  readonly fulfillRequest: (response: Readonly<Record<string, unknown>>) => void
  readonly maybeThrottle: (millis: number) => void
}

const RequestQueue: new(options: Readonly<Record<string, unknown>>) => Queue = createRequire(import.meta.url)(
  "kafkajs/src/network/requestQueue/index.js"
)

const logger = { debug: () => {}, warn: () => {} }

/** The requests of a connection that has one in flight at a time. `sent`: their numbers. */
const makeConnection = () => {
  const queue = new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 30_000,
    clientId: "test",
    broker: "broker:9092",
    logger,
    isConnected: () => true
  })
  const sent: Array<number> = []
  return {
    sent,
    throttle: queue.maybeThrottle.bind(queue),
    request: (correlationId: number) =>
      queue.push({
        entry: { correlationId, resolve: () => {}, reject: () => {} },
        expectResponse: true,
        sendRequest: () => sent.push(correlationId)
      }),
    respond: (correlationId: number) => queue.fulfillRequest({ correlationId, payload: null, size: 0 })
  }
}

describe("a connection of kafkajs", () => {
  beforeEach(() => vi.useFakeTimers())
  afterEach(() => vi.useRealTimers())

  it("sets no timer while no request waits", () => {
    const { request, respond } = makeConnection()
    request(1)
    respond(1)
    assert.strictEqual(vi.getTimerCount(), 0)
  })

  it("sends a request that waits after the response to the one before it", () => {
    const { request, respond, sent } = makeConnection()
    request(1)
    request(2)
    assert.deepStrictEqual(sent, [1])
    respond(1)
    assert.deepStrictEqual(sent, [1, 2])
    vi.advanceTimersByTime(100)
    respond(2)
    assert.strictEqual(vi.getTimerCount(), 0)
  })

  it("sends a request that waits because the broker throttles it, when that time is over", () => {
    const { request, sent, throttle } = makeConnection()
    throttle(500)
    request(1)
    vi.advanceTimersByTime(400)
    assert.deepStrictEqual(sent, [])
    vi.advanceTimersByTime(200)
    assert.deepStrictEqual(sent, [1])
    assert.strictEqual(vi.getTimerCount(), 0)
  })
})
